"""Bringing independent small nodes together, so that their kernels can share a dispatch.

The allocator gives memory away in node order: of the three projections of an attention layer the
second may be told to write where the first one's input was, and then they can no longer run side by
side. So before memory is given out, small nodes that do not depend on each other are moved next to
each other, and what they read is kept until the last of them has run. Large nodes fill a device by
themselves and stay where they are: keeping their operands would cost memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wggml.backends.wgpu.plan import runs
from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Op
from wggml.core.tensor import Tensor

MAX_GROUP = 4  # as many parts as a joined dispatch may have
LOOK_AHEAD = 32
SMALL = 1 << 16  # elements
FEW_COLUMNS = 8

_ONE_LANE = frozenset({
    Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SCALE, Op.UNARY, Op.GLU, Op.ROPE, Op.SET_ROWS, Op.GET_ROWS,
    Op.CPY, Op.CONT,
})  # fmt: skip


# What the kernel of a product can do besides (ops/_mm_epilogue.py).
_FOLLOWS = frozenset({Op.ADD, Op.GLU, Op.ROPE, Op.SET_ROWS})


def kind(t: Tensor) -> str | None:
    """Nodes of one kind have workgroups of one size; None for nodes that stay alone."""
    if not runs(t):
        return None
    if t.op == Op.MUL_MAT:
        few = t.ne[1] * t.ne[2] * t.ne[3] <= FEW_COLUMNS
        return "product" if few else None
    return "map" if t.op in _ONE_LANE and t.n_elements <= SMALL else None


def gather(graph: Graph, keep: Callable[[Tensor, Tensor], None]) -> None:
    """Reorder `graph.nodes` in place and ask to `keep` what the members of a group read."""
    nodes = graph.nodes
    kinds = [kind(t) for t in nodes]
    done = [False] * len(nodes)
    place = {t: i for i, t in enumerate(nodes)}
    order: list[Tensor] = []
    for i, t in enumerate(nodes):
        if done[i]:
            continue
        done[i] = True
        order.append(t)
        if kinds[i] is None:
            continue
        members = [t]
        for j in _partners(nodes, kinds, done, place, i):
            for v in _views_before(nodes, done, place, j):
                done[v] = True
                order.append(nodes[v])
            done[j] = True
            order.append(nodes[j])
            members.append(nodes[j])
        followers = _followers(nodes, members) if kinds[i] == "product" else []
        for m in members:
            for s in m.src:
                if s is None or _root(s).buffer is not None:
                    continue
                for until in [*followers, *members[-1:]]:
                    if until is not m:
                        keep(s, until)
    graph.nodes[:] = order


def _partners(
    nodes: Sequence[Tensor],
    kinds: Sequence[str | None],
    done: Sequence[bool],
    place: dict[Tensor, int],
    i: int,
) -> list[int]:
    """Later nodes of the same kind that can run beside node `i`, whatever lies between."""
    reads, writes = _touched(nodes[i])
    found: list[int] = []
    for j in range(i + 1, min(i + LOOK_AHEAD, len(nodes))):
        t = nodes[j]
        if done[j] or t.op in VIEW_OPS or t.op == Op.NONE:
            continue
        r, w = _touched(t)
        free = not (r & writes) and not (w & (reads | writes))
        if free and kinds[j] == kinds[i]:
            found.append(j)
            if len(found) == MAX_GROUP - 1:
                break
        reads |= r
        writes |= w
    return found


def _followers(nodes: Sequence[Tensor], members: Sequence[Tensor]) -> list[Tensor]:
    """What may run together with the products `members`: the nodes that read them, and the store
    of a rotated key."""
    roots = set(members)
    found: list[Tensor] = []
    first = nodes.index(members[0])
    for t in nodes[first : first + 2 * LOOK_AHEAD]:
        if t.op in _FOLLOWS and any(s is not None and _root(s) in roots for s in t.src):
            found.append(t)
            if t.op == Op.ROPE:
                roots.add(t)
    return found


def _touched(t: Tensor) -> tuple[set[Tensor], set[Tensor]]:
    """Roots that a node reads and writes."""
    return {_root(s) for s in t.src if s is not None}, {_root(t)}


def _root(t: Tensor) -> Tensor:
    return t.view_src or t


def _views_before(
    nodes: Sequence[Tensor], done: Sequence[bool], place: dict[Tensor, int], j: int
) -> list[int]:
    """View nodes that node `j` reads through and that have not been put in order yet."""
    found: list[int] = []
    stack = [s for s in nodes[j].src if s is not None]
    while stack:
        s = stack.pop()
        at = place.get(s)
        if at is None or done[at] or s.op not in VIEW_OPS or at in found:
            continue
        found.append(at)
        stack += [u for u in s.src if u is not None]
    return sorted(found)
