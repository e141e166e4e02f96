"""Gradients of single ops: SILU_BACK, RMS_NORM_BACK, SOFT_MAX_BACK, REPEAT_BACK, GET_ROWS_BACK."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops import reduce
from wggml.backends.wgpu.ops._gather import Pick, gather
from wggml.backends.wgpu.ops._operands import (
    FLOATS,
    bind_elementwise,
    source,
    typed,
    why_not_types,
    workgroup,
)
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.ops._walk import finish, strides_of, walk
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

F32_ONLY = frozenset({Type.F32})
# dx = dy s (1 + x (1 - s)), s = sigmoid(x)
SILU_BACK = "y * sigmoid(x) * (V(1.0) + x * (V(1.0) - sigmoid(x)))"


def _why_not_floats(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t)


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, F32_ONLY)


def _emit_silu(b: PlanBuilder, t: Tensor) -> None:
    dy, x = source(t, 0), source(t, 1)
    bound = bind_elementwise(b, t, {"gate": x, "up": dy})
    bound.consts.pop("gate_vtype")
    bound.consts.pop("up_vtype")
    b.dispatch(
        "elementwise/glu.wgsl",
        operands=bound.operands,
        consts={"stage": False, **bound.consts, "function": SILU_BACK},
        params=bound.params,
        groups=bound.groups,
        label="silu_back",
    )


def _row_back(b: PlanBuilder, t: Tensor, kind: str, params: dict[str, int | float]) -> None:
    operands = {"dy": source(t, 0), "x": source(t, 1), "dst": t}
    b.dispatch(
        "backward/rows.wgsl",
        operands=[b.operand(s, "f32", name=k, write=k == "dst") for k, s in operands.items()],
        consts={"W": lanes(b.profile, t.ne[0]), "kind": kind},
        params={
            "n": t.ne[0], **params, **row_params(t, 1, **operands),
            **{f"{k}_s0": strides_of(s)[0] for k, s in operands.items()},
        },
        groups=t.n_rows,
        label=f"{kind} back",
    )  # fmt: skip


def _emit_rms(b: PlanBuilder, t: Tensor) -> None:
    _row_back(b, t, "rms", {"inv_n": 1.0 / t.ne[0], "eps": t.param_f32(0)})


def _emit_softmax(b: PlanBuilder, t: Tensor) -> None:
    _row_back(b, t, "softmax", {"scale": t.param_f32(0)})


# ---- REPEAT_BACK --------------------------------------------------------------------------------


def _emit_repeat(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    if t.n_elements == 1:  # one lane would add up everything
        reduce.emit_total(b, t)
        return
    x = strides_of(a)
    w = walk(t.ne, {"dst": (t.ne, strides_of(t)), "src0": (t.ne, x)})
    groups = finish(w, 1, workgroup(b.profile))
    b.dispatch(
        "backward/repeat_back.wgsl",
        operands=[b.operand(a, "f32", name="src0"), b.operand(t, "f32", name="dst", write=True)],
        consts=w.consts,
        params={
            **w.params,
            **{f"tiles{i}": a.ne[i] // t.ne[i] for i in range(4)},
            **{f"src0_t{i}": t.ne[i] * x[i] for i in range(4)},
        },
        groups=groups,
        label="repeat_back",
    )  # fmt: skip


# ---- GET_ROWS_BACK ------------------------------------------------------------------------------


def _why_not_get_rows(profile: DeviceProfile, t: Tensor) -> str | None:
    grad, ids = source(t, 0), source(t, 1)
    if grad.type not in FLOATS or t.type != Type.F32:
        return f"rows of type {type_name(grad.type)} into {type_name(t.type)}"
    if ids.type != Type.I32:
        return f"ids of type {type_name(ids.type)}"
    if not t.is_contiguous():
        return "a result that is not contiguous"
    if any(nb % TRAITS[grad.type].type_size for nb in grad.nb):
        return "strides that are not whole elements"
    return None


def _emit_get_rows(b: PlanBuilder, t: Tensor) -> None:
    grad, ids = source(t, 0), source(t, 1)
    gather(b, t, None, Pick(), label="get_rows_back: zeros")
    wg = workgroup(b.profile)
    src0, extra = typed(b, grad, "src0")
    x = strides_of(grad)
    b.dispatch(
        "backward/get_rows_back.wgsl",
        operands=[
            src0, b.operand(ids, "u32", name="ids"), b.operand(t, "f32", name="dst", write=True),
        ],
        consts={"wg": wg, "src0_type": type_name(grad.type)},
        params={
            **extra, "n": t.ne[0], "n_ids": ids.ne[0], "ids_s0": strides_of(ids)[0],
            "src0_s0": x[0], "src0_s1": x[1], "dst_s1": strides_of(t)[1], "dst_rows": t.ne[1],
        },
        groups=math.ceil(t.ne[0] / wg),
        label="get_rows_back",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.SILU_BACK: OpImpl(_why_not_floats, _emit_silu),
    Op.RMS_NORM_BACK: OpImpl(_why_not, _emit_rms),
    Op.SOFT_MAX_BACK: OpImpl(_why_not, _emit_softmax),
    Op.REPEAT_BACK: OpImpl(_why_not, _emit_repeat),
    Op.GET_ROWS_BACK: OpImpl(_why_not_get_rows, _emit_get_rows),
}
