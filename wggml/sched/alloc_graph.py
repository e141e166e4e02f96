"""The graph that the allocator sees: the caller's nodes with the split inputs in front of each
split, plus views that keep tensors allocated for as long as a copy or a backend needs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wggml.alloc.tallocr import place, view_init
from wggml.core.graph import Graph, next_uid
from wggml.core.tensor import MAX_SRC, Tensor
from wggml.errors import SchedulerError
from wggml.hal.interface import Buffer, BufferType
from wggml.sched.passes import UNASSIGNED, describe_tensor
from wggml.sched.split import Plan, Split

Dependencies = dict[Tensor, list[Tensor]]


@dataclass(slots=True, eq=False)
class AllocGraph:
    """`graph` with the backend index of each of its nodes and leafs."""

    graph: Graph
    node_ids: list[int] = field(default_factory=list)
    leaf_ids: list[int] = field(default_factory=list)

    def add_node(self, t: Tensor, backend: int) -> None:
        self.graph.nodes.append(t)
        self.node_ids.append(backend)

    def add_leaf(self, t: Tensor, backend: int) -> None:
        if backend == UNASSIGNED and t.view_src is None and t.buffer is None and t.data is None:
            raise SchedulerError(
                f"{describe_tensor(t)} is in the graph, but nothing computes with it, so no "
                "backend has to hold it. Mark it with set_input() or set_output(), allocate it "
                "beforehand, or leave it out"
            )
        self.graph.leafs.append(t)
        self.leaf_ids.append(backend)


def optimize_splits(plan: Plan) -> Dependencies:
    """Let each backend reorder its split and name what must stay allocated until a node has run.

    The plan must be applied. Stamps each split's graph with a uid.
    """
    deps: Dependencies = {}

    def keep(t: Tensor, until: Tensor) -> None:
        kept = deps.setdefault(until, [])
        if t not in kept:
            kept.append(t)

    for split in plan.splits:
        n = len(split.graph.nodes)
        split.backend.graph_optimize(split.graph, keep)
        if len(split.graph.nodes) != n:
            raise SchedulerError(
                f"backend {split.backend.name} changed a split of {n} nodes to "
                f"{len(split.graph.nodes)} in graph_optimize; it may only reorder them"
            )
        split.graph.uid = next_uid()
    return deps


def build_alloc_graph(plan: Plan, deps: Dependencies, *, current_first: bool = False) -> AllocGraph:
    """The allocator's graph for an applied plan.

    ggml lists copies by index. With `current_first` the current one leads, so that the graph has
    the same structure whatever the copy index and one memory plan serves all (`rotate_places`).
    """
    out = AllocGraph(Graph(_capacity(plan)))
    used: set[Tensor] = set()
    for split in plan.splits:
        _add_inputs(out, plan, split)
        for t in split.graph.nodes:
            out.add_node(t, plan.assignment.id_of(t))
            if t in deps:
                used.add(t)
                _add_dependencies(out, plan, split, deps[t])
    for until in deps:
        if until not in used:
            raise SchedulerError(
                f"a backend asked in graph_optimize to keep memory until {describe_tensor(until)} "
                "has run, which is no node of the graph"
            )
    _add_leafs(out, plan, current_first=current_first)
    return out


def _capacity(plan: Plan) -> int:
    """Capacity of the allocator's graph: it is filled directly and has no limit of its own."""
    return 2 * (len(plan.graph.nodes) + len(plan.graph.leafs) + len(plan.made))


def _add_inputs(out: AllocGraph, plan: Plan, split: Split) -> None:
    for s in split.inputs:
        # holds the original until the copy has been made
        dep = plan.made.view_tensor(s)
        dep.src = [s]
        out.add_node(dep, plan.assignment.id_of(s))
        out.add_node(plan.copy_of(s, split.backend_id), split.backend_id)


def _add_dependencies(out: AllocGraph, plan: Plan, split: Split, kept: list[Tensor]) -> None:
    for k in range(0, len(kept), MAX_SRC):
        dep = plan.made.view_tensor(kept[k])
        dep.src = list(kept[k : k + MAX_SRC])
        out.add_node(dep, split.backend_id)


def _add_leafs(out: AllocGraph, plan: Plan, *, current_first: bool) -> None:
    """Copies first, so that they get places that do not move with the graph's other leafs."""
    for t, b in copied_tensors(plan):
        copies = plan.copies[t, b]
        first = plan.cur_copy if current_first else 0
        for copy in copies[first:] + copies[:first]:
            out.add_leaf(copy, b)
    for leaf in plan.graph.leafs:
        out.add_leaf(leaf, plan.assignment.id_of(leaf))


def copied_tensors(plan: Plan) -> list[tuple[Tensor, int]]:
    """Keys of `plan.copies` whose copies, one per copy index, keep places of their own."""
    if plan.n_copies == 1:
        return []
    inputs = [(leaf, plan.assignment.id_of(leaf)) for leaf in plan.graph_inputs]
    return inputs + [(s, split.backend_id) for split in plan.splits for s in split.inputs]


def rotate_places(plan: Plan, owns: Callable[[Tensor], bool]) -> None:
    """After a graph with `current_first` was placed: give every copy the place that belongs to its
    index, so that the next run's copies lie elsewhere though its memory plan is the same. An input
    that the user placed (`owns` is false) stays there."""
    moved: dict[Tensor, tuple[Buffer | None, int | None]] = {}
    for key in dict.fromkeys(copied_tensors(plan)):
        copies, cur = plan.copies[key], plan.cur_copy
        if not all(owns(c) for c in copies):
            continue
        places = [(c.buffer, c.data) for c in copies[cur:] + copies[:cur]]
        moved |= zip(copies, places, strict=True)
    for t, (buffer, data) in moved.items():
        if t.buffer is not buffer or t.data != data:
            assert buffer is not None and data is not None
            place(t, buffer, data)
    for t in (*plan.graph.leafs, *plan.graph.nodes, *plan.made):
        if t.view_src in moved and t.buffer is not None:
            view_init(t)


class PreviousIds:
    """ggml's rule for when a stored memory plan cannot be used: a position has another buffer type
    than it had in the graph that was split before, whether memory was planned for that one or not.

    It goes with the allocator's `positional` key; with the `safe` one the allocator itself compares
    the ids with those it planned for.
    """

    __slots__ = ("_bufts", "_leafs", "_nodes")

    def __init__(self, bufts: Sequence[BufferType]) -> None:
        self._bufts = bufts
        # [current, previous]; positions never written count as backend 0
        self._nodes: list[list[int]] = [[], []]
        self._leafs: list[list[int]] = [[], []]

    def split(self, g: AllocGraph) -> None:
        """A graph was split: it is the current one now."""
        for pair, ids in ((self._nodes, g.node_ids), (self._leafs, g.leaf_ids)):
            pair.reverse()
            pair[0][: len(ids)] = ids

    def changed(self, g: AllocGraph) -> bool:
        """Whether the stored memory plan puts tensors of `g` on another backend's memory."""
        return _differ(self._bufts, self._nodes[1], g.node_ids) or _differ(
            self._bufts, self._leafs[1], g.leaf_ids
        )


def _differ(bufts: Sequence[BufferType], before: list[int], now: list[int]) -> bool:
    pairs = itertools.zip_longest(before[: len(now)], now, fillvalue=0)
    return any(a != b and bufts[a] is not bufts[b] for a, b in pairs)
