"""Kernels with one lane per element of a result that need its four coordinates.

Unlike `_walk`, dimensions are not merged. The templates are built on shaders/include/units.wgsl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wggml.backends.wgpu.ops._operands import Bound, typed, workgroup
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def bind_units(
    b: PlanBuilder,
    t: Tensor,
    sources: dict[str, Tensor],
    *,
    ne: Shape4 | None = None,
    strides: Shape4 | None = None,
) -> Bound:
    """Operands `sources` and `dst`, and loops over `t` seen with sizes `ne` and `strides` (in
    elements; default its own). The caller adds its parameters and dispatches.

    Neighbouring lanes take elements that lie next to each other. 16-bit results go by pairs where
    those are whole words, else by atomics.
    """
    ne = ne or t.ne
    strides = strides or strides_of(t)
    order = _by_stride(ne, strides)
    store = _store(b, t, ne, strides, order)
    out = Bound()
    for name, s in sources.items():
        read(b, out, s, name)
    dst, params = typed(b, t, "dst", write=True, atomic=store == "atomic")
    out.operands.append(dst)
    n = [ne[i] for i in order]
    if store == "pair":
        n[0] //= 2
    n_units = n[0] * n[1] * n[2] * n[3]
    wg = workgroup(b.profile)
    out.consts.update(wg=wg, store=store, dst_type=TRAITS[t.type].name, order=order)
    out.params.update(params)
    out.params.update(n0=n[0], n1=n[1], n2=n[2], n_units=n_units)
    out.params.update(named("dst_s", strides))
    out.groups = -(-n_units // wg)
    return out


def read(b: PlanBuilder, out: Bound, t: Tensor, name: str) -> None:
    """Add `t` as an operand that the template reads by `<name>_at(element)`."""
    op, params = typed(b, t, name)
    out.operands.append(op)
    out.params.update(params)
    out.consts[f"{name}_type"] = TRAITS[t.type].name


def named(prefix: str, values: Sequence[int]) -> dict[str, int]:
    """Parameters prefix0, prefix1 ..."""
    return {f"{prefix}{i}": v for i, v in enumerate(values)}


def _by_stride(ne: Shape4, strides: Shape4) -> tuple[int, int, int, int]:
    """Dimensions, those with the shortest steps first, those without steps last."""
    real = sorted((i for i in range(4) if ne[i] > 1), key=lambda i: strides[i])
    if real == sorted(real):  # no permutation: one variant for all such results
        return (0, 1, 2, 3)
    a, c, d, e = [*real, *(i for i in range(4) if ne[i] <= 1)]
    return (a, c, d, e)


def _store(b: PlanBuilder, t: Tensor, ne: Shape4, strides: Shape4, order: Shape4) -> str:
    if TRAITS[t.type].type_size >= 4:
        return "whole"
    inner, *outer = order
    even = ne[inner] % 2 == 0 and strides[inner] == 1 and b.starts_on(t, 4)
    return "pair" if even and not any(strides[i] % 2 for i in outer) else "atomic"
