"""Direct convolutions: CONV_2D, CONV_3D, CONV_2D_DW, CONV_TRANSPOSE_1D and CONV_TRANSPOSE_2D.

Images run through the kernels for volumes, signals through those for images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._conv_texels import AXES, convolve
from wggml.backends.wgpu.ops._operands import Bound, source, typed, why_not_types, workgroup
from wggml.backends.wgpu.ops._units import bind_units, read
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# Output channels a lane computes at once: each value of the image is loaded once for all of them.
CHANNELS_AT_ONCE = 4


def per_axis(names: str, *groups: Sequence[int]) -> dict[str, int]:
    """Parameters such as sx, sy, sz: one letter of `names` per group, one axis per entry."""
    return {
        f"{name}{axis}": v
        for name, group in zip(names, groups, strict=True)
        for axis, v in zip(AXES, group, strict=False)
    }


def params_at(t: Tensor, *at: int) -> list[int]:
    return [t.param_i32(i) for i in at]


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t)


def _emit_conv_2d(b: PlanBuilder, t: Tensor) -> None:
    w, x = source(t, 0), source(t, 1)
    ws, xs, ys = strides_of(w), strides_of(x), strides_of(t)
    geometry = per_axis(
        "kspdno",
        [*w.ne[:2], 1], [*params_at(t, 0, 1), 1], [*params_at(t, 2, 3), 0],
        [*params_at(t, 4, 5), 1], [*x.ne[:2], 1], [*t.ne[:2], 1],
    )  # fmt: skip
    steps = {
        **_steps("x_s", xs[0], xs[1], 0, c=xs[2], n=xs[3]),
        **_steps("w_s", ws[0], ws[1], 0, c=ws[2], o=ws[3]),
        **_steps("dst_s", ys[0], ys[1], 0, o=ys[2], n=ys[3]),
    }
    _dense(b, t, x.ne[2], t.ne[2], t.ne[3], {**geometry, **steps})


def _emit_conv_3d(b: PlanBuilder, t: Tensor) -> None:
    """Channels and batch (for the kernel: channels and outputs) share the last dimension."""
    w, x = source(t, 0), source(t, 1)
    channels, n, n_out = params_at(t, 9, 10, 11)
    geometry = per_axis(
        "kspdno",
        w.ne[:3], params_at(t, 0, 1, 2), params_at(t, 3, 4, 5), params_at(t, 6, 7, 8), x.ne[:3],
        t.ne[:3],
    )  # fmt: skip
    ws, xs, ys = strides_of(w), strides_of(x), strides_of(t)
    steps = {
        **_steps("x_s", *xs[:3], c=xs[3], n=xs[3] * channels),
        **_steps("w_s", *ws[:3], c=ws[3], o=ws[3] * channels),
        **_steps("dst_s", *ys[:3], o=ys[3], n=ys[3] * n_out),
    }
    _dense(b, t, channels, n_out, n, {**geometry, **steps})


def _steps(prefix: str, *spatial: int, **others: int) -> dict[str, int]:
    named = {f"{prefix}{i}": v for i, v in enumerate(spatial)}
    return {**named, **{f"{prefix}{k}": v for k, v in others.items()}}


def _dense(
    b: PlanBuilder, t: Tensor, channels: int, n_out: int, n: int, params: dict[str, int]
) -> None:
    """Every output channel from all input channels."""
    at_once = CHANNELS_AT_ONCE if n_out >= CHANNELS_AT_ONCE else 1
    n_at = params["ox"] * params["oy"] * params["oz"] * n
    params = {**params, "channels": channels, "n_out": n_out, "n_at": n_at, "n": n}
    if convolve(b, t, source(t, 0), source(t, 1), params):
        return
    wg = workgroup(b.profile)
    chunks = -(-n_at // wg)
    store = "whole" if TRAITS[t.type].type_size >= 4 else "atomic"
    bound = Bound()
    for name, s in (("w", source(t, 0)), ("x", source(t, 1))):
        read(b, bound, s, name)
    dst, extra = typed(b, t, "dst", write=True, atomic=store == "atomic")
    b.dispatch(
        "conv/conv.wgsl",
        operands=[*bound.operands, dst],
        consts={
            **bound.consts, "wg": wg, "R": at_once, "store": store, "dst_type": TRAITS[t.type].name,
        },
        params={**bound.params, **extra, **params, "chunks": chunks},
        groups=chunks * -(-n_out // at_once),
        label=t.op.name.lower(),
    )  # fmt: skip


def _emit_depthwise(b: PlanBuilder, t: Tensor) -> None:
    w, x = source(t, 0), source(t, 1)
    bound = bind_units(b, t, {"w": w, "x": x})
    geometry = per_axis(
        "kspdn", w.ne[:2], params_at(t, 0, 1), params_at(t, 2, 3), params_at(t, 4, 5), x.ne[:2]
    )
    ws = strides_of(w)
    steps = {**_steps("x_s", *strides_of(x)), **_steps("w_s", ws[0], ws[1], c=ws[3])}
    add_kernel(b, t, "depthwise", bound, {**geometry, **steps})


def _emit_transpose_1d(b: PlanBuilder, t: Tensor) -> None:
    w, x = source(t, 0), source(t, 1)
    ws, xs, ys = strides_of(w), strides_of(x), strides_of(t)
    ne, strides = (t.ne[0], 1, t.ne[1], t.ne[2]), (ys[0], 0, ys[1], ys[2])
    params = {
        **per_axis("kno", [w.ne[0], 1, 1], [x.ne[0], 1, 1], [t.ne[0], 1, 1]),
        "channels": x.ne[1], "stride": t.param_i32(0), "stride_y": 1,
        **_steps("x_s", xs[0], 0, 0, c=xs[1], n=xs[2]),
        **_steps("w_s", ws[0], 0, 0, o=ws[1], c=ws[2]),
    }  # fmt: skip
    _transposed(b, t, ne, strides, params)


def _emit_transpose_2d(b: PlanBuilder, t: Tensor) -> None:
    w, x = source(t, 0), source(t, 1)
    ws, xs = strides_of(w), strides_of(x)
    params = {
        **per_axis("kno", [*w.ne[:2], 1], [*x.ne[:2], 1], [*t.ne[:2], 1]),
        "channels": x.ne[2], "stride": t.param_i32(0), "stride_y": t.param_i32(0),
        **_steps("x_s", xs[0], xs[1], 0, c=xs[2], n=xs[3]),
        **_steps("w_s", ws[0], ws[1], 0, o=ws[2], c=ws[3]),
    }  # fmt: skip
    _transposed(b, t, t.ne, strides_of(t), params)


def _transposed(b: PlanBuilder, t: Tensor, ne: Shape4, ys: Shape4, params: dict[str, int]) -> None:
    """`ne`, `ys`: the result as [width, height, output channels, batch]."""
    w, x = source(t, 0), source(t, 1)
    dst = _steps("dst_s", ys[0], ys[1], 0, o=ys[2], n=ys[3])
    n_at = ne[0] * ne[1] * ne[3]
    places = {**params, **dst, "n_out": ne[2], "n_at": n_at, "n": ne[3]}
    if convolve(b, t, w, x, places, transposed=True):
        return
    add_kernel(b, t, "transposed", bind_units(b, t, {"w": w, "x": x}, ne=ne, strides=ys), params)


def add_kernel(
    b: PlanBuilder, t: Tensor, shader: str, bound: Bound, params: dict[str, int]
) -> None:
    """Run template `conv/<shader>.wgsl` for `t`, with `params` besides those of the walk."""
    b.dispatch(
        f"conv/{shader}.wgsl",
        operands=bound.operands,
        consts=bound.consts,
        params={**bound.params, **params},
        groups=bound.groups,
        label=t.op.name.lower(),
    )


FAMILY: dict[Op, OpImpl] = {
    Op.CONV_2D: OpImpl(_why_not, _emit_conv_2d),
    Op.CONV_3D: OpImpl(_why_not, _emit_conv_3d),
    Op.CONV_2D_DW: OpImpl(_why_not, _emit_depthwise),
    Op.CONV_TRANSPOSE_1D: OpImpl(_why_not, _emit_transpose_1d),
    Op.CONV_TRANSPOSE_2D: OpImpl(_why_not, _emit_transpose_2d),
}
