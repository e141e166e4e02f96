"""`Sched`: one graph over several backends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn

from wggml.alloc.gallocr import Gallocr
from wggml.alloc.plan import Plan as MemoryPlan
from wggml.core.graph import DEFAULT_GRAPH_SIZE, Graph
from wggml.core.tensor import Tensor
from wggml.errors import SchedulerError, UsageError
from wggml.hal.interface import Backend, Buffer, BufferType, BufferUsage, DeviceType
from wggml.sched import report
from wggml.sched.alloc_graph import (
    AllocGraph,
    PreviousIds,
    build_alloc_graph,
    optimize_splits,
    rotate_places,
)
from wggml.sched.passes import (
    GGML_PASSES,
    Assignment,
    assign,
    check_user_choices,
    describe_tensor,
)
from wggml.sched.pipeline import MAX_COPIES, Pipeline
from wggml.sched.run import CopyCallback, EvalCallback, Runner, Step, prepare_steps
from wggml.sched.split import Plan, Split, cut


class Sched:
    """Decides which backend runs which node, allocates the graph over their memory and runs it.

    Args:
        backends: in priority order; the last one must be of type CPU, it takes what is left.
        bufts: memory that each backend's share is allocated in (default: the backend's own type).
        graph_size: nodes to expect. Only a hint: nothing here has a fixed capacity.
        parallel: keep 4 copies of all inputs, so that several runs can be in flight.
        n_copies: another number of copies than `parallel` gives.
        op_offload: let a better backend compute with weights in host memory when it wants to.
        key: `safe` reuses a memory plan only for a graph of the same structure; `positional` is
            ggml's own rule, which accepts any graph whose tensors have the same sizes in order.

    The caller's graph is the same after every call as before it, but for its `uid` and for the
    places (`buffer`, `data`) that `alloc_graph` gives its tensors. `reset`, and planning another
    graph, take those places back.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        bufts: Sequence[BufferType] | None = None,
        graph_size: int = DEFAULT_GRAPH_SIZE,
        parallel: bool = False,
        n_copies: int | None = None,
        op_offload: bool = True,
        key: Literal["safe", "positional"] = "safe",
    ) -> None:
        self.backends: tuple[Backend, ...] = tuple(backends)
        self.bufts: tuple[BufferType, ...] = _checked(self.backends, bufts)
        self.op_offload = op_offload
        self.graph_size = graph_size
        self._galloc = Gallocr(self.bufts, key=key)
        self._previous_ids = PreviousIds(self.bufts) if key == "positional" else None
        copies = n_copies if n_copies is not None else (MAX_COPIES if parallel else 1)
        self._pipeline = Pipeline(self.backends, copies)
        self._debug = _env_level("WGGML_SCHED_DEBUG")
        trace = _say if _env_level("WGGML_BACKEND_DEBUG") else None
        self._runner = Runner(self.backends, self._pipeline.markers, trace)
        self._user: dict[Tensor, int] = {}
        self._plan: Plan | None = None  # of the graph split last
        self._alloc_graph: AllocGraph | None = None
        self._steps: list[Step] | None = None  # set while the plan's graph is allocated
        self._memory_planned = False  # the allocator's plan is the one of `_alloc_graph`
        self._placed: list[tuple[Tensor, int | None]] = []
        self._eval: EvalCallback | None = None
        self._on_copy: CopyCallback | None = None
        self._closed = False

    # ---- planning ------------------------------------------------------------------------------

    def split_graph(self, graph: Graph) -> list[Split]:
        """Assign and cut `graph` without allocating it; returns the splits.

        Raises `UnsupportedOpError` when no backend runs a node and `SchedulerError` when a tensor
        cannot be placed.
        """
        self._forget()
        self._make_plan(graph)
        return self.splits

    def reserve(self, graph: Graph) -> None:
        """Make buffers large enough for `graph`, the largest one to come. Nothing is allocated
        afterwards. Raises `AllocationError` when the memory cannot be had."""
        self._check_open()
        self.synchronize()
        self._forget()
        plan, g = self._make_plan(graph)
        with plan.applied():
            self._galloc.reserve_n(g.graph, g.node_ids, g.leaf_ids)
        self._memory_planned = True

    def reserve_size(self, graph: Graph) -> list[int]:
        """Bytes that `graph` needs per backend; plans only, no buffer is made."""
        self._check_open()
        self._forget()
        self.synchronize()
        plan, g = self._make_plan(graph)
        with plan.applied():
            sizes = self._galloc.reserve_n_size(g.graph, g.node_ids, g.leaf_ids)
        self._memory_planned = True
        return sizes

    def alloc_graph(self, graph: Graph) -> None:
        """Split `graph` and give its tensors their places, so that inputs can be set and the
        graph can be computed any number of times. Another allocated graph is forgotten."""
        self._check_open()
        self._forget()
        self._pipeline.advance()
        plan, g = self._make_plan(graph)
        before = _unplaced(graph)
        try:
            with plan.applied():
                self._allocate(g)
            self._memory_planned = True
            if self._previous_ids is None:
                rotate_places(plan, self._galloc.owns)
            self._runner.reclaim_inputs(plan, self._pipeline)
            self._steps = prepare_steps(plan, self._pipeline, self.bufts)
        finally:
            self._placed = before
            if self._steps is None:
                self._forget()

    def reset(self) -> None:
        """Forget the allocated graph and all user assignments."""
        self._forget()
        self._user.clear()

    def _make_plan(self, graph: Graph) -> tuple[Plan, AllocGraph]:
        self._check_open()
        self._memory_planned = False
        self._release_stale(graph)
        a = Assignment(self.backends, self.bufts, self.op_offload)
        for t, b in self._user.items():
            a.put(t, b, "usr")
        if self._previous_ids is None:
            check_user_choices(a, graph)
            assign(a, graph)
        else:  # ggml leaves it to the backend to fail
            assign(a, graph, GGML_PASSES)
        plan = cut(graph, a, self._pipeline.n_copies, self._pipeline.cur)
        with plan.applied():
            deps = optimize_splits(plan)
            g = build_alloc_graph(plan, deps, current_first=self._previous_ids is None)
            if self._debug:
                _say(report.describe(plan, self._debug))
        if self._previous_ids is not None:
            self._previous_ids.split(g)
        self._plan, self._alloc_graph = plan, g
        return plan, g

    def _allocate(self, g: AllocGraph) -> None:
        if len(self.backends) == 1:
            self._runner.synchronize()  # the allocator may then replace its memory by itself
        if self._place(g):
            return
        # inputs of what is still running may move; `synchronize` would also rewind the copies
        self._runner.synchronize()
        self._galloc.reserve_n(g.graph, g.node_ids, g.leaf_ids)
        if not self._galloc.alloc_graph(g.graph, stamp=False):
            raise SchedulerError(
                f"the memory plan made for a graph of {len(g.graph.nodes)} nodes does not fit it; "
                "the graph must not change while it is being allocated"
            )

    def _place(self, g: AllocGraph) -> bool:
        """Place the graph by the stored memory plan; False when that does not serve it."""
        if self._previous_ids is None:
            return self._galloc.alloc_graph(g.graph, g.node_ids, g.leaf_ids, stamp=False)
        if self._previous_ids.changed(g):
            return False
        return self._galloc.alloc_graph(g.graph, stamp=False)

    def _forget(self) -> None:
        """Nothing is allocated any more: take back the places given to the caller's tensors."""
        self._steps = None
        placed, self._placed = self._placed, []
        for t, data in placed:
            t.buffer, t.data = None, data

    def _release_stale(self, graph: Graph) -> None:
        """Take back places in compute buffers that exist no more, given by a scheduler that was
        closed; refuse anything else in freed memory."""
        for tensors in (graph.leafs, graph.nodes):
            for t in tensors:
                buffer = t.placed_in
                if buffer is not None and buffer.freed:
                    _release(t, buffer)

    # ---- running -------------------------------------------------------------------------------

    def graph_compute(self, graph: Graph) -> bool:
        """Compute and wait. As `graph_compute_async`."""
        complete = self.graph_compute_async(graph)
        self.synchronize()
        return complete

    def graph_compute_async(self, graph: Graph) -> bool:
        """Start computing `graph`; `synchronize` waits for it. A graph other than the allocated
        one is split and allocated first. Returns False when the evaluation callback stopped it.
        """
        plan, steps = self._plan, self._steps
        if (
            steps is None
            or plan is None
            or plan.graph is not graph
            or plan.uid != graph.uid
            or plan.n_nodes != len(graph.nodes)
        ):
            self.alloc_graph(graph)
            plan, steps = self._plan, self._steps
            assert plan is not None and steps is not None
        return self._runner.run(plan, steps, self._eval, self._on_copy)

    def synchronize(self) -> None:
        """Wait for all backends. When no graph is allocated, the next one uses copy 0."""
        self._runner.synchronize()
        if self._steps is None:
            self._pipeline.rewind()

    def set_eval_callback(self, callback: EvalCallback | None) -> None:
        """Call `callback(t, True)` before each node: answer whether its data is wanted; then
        `callback(t, False)` when it is there: answer False to stop the whole computation. Sources
        of `t` on other backends appear as their copies."""
        self._eval = callback

    @property
    def eval_callback(self) -> EvalCallback | None:
        """The callback that was set last."""
        return self._eval

    def set_copy_callback(self, callback: CopyCallback | None) -> None:
        """Call `callback(src, dst, split)` before each input copy; True means that the callback
        has filled `dst` itself. Host weights come last, when the split's other inputs are there.
        """
        self._on_copy = callback

    # ---- assignments ---------------------------------------------------------------------------

    def set_tensor_backend(self, t: Tensor, backend: Backend) -> None:
        """Have `t` computed (or, for a leaf, placed) by `backend`, from the next split to the next
        `reset`. Raises `SchedulerError` for a backend that is not one of the scheduler's."""
        self._user[t] = self._index(backend)

    def get_tensor_backend(self, t: Tensor) -> Backend | None:
        """Who computes or holds `t` by the last split, or by the user's wish; else None."""
        b = -1 if self._plan is None else self._plan.assignment.id_of(t)
        b = self._user.get(t, b)
        return None if b < 0 else self.backends[b]

    def _index(self, backend: Backend) -> int:
        for i, b in enumerate(self.backends):
            if b is backend:
                return i
        names = ", ".join(b.name for b in self.backends)
        raise SchedulerError(f"backend {backend.name} does not belong to this scheduler: {names}")

    # ---- facts ---------------------------------------------------------------------------------

    @property
    def n_backends(self) -> int:
        return len(self.backends)

    @property
    def n_copies(self) -> int:
        """Copies kept of every input; 1 without pipeline parallelism."""
        return self._pipeline.n_copies

    @property
    def cur_copy(self) -> int:
        """Copy that the graph allocated last uses."""
        return self._pipeline.cur

    @property
    def splits(self) -> list[Split]:
        """Splits of the graph split last."""
        return [] if self._plan is None else self._plan.splits

    @property
    def n_splits(self) -> int:
        return len(self.splits)

    @property
    def causes(self) -> dict[Tensor, str]:
        """Why each tensor is where it is, for the graph split last."""
        return {} if self._plan is None else self._plan.assignment.causes

    @property
    def plan(self) -> Plan | None:
        """Everything decided for the graph split last."""
        return self._plan

    @property
    def alloc_graph_copy(self) -> AllocGraph | None:
        """The graph as the allocator sees it, for the graph split last."""
        return self._alloc_graph

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """The allocator's places for `alloc_graph_copy`, tensor by tensor; None while that graph
        was only split."""
        return self._galloc.plan if self._memory_planned else None

    def buffers(self, backend: Backend) -> list[Buffer]:
        """The chunks of compute memory of a backend, as they are now; backends with one buffer
        type share them."""
        return self._galloc.buffers(self._index(backend))

    @property
    def is_allocated(self) -> bool:
        return self._steps is not None

    @property
    def n_reallocs(self) -> int:
        """How often compute buffers were made anew since they first were; a decode that was
        reserved for should not move it."""
        return self._galloc.n_reallocs

    def buffer_size(self, backend: Backend) -> int:
        """Bytes of compute memory on a backend; 0 when it shares an earlier one's buffer."""
        return self._galloc.buffer_size(self._index(backend))

    def describe(self, level: int = 1) -> str:
        """The splits as text; `level` 2 adds the nodes with causes and use counts."""
        return "" if self._plan is None else report.describe(self._plan, level)

    def to_json(self) -> dict[str, Any]:
        """Splits, assignments, causes and copies with bytes, as plain data."""
        return {} if self._plan is None else report.to_json(self._plan)

    # ---- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for what runs, then free the compute buffers. Calling it twice is allowed."""
        if self._closed:
            return
        self._closed = True
        try:
            self._runner.synchronize()
        finally:
            self.reset()
            self._plan = self._alloc_graph = None
            self._galloc.free()

    def __enter__(self) -> Sched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SchedulerError("this scheduler was closed; make a new one")


def _checked(
    backends: Sequence[Backend], bufts: Sequence[BufferType] | None
) -> tuple[BufferType, ...]:
    """The buffer types to use; raises when backends and types do not go together."""
    if not backends:
        raise SchedulerError("a scheduler needs at least one backend, the CPU")
    kind = backends[-1].device.type
    if kind is not DeviceType.CPU:
        raise SchedulerError(
            f"the last of a scheduler's backends must be of type CPU, which takes what no other "
            f"one runs; {backends[-1].name} is of type {kind.value}. Append a CPU backend"
        )
    if bufts is None:
        bufts = [b.buffer_type() for b in backends]
    if len(bufts) != len(backends):
        raise UsageError(f"{len(backends)} backends need as many bufts, got {len(bufts)}")
    for backend, buft in zip(backends, bufts, strict=True):
        if not backend.supports_buft(buft):
            raise SchedulerError(
                f"backend {backend.name} cannot read {buft.name} memory, so its share of a graph "
                "cannot be allocated there; choose a type for which supports_buft is true"
            )
    return tuple(bufts)


def _unplaced(graph: Graph) -> list[tuple[Tensor, int | None]]:
    """Tensors that allocating will place, with the offset they have without it (views of placed
    tensors have one)."""
    found = [(t, t.data) for ts in (graph.leafs, graph.nodes) for t in ts if t.buffer is None]
    roots = [t.view_src for t, _ in found if t.view_src is not None and t.view_src.buffer is None]
    return found + [(t, t.data) for t in roots]


def _release(t: Tensor, buffer: Buffer) -> None:
    if buffer.usage is not BufferUsage.COMPUTE:
        _in_freed_memory(t, buffer)
    for x in (t, t.view_src):
        if x is not None and x.buffer is buffer:
            x.buffer = x.data = None


def _in_freed_memory(t: Tensor, buffer: Buffer) -> NoReturn:
    raise SchedulerError(
        f"{describe_tensor(t)} lies in a {buffer.buft.name} buffer of {buffer.size} bytes that was "
        "freed; build the graph anew on tensors that are alive"
    )


def _env_level(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} must be 0, 1 or 2, got {text!r}") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr)
