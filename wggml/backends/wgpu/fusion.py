"""When several nodes may run in one dispatch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wggml.core.opcodes import VIEW_OPS, Flag
from wggml.core.tensor import Tensor
from wggml.errors import UsageError

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

ENV_FUSION = "WGGML_FUSION"
KINDS = {
    "merge": "independent kernels share a dispatch",
    "norm": "a norm with the sum before it, weight and bias behind it",
    "residual": "a matrix product adds the residual",
    "scale": "a norm between products: its sum is taken by one, its factor applied by the next",
    "glu": "gate, up and the gated unit",
    "rope": "q, k and v with rotation, k and v put into the cache",
}
ALL = frozenset(KINDS)
_OUTPUT = int(Flag.OUTPUT)


def from_environment() -> frozenset[str]:
    """The kinds that WGGML_FUSION names (all unless set, `0` none). Raises `UsageError` on an
    unknown word."""
    text = os.environ.get(ENV_FUSION, "1").strip()
    if text in ("0", "1"):
        return ALL if text == "1" else frozenset()
    words = frozenset(filter(None, (w.strip() for w in text.split(","))))
    unknown = sorted(words - ALL)
    if unknown:
        raise UsageError(
            f"{ENV_FUSION}={text!r}: {unknown} is no fusion; 0, 1 or a list of {', '.join(KINDS)}"
        )
    return words


def can_run_with(b: PlanBuilder, t: Tensor, k: int) -> bool:
    """True when the result of `t` is needed by `b.upcoming[k]` alone, so it need not be written.

    That it is used once is what the graph's use counts say; a result that the user reads, or that
    is a view into other memory (in-place on a root that lives on), is always written.
    """
    if "norm" not in b.fusion or k >= len(b.upcoming):
        return False
    return is_inner(b, t) and b.use_counts.get(t) == 1 and t in b.upcoming[k].src


def is_inner(b: PlanBuilder, t: Tensor) -> bool:
    """True when only nodes of the graph can see the result of `t`."""
    return not t.flags & _OUTPUT and t.view_src is None


def only_user(b: PlanBuilder, t: Tensor) -> tuple[int, Tensor] | None:
    """(index in `b.upcoming`, node) of the only node that reads `t`, as it is or through views that
    show all of it in order; else None."""
    if not is_inner(b, t):
        return None
    for k, node in enumerate(b.upcoming):
        for s in node.src:
            if s is not None and _shows(b, s, t):
                return k, node
    return None


def _shows(b: PlanBuilder, s: Tensor, t: Tensor) -> bool:
    """True when `s` is `t` or a whole view of it, and nobody looks at anything on the way else."""
    if s is not t and (s.view_src is not t or not s.is_contiguous() or not t.is_contiguous()):
        return False
    if s.view_offs != t.view_offs or s.n_elements != t.n_elements or s.type != t.type:
        return False
    at: Tensor | None = s
    while at is not None and at is not t:
        if b.use_counts.get(at) != 1 or at.flags & _OUTPUT or at.op not in VIEW_OPS:
            return False
        at = at.src[0]
    return at is t and b.use_counts.get(t) == 1


def may_run_early(b: PlanBuilder, t: Tensor, k: int, chain: tuple[Tensor, ...]) -> bool:
    """True when node `k` ahead, `t`, may run now, together with the nodes `chain` it follows: no
    node between touches what it writes, or writes what it reads."""
    reads = [s for s in t.src if s is not None and (s.view_src or s) not in chain]
    for u in b.upcoming[:k]:
        if u in chain:
            continue
        if _shares(t, u) or any(_shares(u, s) for s in reads):
            return False
        if any(_shares(t, s) for s in u.src if s is not None):
            return False
    return True


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
