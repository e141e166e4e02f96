"""Windows laid out as rows, and back: IM2COL, IM2COL_3D, IM2COL_BACK and COL2IM_1D."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import FLOATS, source, why_not_strides
from wggml.backends.wgpu.ops._units import bind_units
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.ops.conv import add_kernel, params_at, per_axis
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# Which operand is read; of the other one only the shape counts.
DATA = {Op.IM2COL: 1, Op.IM2COL_3D: 1, Op.IM2COL_BACK: 0, Op.COL2IM_1D: 0}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    for s in (t, source(t, DATA[t.op])):
        if s.type not in FLOATS:
            return f"operand {s.name!r} of type {type_name(s.type)}"
    if t.op in (Op.IM2COL_BACK, Op.COL2IM_1D) and not source(t, 0).is_contiguous():
        return "columns that are not contiguous"
    return why_not_strides(t)


def _emit_im2col(b: PlanBuilder, t: Tensor) -> None:
    kernel, x = source(t, 0), source(t, 1)
    xs, ys = strides_of(x), strides_of(t)
    if t.param_i32(6):
        bound = bind_units(b, t, {"x": x})
        k, n = kernel.ne[:2], x.ne[:2]
        s, p, d = params_at(t, 0, 1), params_at(t, 2, 3), params_at(t, 4, 5)
        steps = {"x_s1": xs[1], "x_sc": xs[2], "x_sn": xs[3]}
    else:
        ne, strides = (t.ne[0], t.ne[1], 1, t.ne[2]), (ys[0], ys[1], 0, ys[2])
        bound = bind_units(b, t, {"x": x}, ne=ne, strides=strides)
        k, n = (kernel.ne[0], 1), (x.ne[0], 1)
        s, p, d = [t.param_i32(0), 1], [t.param_i32(2), 0], [t.param_i32(4), 1]
        steps = {"x_s1": 0, "x_sc": xs[1], "x_sn": xs[2]}
    params = per_axis("kspdn", [*k, 1], [*s, 1], [*p, 0], [*d, 1], [*n, 1])
    add_kernel(b, t, "im2col", bound, {**params, "oz": 1, "x_s0": xs[0], "x_s2": 0, **steps})


def _emit_im2col_3d(b: PlanBuilder, t: Tensor) -> None:
    """Planes and batch share the last dimension of the result, channels and batch that of x."""
    kernel, x = source(t, 0), source(t, 1)
    channels = t.param_i32(9)
    batch = x.ne[3] // channels
    xs = strides_of(x)
    params = per_axis(
        "kspdn",
        kernel.ne[:3], params_at(t, 0, 1, 2), params_at(t, 3, 4, 5), params_at(t, 6, 7, 8),
        x.ne[:3],
    )  # fmt: skip
    steps = {f"x_s{i}": xs[i] for i in range(3)}
    steps.update(x_sc=xs[3], x_sn=xs[3] * channels)
    bound = bind_units(b, t, {"x": x})
    add_kernel(b, t, "im2col", bound, {**params, "oz": t.ne[3] // batch, **steps})


def _emit_im2col_back(b: PlanBuilder, t: Tensor) -> None:
    grad, kernel = source(t, 0), source(t, 1)
    gs, ys = strides_of(grad), strides_of(t)
    if t.param_i32(6):
        bound = bind_units(b, t, {"grad": grad})
        params = per_axis(
            "kspdo", kernel.ne[:2], params_at(t, 0, 1), params_at(t, 2, 3), params_at(t, 4, 5),
            grad.ne[1:3],
        )  # fmt: skip
        steps = {"grad_s1": gs[1], "grad_s2": gs[2], "grad_s3": gs[3]}
    else:
        ne, strides = (t.ne[0], 1, t.ne[1], t.ne[2]), (ys[0], 0, ys[1], ys[2])
        bound = bind_units(b, t, {"grad": grad}, ne=ne, strides=strides)
        params = per_axis(
            "kspdo", (kernel.ne[0], 1), (t.param_i32(0), 1), (t.param_i32(2), 0),
            (t.param_i32(4), 1), (grad.ne[1], 1),
        )  # fmt: skip
        steps = {"grad_s1": gs[1], "grad_s2": 0, "grad_s3": gs[2]}
    add_kernel(b, t, "im2col_back", bound, {**params, **steps})


def _emit_col2im_1d(b: PlanBuilder, t: Tensor) -> None:
    x = source(t, 0)
    stride, channels, crop = params_at(t, 0, 1, 2)
    xs = strides_of(x)
    bound = bind_units(b, t, {"x": x})
    params = {
        "k": x.ne[0] // channels, "stride": stride, "crop": crop, "n_t": x.ne[1],
        "x_s0": xs[0], "x_s1": xs[1],
    }  # fmt: skip
    add_kernel(b, t, "col2im_1d", bound, params)


FAMILY: dict[Op, OpImpl] = {
    Op.IM2COL: OpImpl(_why_not, _emit_im2col),
    Op.IM2COL_3D: OpImpl(_why_not, _emit_im2col_3d),
    Op.IM2COL_BACK: OpImpl(_why_not, _emit_im2col_back),
    Op.COL2IM_1D: OpImpl(_why_not, _emit_col2im_1d),
}
