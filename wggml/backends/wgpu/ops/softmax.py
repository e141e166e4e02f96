"""SOFT_MAX with mask, ALiBi and attention sinks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import optional, source, typed, why_not_strides
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    a, mask = source(t, 0), optional(t, 1)
    if a.type != Type.F32 or a.nb[0] != 4 or t.nb[0] != 4:
        return "rows that are not contiguous f32"
    if mask is not None and mask.type not in (Type.F32, Type.F16):
        return f"a mask of type {type_name(mask.type)}"
    return why_not_strides(t)


def alibi(max_bias: float, n_head: int) -> dict[str, int | float]:
    """Exponents of the ALiBi slopes: head h below n has slope 2^(slope_lo * (h + 1)), the others
    2^(slope_hi * (2 (h - n) + 1)), n being the largest power of two up to `n_head`."""
    n = 1 << math.floor(math.log2(n_head))
    return {"n_head_log2": n, "slope_lo": -max_bias / n, "slope_hi": -max_bias / 2.0 / n}


def _emit(b: PlanBuilder, t: Tensor) -> None:
    a, mask, sinks = source(t, 0), optional(t, 1), optional(t, 2)
    scale, max_bias = t.param_f32(0), t.param_f32(1)
    operands = [b.operand(a, "f32", name="src0"), b.operand(t, "f32", name="dst", write=True)]
    params: dict[str, int | float] = {"n": t.ne[0], "scale": scale}
    rows = {"src0": a, "dst": t}
    if mask is not None:
        op, extra = typed(b, mask, "mask")
        operands.append(op)
        rows["mask"] = mask
        params.update(extra, mask_n2=mask.ne[2], mask_n3=mask.ne[3])
    if sinks is not None:
        operands.append(b.operand(sinks, "f32", name="sinks"))
    if max_bias > 0.0:
        params.update(alibi(max_bias, t.ne[2]))
    b.dispatch(
        "softmax/softmax.wgsl",
        operands=operands,
        consts={
            "W": lanes(b.profile, t.ne[0]), "alibi": max_bias > 0.0,
            "mask_type": type_name(mask.type) if mask is not None else "",
            "has_sinks": sinks is not None,
        },
        params={**params, **row_params(t, 1, **rows)},
        groups=t.n_rows,
        label="soft_max",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {Op.SOFT_MAX: OpImpl(_why_not, _emit)}
