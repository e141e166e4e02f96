"""SET and ACC, which change a window of a tensor, and ADD_ID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_types, workgroup
from wggml.backends.wgpu.ops._views import copy_whole, emit_add, part
from wggml.backends.wgpu.ops._walk import Dim, Walk, finish, strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def _window(t: Tensor) -> Tensor:
    """The part of `t` that is changed: the shape of the second source, with the byte strides
    op_params[0:3] from byte op_params[3] on."""
    nb1, nb2, nb3, offset = (t.param_i32(i) for i in range(4))
    return part(t, source(t, 1).ne, (TRAITS[t.type].type_size, nb1, nb2, nb3), offset)


def _why_not_set(profile: DeviceProfile, t: Tensor) -> str | None:
    for s in (source(t, 0), source(t, 1)):
        if s.type != t.type:
            return f"operands of type {type_name(s.type)} and {type_name(t.type)}"
    traits = TRAITS[t.type]
    if traits.blck_size != 1:
        return f"a window of a {type_name(t.type)} tensor"
    if any(t.param_i32(i) % traits.type_size for i in range(4)):
        return "a window whose strides are not whole elements"
    return None


def _why_not_acc(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32})) or _why_not_set(profile, t)


def _emit_set(b: PlanBuilder, t: Tensor) -> None:
    if not t.param_i32(4):  # else the result is a view of the first source
        copy_whole(b, t, source(t, 0), "set: all")
    if not source(t, 1).is_empty():
        copy_whole(b, _window(t), source(t, 1), "set: window")


def _emit_acc(b: PlanBuilder, t: Tensor) -> None:
    if not t.param_i32(4):
        copy_whole(b, t, source(t, 0), "acc: all")
    if not source(t, 1).is_empty():
        emit_add(b, _window(t), _window(t), source(t, 1))


# ---- ADD_ID -----------------------------------------------------------------------------------


def _why_not_add_id(profile: DeviceProfile, t: Tensor) -> str | None:
    a, rows, ids = (source(t, i) for i in range(3))
    if ids.type != Type.I32 or {a.type, rows.type, t.type} != {Type.F32}:
        return "anything but f32 with i32 ids"
    return None


def _emit_add_id(b: PlanBuilder, t: Tensor) -> None:
    """t[i0, slot, token] = a[i0, slot, token] + rows[i0, ids[slot, token]]"""
    a, rows, ids = (source(t, i) for i in range(3))
    y, x, r, k = strides_of(t), strides_of(a), strides_of(rows), strides_of(ids)
    by_id = (0, k[0], k[1], 0)
    dims = [
        Dim(
            t.ne[i],
            {"dst": y[i], "src0": x[i], "src1": 0 if i else r[0], "ids": by_id[i]},
            dict.fromkeys(("dst", "src0", "src1", "ids"), 0),
        )
        for i in range(t.n_dims)
    ]
    w = Walk(dims, ("dst", "src0", "src1", "ids"))
    groups = finish(w, 1, workgroup(b.profile))
    b.dispatch(
        "rows/add_id.wgsl",
        operands=[
            b.operand(a, "f32", name="src0"), b.operand(rows, "f32", name="src1"),
            b.operand(ids, "u32", name="ids"), b.operand(t, "f32", name="dst", write=True),
        ],
        consts=w.consts,
        params={**w.params, "src1_row": r[1]},
        groups=groups,
        label="add_id",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.SET: OpImpl(_why_not_set, _emit_set),
    Op.ACC: OpImpl(_why_not_acc, _emit_acc),
    Op.ADD_ID: OpImpl(_why_not_add_id, _emit_add_id),
}
