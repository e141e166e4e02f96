"""Operands of plain element types, and how results of 16-bit types are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wggml.backends.wgpu.ops._walk import Walk, finish, tensor_walk
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

FLOATS = frozenset({Type.F32, Type.F16, Type.BF16})
HALVES = frozenset({Type.F16, Type.BF16})


def optional(t: Tensor, i: int) -> Tensor | None:
    """Operand `i`, None when absent."""
    return t.src[i] if i < len(t.src) else None


def source(t: Tensor, i: int) -> Tensor:
    """Operand `i`, which the op cannot do without."""
    s = optional(t, i)
    assert s is not None, f"{t.op.name} {t.name!r} lacks operand {i}"
    return s


def why_not_types(t: Tensor, allowed: frozenset[Type] = FLOATS) -> str | None:
    """A reason when an operand or the result has another type."""
    for s in (t, *t.src):
        if s is not None and s.type not in allowed:
            return f"operand {s.name!r} of type {type_name(s.type)}"
    return why_not_strides(t)


def why_not_strides(t: Tensor) -> str | None:
    """A reason when strides of an operand are no whole elements."""
    for s in (t, *t.src):
        if s is not None and any(nb % TRAITS[s.type].type_size for nb in s.nb):
            return f"strides {s.nb} of {s.name!r} are not whole {type_name(s.type)} elements"
    return None


def workgroup(profile: DeviceProfile) -> int:
    """Lanes of an element-wise workgroup."""
    return 64 if profile.is_software else min(128, profile.max_invocations)


def typed(
    b: PlanBuilder,
    t: Tensor,
    name: str,
    *,
    write: bool = False,
    atomic: bool = False,
    elem: str | None = None,
    byte_offset: int = 0,
    nbytes: int | None = None,
) -> tuple[Operand, dict[str, int | float]]:
    """`t` as an array of f32 (or `elem`), or of u32 for other types; for types below 32 bits also
    the parameter `<name>_h`, the first element's place in its word."""
    size = TRAITS[t.type].type_size
    n = t.nbytes - byte_offset if nbytes is None else nbytes
    if size >= 4:
        elem = elem or ("f32" if t.type == Type.F32 else "u32")
        return b.operand(
            t, elem, name=name, write=write, byte_offset=byte_offset, nbytes=n
        ), {}  # fmt: skip
    assert t.data is not None
    phase = (t.data + byte_offset) % 4
    op = b.operand(
        t, "atomic<u32>" if atomic else "u32", name=name, write=write,
        byte_offset=byte_offset - phase, nbytes=n + phase,
    )  # fmt: skip
    return op, {f"{name}_h": phase // size}


@dataclass(slots=True)
class Bound:
    """Operands, constants and parameters of an element-wise dispatch."""

    operands: list[Operand] = field(default_factory=list)
    consts: dict[str, object] = field(default_factory=dict)
    params: dict[str, int | float] = field(default_factory=dict)
    groups: int | tuple[int, int, int] = 0


def bind_elementwise(b: PlanBuilder, t: Tensor, sources: Mapping[str, Tensor]) -> Bound:
    """How a kernel reads `sources` (by operand name) and writes `t`, element by element.

    f32 throughout goes by vec4s where layouts allow; 16-bit results go by pairs, or by atomics
    where a word is shared between lanes.
    """
    tensors = {**sources, "dst": t}
    w = tensor_walk(t.ne, tensors)
    if all(s.type == Type.F32 for s in tensors.values()) and _quads(b, w, tensors):
        return _bind_quads(b, w, tensors)
    store = _store(b, w, t)
    out = Bound(groups=finish(w, 2 if store == "pair" else 1, workgroup(b.profile)))
    for name, s in tensors.items():
        # An operand that shares words with an atomically written result is read atomically too.
        shared = s.placed_in is t.placed_in and s.type in HALVES
        atomic = store == "atomic" and shared
        op, params = typed(b, s, name, write=name == "dst", atomic=atomic)
        out.operands.append(op)
        out.params.update(params)
        out.consts[f"{name}_type"] = TRAITS[s.type].name
        if name != "dst":
            out.consts[f"{name}_atomic"] = atomic
            out.consts[f"{name}_vtype"] = "f32"
    out.consts.update(w.consts, store=store, vtype="f32")
    out.params.update(w.params)
    return out


def _quads(b: PlanBuilder, w: Walk, tensors: Mapping[str, Tensor]) -> bool:
    if not w.is_dense("dst", 4) or not b.starts_on(tensors["dst"], 16):
        return False
    return all(
        w.is_single(name) or (w.is_dense(name, 4) and b.starts_on(s, 16))
        for name, s in tensors.items()
    )


def _bind_quads(b: PlanBuilder, w: Walk, tensors: Mapping[str, Tensor]) -> Bound:
    out = Bound()
    for name, s in tensors.items():
        single = w.is_single(name) and name != "dst"
        out.operands.append(
            b.operand(s, "f32" if single else "vec4<f32>", name=name, write=name == "dst")
        )
        out.consts[f"{name}_type"] = "f32"
        if name != "dst":
            out.consts[f"{name}_atomic"] = False
            out.consts[f"{name}_vtype"] = "f32" if single else "vec4<f32>"
        if not single:
            for i, d in enumerate(w.dims):
                d.period[name] //= 4 if i == 0 else 1
                d.stride[name] //= 4 if i else 1
    out.groups = finish(w, 4, workgroup(b.profile))
    out.consts.update(w.consts, store="whole", vtype="vec4<f32>")
    out.params.update(w.params)
    return out


def _store(b: PlanBuilder, w: Walk, t: Tensor) -> str:
    if TRAITS[t.type].type_size >= 4:
        return "whole"
    return "pair" if w.is_dense("dst", 2) and b.starts_on(t, 4) else "atomic"
