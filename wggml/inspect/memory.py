"""The memory map: the allocator's plan of a graph as rectangles over steps and addresses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from wggml.alloc.plan import BEFORE, Lifetime, Place
from wggml.alloc.plan import Plan as MemoryPlan
from wggml.core.tensor import Tensor
from wggml.inspect.data import Chunk, MemoryBuffer, MemoryMap, Rect
from wggml.inspect.words import kind_of, op_label, type_label
from wggml.sched import Sched
from wggml.sched.alloc_graph import AllocGraph
from wggml.sched.split import Plan

MAX_REUSED = 3  # names that a rectangle lists


def memory_map(sched: Sched, plan: Plan, order: list[Tensor]) -> MemoryMap:
    """The map of the graph that `sched` planned last; `order` are its nodes as they run.

    Empty while memory has not been planned.
    """
    placed, g = sched.memory_plan, sched.alloc_graph_copy
    buffers, index = _buffers(sched, placed)
    out = MemoryMap(len(order), buffers, [])
    if placed is None or g is None:
        return out
    axis = _Axis(g, order)
    copies = {c for made in plan.copies.values() for c in made}
    found = list(_planned(placed, g))
    taken = dict(placed.inplace)
    tensors = [*g.graph.leafs, *g.graph.nodes]
    for t, number, p, life in found:
        operand = tensors[taken[number]].name if number in taken else ""
        chunk, offset = _where(sched, t, p)
        rect = Rect(
            t.name, op_label(t), type_label(t), t.ne, t.nbytes, index[p.buffer_id], chunk,
            offset, p.size, *axis.steps(life), axis.step_of.get(t, BEFORE),
            "copy" if t in copies else kind_of(t), operand,
        )  # fmt: skip
        out.rects.append(rect)
        buffers[rect.buffer].tensor_bytes += p.size
    out.rects.sort(key=lambda r: (r.start, r.buffer, r.chunk, r.offset))
    _note_reuse(out.rects)
    return out


def _buffers(sched: Sched, plan: MemoryPlan | None) -> tuple[list[MemoryBuffer], dict[int, int]]:
    """The kinds of memory, and which of them each buffer id (a backend's index) has."""
    buffers: list[MemoryBuffer] = []
    known: dict[int, int] = {}
    index: dict[int, int] = {}
    for b, buft in enumerate(sched.bufts):
        if id(buft) not in known:
            known[id(buft)] = len(buffers)
            real = [x.size for x in sched.buffers(sched.backends[b])]
            peaks = plan.chunk_sizes[b] if plan is not None else []
            n = max(len(real), len(peaks))
            pairs = zip(peaks + [0] * (n - len(peaks)), real + [0] * (n - len(real)), strict=True)
            buffers.append(MemoryBuffer(buft.name, [], [Chunk(*pair) for pair in pairs]))
        index[b] = known[id(buft)]
        buffers[index[b]].backends.append(b)
    return buffers, index


def _planned(plan: MemoryPlan, g: AllocGraph) -> Iterator[tuple[Tensor, int, Place, Lifetime]]:
    """(tensor, number, place, lifetime) of what has a place; leafs are numbered before nodes.

    By position: a plan may have been made for another graph of the same structure.
    """
    tensors = [*g.graph.leafs, *g.graph.nodes]
    places = [*plan.leafs, *plan.nodes]
    lives = [*plan.leaf_lives, *plan.node_lives]
    for i, (t, p, life) in enumerate(zip(tensors, places, lives, strict=True)):
        if p is not None and life is not None:
            yield t, i, p, life


def _where(sched: Sched, t: Tensor, p: Place) -> tuple[int, int]:
    """(chunk, offset): the tensor's own while it is placed, for copies take turns on the planned
    places."""
    if t.buffer is not None and t.data is not None:
        for chunk, buffer in enumerate(sched.buffers(sched.backends[p.buffer_id])):
            if buffer is t.buffer:
                return chunk, t.data
    return p.chunk, p.offset


class _Axis:
    """From the allocator's steps, which include copies and what orders them, to nodes as they run.

    A tensor made between two nodes is there from the later one on; one given up between them was
    there until the earlier one.
    """

    def __init__(self, g: AllocGraph, order: list[Tensor]) -> None:
        self.step_of = {t: i for i, t in enumerate(order)}
        self.real = [i for i, t in enumerate(g.graph.nodes) if t in self.step_of]
        self.n_alloc = len(g.graph.nodes)

    def steps(self, life: Lifetime) -> tuple[int, int]:
        start = BEFORE if life.start == BEFORE else bisect_left(self.real, life.start)
        end = len(self.real) if life.end >= self.n_alloc else bisect_right(self.real, life.end) - 1
        return start, max(start, end)


def _note_reuse(rects: list[Rect]) -> None:
    """Fill `reused`: for each rectangle the latest ones before it in its bytes."""
    by_chunk: dict[tuple[int, int], list[Rect]] = {}
    for r in rects:
        earlier = by_chunk.setdefault((r.buffer, r.chunk), [])
        if r.size and not r.inplace:
            overlaps = [o for o in earlier if _overlap(o, r)]
            overlaps.sort(key=lambda o: -o.end)
            r.reused = [o.name for o in overlaps[:MAX_REUSED]]
        # what lies wholly under a newer tensor is not what the next one reuses
        by_chunk[r.buffer, r.chunk] = [o for o in earlier if not _covers(r, o)] + [r]


def _overlap(a: Rect, b: Rect) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _covers(a: Rect, b: Rect) -> bool:
    return a.offset <= b.offset and b.offset + b.size <= a.offset + a.size
