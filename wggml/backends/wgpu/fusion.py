"""When several nodes may run in one dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.core.opcodes import Flag
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

_OUTPUT = int(Flag.OUTPUT)


def can_run_with(b: PlanBuilder, t: Tensor, k: int) -> bool:
    """True when the result of `t` is needed by `b.upcoming[k]` alone, so it need not be written.

    That it is used once is what the graph's use counts say; a result that the user reads, or that
    is a view into other memory (in-place on a root that lives on), is always written.
    """
    if not b.fusion or k >= len(b.upcoming):
        return False
    if t.flags & _OUTPUT or t.view_src is not None:
        return False
    return b.use_counts.get(t) == 1 and any(s is t for s in b.upcoming[k].src)


def overlaps_badly(dst: Tensor, *sources: Tensor) -> bool:
    """True when `dst` shares bytes with a source it does not match element by element: the
    allocator assumed that nodes run one after the other, and may have given memory of an early
    source to a late result."""
    return any(_shares(dst, s) and not _same_place(dst, s) for s in sources)


def _same_place(a: Tensor, b: Tensor) -> bool:
    return a.data == b.data and a.ne == b.ne and a.nb == b.nb and a.type == b.type


def _shares(a: Tensor, b: Tensor) -> bool:
    if a.placed_in is not b.placed_in:
        return False
    assert a.data is not None and b.data is not None
    return a.data < b.data + b.nbytes and b.data < a.data + a.nbytes
