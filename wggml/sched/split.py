"""Pass 5: cut a graph into runs of one backend each, with copies of what lies elsewhere.

The result is a `Plan`. It lists how sources have to be rewired to the copies; the graph itself is
touched only between `apply` and `restore`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wggml.core.context import Context
from wggml.core.graph import Graph, next_uid
from wggml.core.opcodes import VIEW_OPS, Flag
from wggml.core.tensor import Tensor
from wggml.errors import SchedulerError
from wggml.hal.interface import Backend, BufferUsage
from wggml.sched.passes import INPUT, UNASSIGNED, Assignment, describe_tensor

PINNED = int(Flag.INPUT | Flag.OUTPUT)  # placed early, never overwritten by the allocator


@dataclass(slots=True, eq=False)
class Split:
    """Consecutive nodes that one backend runs.

    Attributes:
        backend_id, backend: who runs it.
        i_start, i_end: its nodes in the caller's graph, end exclusive.
        inputs: tensors to copy to the backend before it runs.
        graph: its nodes, with a uid of its own.
    """

    backend_id: int
    backend: Backend
    i_start: int
    i_end: int = 0
    inputs: list[Tensor] = field(default_factory=list)
    graph: Graph = field(default_factory=lambda: Graph(1))


@dataclass(slots=True, eq=False)
class Rewire:
    """`node.src[i]` is `old` in the caller's graph and `new` while a plan is applied."""

    node: Tensor
    i: int
    old: Tensor
    new: Tensor


@dataclass(slots=True, eq=False)
class Plan:
    """How one graph runs: assignment, splits, copies.

    Attributes:
        graph: the caller's graph; `uid` is the stamp it got and `n_nodes` its length then.
        copies: (tensor, backend index) -> its copies there, one per copy index.
        graph_inputs: INPUT leafs that have a copy per copy index (pipeline parallelism only).
        rewires, flag_changes: differences to the caller's graph while the plan is applied;
            a flag change is (tensor, bits that are added).
        made: tensors the scheduler made, in order: copies, then dependency views.
    """

    graph: Graph
    assignment: Assignment
    n_copies: int
    cur_copy: int
    uid: int = 0
    n_nodes: int = 0
    splits: list[Split] = field(default_factory=list)
    copies: dict[tuple[Tensor, int], list[Tensor]] = field(default_factory=dict)
    graph_inputs: list[Tensor] = field(default_factory=list)
    rewires: list[Rewire] = field(default_factory=list)
    flag_changes: list[tuple[Tensor, int]] = field(default_factory=list)
    made: Context = field(default_factory=lambda: Context(sys.maxsize, name="scheduler"))
    _rewired: list[tuple[list[Tensor | None], int, Tensor, Tensor]] = field(default_factory=list)

    def copy_of(self, t: Tensor, backend: int) -> Tensor:
        """The copy of `t` on a backend that the current run uses."""
        return self.copies[t, backend][self.cur_copy]

    def apply(self) -> None:
        """Let the caller's nodes read the copies."""
        for src, i, new, _ in self._slots():
            src[i] = new
        for t, added in self.flag_changes:
            t.flags |= added

    def restore(self) -> None:
        """Give the caller's graph back as it was built."""
        for src, i, _, old in self._slots():
            src[i] = old
        for t, added in self.flag_changes:
            t.flags &= ~added

    def _slots(self) -> list[tuple[list[Tensor | None], int, Tensor, Tensor]]:
        """The rewirings as (source list, position, new, old): every run goes through them twice,
        and tuples take half the time of records."""
        if len(self._rewired) != len(self.rewires):
            self._rewired = [(r.node.src, r.i, r.new, r.old) for r in self.rewires]
        return self._rewired

    @contextmanager
    def applied(self) -> Iterator[None]:
        self.apply()
        try:
            yield
        finally:
            self.restore()


def cut(graph: Graph, assignment: Assignment, n_copies: int, cur_copy: int) -> Plan:
    """Pass 5 on an assigned graph: splits, copies and rewirings. Stamps `graph` with a new uid."""
    plan = Plan(graph, assignment, n_copies, cur_copy, next_uid(), len(graph.nodes))
    graph.uid = plan.uid
    _cut_into_splits(plan)
    if n_copies > 1:
        _copy_graph_inputs(plan)
    for split in plan.splits:
        split.graph = graph.view(split.i_start, split.i_end)
    return plan


def _cut_into_splits(plan: Plan) -> None:
    a, nodes, ids = plan.assignment, plan.graph.nodes, plan.assignment.ids
    first = next((ids[t] for t in nodes if t.op not in VIEW_OPS), 0)
    split = Split(first, a.backends[first], 0)
    plan.splits.append(split)
    for i, t in enumerate(nodes):
        if t.op in VIEW_OPS:
            continue
        b = ids[t]
        if b != split.backend_id or (split.inputs and _brings_another_weight(a, t, b)):
            split.i_end = i
            split = Split(b, a.backends[b], i)
            plan.splits.append(split)
        for j, s in enumerate(t.src):
            if s is not None and ids.get(s, UNASSIGNED) != b:
                _read_from(plan, split, t, j, s)
    split.i_end = len(nodes)


def _brings_another_weight(a: Assignment, t: Tensor, b: int) -> bool:
    """Whether `t` reads a weight that must be copied: in a split of its own it may take the memory
    of the weights that were copied before."""
    return any(
        s.buffer is not None
        and s.buffer.usage is BufferUsage.WEIGHTS
        and a.id_of(s) != b
        and not a.reads_tensor(b, s)
        for s in t.src
        if s is not None
    )


def _read_from(plan: Plan, split: Split, t: Tensor, j: int, s: Tensor) -> None:
    """Make node `t` of `split` read its source `s`, which is on another backend, or a copy."""
    a, b = plan.assignment, split.backend_id
    if a.id_of(s) == UNASSIGNED:
        raise SchedulerError(
            f"source {j} of {describe_tensor(t)}, {describe_tensor(s)}, belongs to no backend: it "
            "has no memory, is no graph input and nothing tells where it should lie. Mark it with "
            "set_input(), allocate it beforehand, or assign it with set_tensor_backend()"
        )
    if a.reads_tensor(b, s):
        return
    copies = plan.copies.get((s, b))
    if copies is None:
        copies = [_new_copy(plan, s, b, c, "4.cpy") for c in range(plan.n_copies)]
        plan.copies[s, b] = copies
        split.inputs.append(s)
        if plan.n_copies > 1:
            for copy in copies:
                copy.flags |= PINNED
    plan.rewires.append(Rewire(t, j, s, copies[plan.cur_copy]))


def _copy_graph_inputs(plan: Plan) -> None:
    """With several copies in flight, each INPUT leaf gets a place per copy index; the leaf itself
    serves as the current one, so that the user writes next to what is still being read."""
    a = plan.assignment
    for leaf in plan.graph.leafs:
        if not leaf.flags & INPUT:
            continue
        b = a.id_of(leaf)
        if (leaf, b) not in plan.copies:
            others = range(plan.n_copies)
            copies = [
                leaf if c == plan.cur_copy else _new_copy(plan, leaf, b, c, "6.cpy") for c in others
            ]
            for copy in copies:
                if copy is leaf:
                    plan.flag_changes.append((leaf, PINNED & ~leaf.flags))
                else:
                    copy.flags |= PINNED
            plan.copies[leaf, b] = copies
        plan.graph_inputs.append(leaf)


def _new_copy(plan: Plan, s: Tensor, backend: int, index: int, cause: str) -> Tensor:
    copy = Tensor(s.type, s.ne, s.nb, ctx=plan.made)
    copy.set_name(f"{plan.assignment.backends[backend].name}#{s.name}#{index}")
    plan.made.tensors.append(copy)
    plan.assignment.put(copy, backend, cause)
    return copy
