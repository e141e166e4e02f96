"""Results whose elements are picked from a source by an index expression, or are constants.

shaders/shape/gather.wgsl moves the bits; an op is an entry of words and numbers here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.wgpu.ops._operands import why_not_strides, workgroup
from wggml.backends.wgpu.ops._walk import Dim, Walk, finish, strides_of
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder


@dataclass(frozen=True, slots=True)
class Pick:
    """WGSL over `i` (coordinates of the result), `n` (sizes of the source) and `a` (numbers of the
    op), all vec4<u32>: `j` is what element to take, `keep` whether to, `other` the bits otherwise.
    """

    j: str = "i"
    keep: str = "true"
    other: str = "P.other"


def why_not_gather(t: Tensor) -> str | None:
    """Elements of 2 or 4 bytes and one type."""
    for s in (t, *t.src):
        if s is not None and s.type != t.type:
            return f"operands of type {type_name(s.type)} and {type_name(t.type)}"
    traits = TRAITS[t.type]
    if traits.blck_size != 1 or traits.type_size not in (2, 4):
        return f"elements of type {type_name(t.type)}"
    return why_not_strides(t)


def bits_of(value: float, type_: Type) -> int:
    """The bits of a number in a float type of 2 or 4 bytes; too large ones become infinite."""
    with np.errstate(over="ignore"):
        if type_ == Type.F16:
            return int(np.float16(value).view(np.uint16))
        bits = int(np.float32(value).view(np.uint32))
    if type_ == Type.BF16:
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return bits


def gather(
    b: PlanBuilder,
    t: Tensor,
    src: Tensor | None,
    pick: Pick,
    a: tuple[int, ...] = (),
    *,
    other: int = 0,
    extra: dict[str, int | float] | None = None,
    label: str = "",
) -> None:
    """t[i] = src[pick.j] or `other` (bits). Without `src` all is `pick.other`; `extra` are further
    parameters that it names."""
    store = _store(b, t)
    w = _dst_walk(t)
    groups = finish(w, 2 if store == "pair" else 1, workgroup(b.profile))
    atomic = store == "atomic"
    shared = atomic and src is not None and src.placed_in is t.placed_in
    operands, params = [], dict(w.params)
    params.update({f"a{k}": a[k] if k < len(a) else 0 for k in range(4)}, other=other)
    if src is not None:
        op, more = _words(b, src, "src0", atomic=shared)
        operands.append(op)
        params.update(more)
        for k in range(4):
            params[f"src0_n{k}"] = src.ne[k]
            params[f"src0_s{k}"] = strides_of(src)[k] if src.ne[k] > 1 else 0
    op, more = _words(b, t, "dst", write=True, atomic=atomic)
    operands.append(op)
    params.update(more, **(extra or {}))
    b.dispatch(
        "shape/gather.wgsl",
        operands=operands,
        consts={
            **w.consts, "reads": src is not None, "j": pick.j, "keep": pick.keep,
            "other": pick.other, "store": store, "width": TRAITS[t.type].type_size,
            "src0_atomic": shared,
        },
        params=params,
        groups=groups,
        label=label or t.op.name.lower(),
    )  # fmt: skip


def _dst_walk(t: Tensor) -> Walk:
    """Loops over the result with its own dimensions, none merged: expressions see coordinates."""
    s = strides_of(t)
    return Walk([Dim(t.ne[i], {"dst": s[i]}, {"dst": 0}) for i in range(t.n_dims)], ("dst",))


def _store(b: PlanBuilder, t: Tensor) -> str:
    if TRAITS[t.type].type_size == 4:
        return "whole"
    return "pair" if _dst_walk(t).is_dense("dst", 2) and b.starts_on(t, 4) else "atomic"


def _words(
    b: PlanBuilder, t: Tensor, name: str, *, write: bool = False, atomic: bool = False
) -> tuple[Operand, dict[str, int | float]]:
    """`t` as u32 words; for 16-bit types also `<name>_h`, the first element's place in its word."""
    assert t.data is not None
    phase = t.data % 4
    op = b.operand(
        t, "atomic<u32>" if atomic else "u32", name=name, write=write, byte_offset=-phase,
        nbytes=t.nbytes + phase,
    )  # fmt: skip
    return op, {f"{name}_h": phase // 2} if TRAITS[t.type].type_size == 2 else {}
