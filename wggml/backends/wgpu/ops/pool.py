"""POOL_1D, POOL_2D and POOL_2D_BACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_types
from wggml.backends.wgpu.ops._units import bind_units, named
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.ops.conv import params_at, per_axis
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op, PoolOp
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t)


def _kind(t: Tensor) -> str:
    return "max" if t.param_i32(0) == PoolOp.MAX else "avg"


def _emit(b: PlanBuilder, t: Tensor) -> None:
    x = source(t, 0)
    if t.op == Op.POOL_2D:
        k, s, p = params_at(t, 1, 2), params_at(t, 3, 4), params_at(t, 5, 6)
        size, area = list(x.ne[:2]), "whole"
    else:  # windows of one line: dimension 1 is only passed through
        k, s, p = [t.param_i32(1), 1], [t.param_i32(2), 1], [t.param_i32(3), 0]
        size, area = list(x.ne[:2]), "inside"
    bound = bind_units(b, t, {"x": x})
    b.dispatch(
        "pool/pool_2d.wgsl",
        operands=bound.operands,
        consts={**bound.consts, "kind": _kind(t), "area": area if _kind(t) == "avg" else ""},
        params={**bound.params, **per_axis("kspn", k, s, p, size), **named("x_s", strides_of(x))},
        groups=bound.groups,
        label=t.op.name.lower(),
    )


def _emit_back(b: PlanBuilder, t: Tensor) -> None:
    grad, x = source(t, 0), source(t, 1)
    kind = _kind(t)
    bound = bind_units(b, t, {"grad": grad, "x": x} if kind == "max" else {"grad": grad})
    params = per_axis(
        "kspno", params_at(t, 1, 2), params_at(t, 3, 4), params_at(t, 5, 6), x.ne[:2], grad.ne[:2]
    )
    steps = {**named("grad_s", strides_of(grad)), **named("x_s", strides_of(x))}
    b.dispatch(
        "pool/pool_2d_back.wgsl",
        operands=bound.operands,
        consts={**bound.consts, "kind": kind},
        params={**bound.params, **params, **steps},
        groups=bound.groups,
        label="pool_2d_back",
    )


FAMILY: dict[Op, OpImpl] = {
    Op.POOL_1D: OpImpl(_why_not, _emit),
    Op.POOL_2D: OpImpl(_why_not, _emit),
    Op.POOL_2D_BACK: OpImpl(_why_not, _emit_back),
}
