"""Running the splits of an allocated plan: wait, copy inputs, compute, record.

This is the hot path of graph reuse: everything that can be known beforehand lies in `Step`s, so a
run costs one call per split and one per input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.hal.interface import Backend, BufferType, Event
from wggml.sched.pipeline import Pipeline
from wggml.sched.split import Plan, Rewire, Split
from wggml.sched.transfer import InputCopy, prepare_copies

EvalCallback = Callable[[Tensor, bool], bool]
CopyCallback = Callable[[Tensor, Tensor, Split], bool]
Trace = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Step:
    """One split, ready to run.

    Attributes:
        bit: 1 << backend index.
        waits: bits of the backends whose work must be done first, because it may be in memory that
            this split's backend uses too.
        n_weights: how many of `copies`, the last ones, are host weights.
    """

    split: Split
    backend: Backend
    graph: Graph
    bit: int
    waits: int
    copies: list[InputCopy] = field(default_factory=list)
    n_weights: int = 0
    event: Event | None = None


def prepare_steps(plan: Plan, pipeline: Pipeline, bufts: Sequence[BufferType]) -> list[Step]:
    """The steps of an allocated plan that is not applied."""
    sharing = _memory_sharing(plan.assignment.backends, bufts)
    readers: dict[Tensor, list[Rewire]] = {}
    for r in plan.rewires:
        readers.setdefault(r.new, []).append(r)
    steps: list[Step] = []
    previous = None
    for split in plan.splits:
        b = split.backend_id
        waits = sharing[b]
        if not split.inputs and previous is not None and previous != b:
            waits |= 1 << previous
        step = Step(split, split.backend, split.graph, 1 << b, waits)
        step.event = pipeline.event(b)
        step.copies = prepare_copies(plan, split, readers, step.event)
        step.n_weights = sum(c.host_weight for c in step.copies)
        steps.append(step)
        previous = b
    return steps


def _memory_sharing(backends: Sequence[Backend], bufts: Sequence[BufferType]) -> list[int]:
    """Per backend, the bits of the others that may use the same memory without a copy between."""
    n = len(backends)
    reads = [[backends[b].supports_buft(bufts[p]) for p in range(n)] for b in range(n)]
    return [
        sum(1 << p for p in range(n) if p != b and (reads[b][p] or reads[p][b])) for b in range(n)
    ]


class Runner:
    """Runs steps and knows which backends may still be working.

    Attributes:
        backends: in priority order; `markers` is an event of each for waiting, if it has events.
        downloads: copies to host memory that have been begun.
        expert_ranges: experts in use per ids tensor, for the current run.
    """

    __slots__ = ("_busy", "_markers", "_trace", "backends", "downloads", "expert_ranges")

    def __init__(
        self,
        backends: Sequence[Backend],
        markers: Sequence[Event | None],
        trace: Trace | None = None,
    ) -> None:
        self.backends = backends
        self.downloads: list[InputCopy] = []
        self.expert_ranges: dict[Tensor, list[tuple[int, int]]] = {}
        self._trace = trace
        self._busy = 0  # bits of backends that may have work they were not waited for
        self._markers = markers

    # ---- running -----------------------------------------------------------------------------

    def run(
        self,
        plan: Plan,
        steps: Sequence[Step],
        observe: EvalCallback | None = None,
        on_copy: CopyCallback | None = None,
    ) -> bool:
        """Run all steps; False when `observe` stopped it. May return before the work is done."""
        self.expert_ranges.clear()
        self.downloads.clear()
        self._busy = -1  # the user may have queued work of their own since the last run
        # a backend that has compiled its split does not look at the graph: rewiring it and back is
        # a tenth of a token's host time
        applied = observe is not None or on_copy is not None
        if applied:
            plan.apply()
        try:
            for step in steps:
                busy = self._busy & step.waits
                if busy:
                    self._wait_for(busy, step.backend)
                if step.copies:
                    self._copy_inputs(step, on_copy)
                self._busy |= step.bit  # only now: the copies may have waited for this backend
                if not applied and not step.backend.knows(step.graph):
                    plan.apply()
                    applied = True
                if observe is None:
                    step.backend.graph_compute(step.graph)
                elif not self._observed(step, observe):
                    return False
                if step.event is not None:
                    self._record(step, step.event)
        finally:
            if applied:
                plan.restore()
        return True

    def _observed(self, step: Step, observe: EvalCallback) -> bool:
        """Compute up to each node that is asked for, then show it; False when told to stop."""
        nodes = step.graph.nodes
        begin = 0
        while begin < len(nodes):
            end = begin
            wanted = False
            while end < len(nodes) and not wanted:
                wanted = observe(nodes[end], True)
                end += 1
            whole = begin == 0 and end == len(nodes)
            step.backend.graph_compute(step.graph if whole else step.graph.view(begin, end))
            step.backend.synchronize()
            if wanted and not observe(nodes[end - 1], False):
                return False
            begin = end
        return True

    # ---- copies --------------------------------------------------------------------------------

    def _copy_inputs(self, step: Step, on_copy: CopyCallback | None) -> None:
        first_weight = len(step.copies) - step.n_weights
        for i, c in enumerate(step.copies):
            if i == first_weight and self.downloads:
                self.finish_downloads()
            if on_copy is not None and on_copy(c.src, c.dst, step.split):
                continue
            if self._trace is not None:
                self._trace_copy(c)
            c.bring(self, c)
        if self.downloads:
            self.finish_downloads()

    def finish_downloads(self) -> None:
        """End the downloads that were begun, with one wait per source backend."""
        for b in {c.src_id for c in self.downloads}:
            self.wait(b)
        for c in self.downloads:
            self.settle_reader(c)
            assert c.dst.buffer is not None
            c.dst.buffer.set_tensor(c.dst, c.staging())
        self.downloads.clear()

    # ---- waiting -------------------------------------------------------------------------------

    def settle(self, backend: int) -> None:
        """Wait for a backend if a run gave it work since it was last waited for."""
        if self._busy >> backend & 1:
            self.wait(backend)

    def settle_reader(self, c: InputCopy) -> None:
        """Wait until earlier runs have stopped reading the place that `c` writes."""
        if c.event is not None and c.event.recorded:
            if self._trace is not None:
                self._trace(f"event_synchronize {self.backends[c.dst_id].name}")
            c.event.synchronize()
        else:
            self.wait(c.dst_id)

    def reclaim_inputs(self, plan: Plan, pipeline: Pipeline) -> None:
        """Before the user fills the graph inputs' current copies: wait for the run that had them
        before, on backends that read them in place."""
        a = plan.assignment
        homes = {a.id_of(leaf) for leaf in plan.graph_inputs}
        for b in range(len(self.backends)):
            if any(a.reads(b, a.bufts[h]) for h in homes):
                event = pipeline.event(b)
                if event is None:
                    self.settle(b)
                elif event.recorded:
                    event.synchronize()

    def synchronize(self) -> None:
        """Wait for all backends."""
        for b in range(len(self.backends)):
            self.wait(b)

    def wait(self, backend: int) -> None:
        """Wait until a backend has done all that it was given."""
        if self._trace is not None:
            self._trace(f"synchronize {self.backends[backend].name}")
        self.backends[backend].synchronize()
        self._busy &= ~(1 << backend)

    def _wait_for(self, bits: int, waiting: Backend) -> None:
        """Let `waiting` run after what other backends were given so far."""
        for b in range(len(self.backends)):
            if not bits >> b & 1:
                continue
            marker = self._markers[b]
            if marker is None:
                self.wait(b)
                continue
            # recorded only now: what a user has queued after our last run counts as well
            if self._trace is not None:
                self._trace(f"event_wait {waiting.name} for {self.backends[b].name}")
            self.backends[b].event_record(marker)
            waiting.event_wait(marker)

    def _record(self, step: Step, event: Event) -> None:
        if self._trace is not None:
            self._trace(f"event_record {step.backend.name}")
        step.backend.event_record(event)

    def _trace_copy(self, c: InputCopy) -> None:
        assert self._trace is not None
        how = "experts in use" if c.experts is not None else c.way.value
        self._trace(
            f"copy {c.src.name} ({self.backends[c.src_id].name}) -> {c.dst.name}, "
            f"{c.nbytes} bytes, {how}"
        )
