"""One token's timeline: what the host did, and what each dispatch took on its device.

The token is computed as always, but its GPU plans are recorded with a timestamp after each
dispatch, and CPU plans are run node by node. That costs time: `Trace.plain_us` is what the same
kind of token took without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.errors import DeviceError, UsageError
from wggml.inspect.families import family_of
from wggml.inspect.spans import HOST, Span, Spans
from wggml.inspect.words import op_label

if TYPE_CHECKING:
    from wggml.llama import Llama
    from wggml.sched.transfer import InputCopy

PHASES = (
    "build", "split", "alloc", "compile", "inputs", "copy", "record", "submit", "compute", "wait",
    "readback", "sample",
)  # fmt: skip
"""Host phases of a token, in order. `build` holds split and alloc and is short where the graph is
used again; `compute` is NumPy's own work."""

# The CPU's plans by graph uid, with the end of each node's steps.
_CpuPlans = dict[int, tuple[Any, list[tuple[int, list[Tensor]]]]]


@dataclass(slots=True)
class DeviceTime:
    """Device time of a token: `interval_us` from the beginning of the first pass to the end of the
    last one (per split, summed), `sum_us` of all dispatches."""

    name: str
    dispatches: int = 0
    interval_us: float = 0.0
    sum_us: float = 0.0


@dataclass(slots=True)
class FamilyRow:
    """Time of one op family on one track; `share` of the track's sum."""

    track: str
    family: str
    count: int
    us: float
    share: float


@dataclass(slots=True)
class KernelRow:
    """Time of all calls of one kernel on one track."""

    track: str
    name: str
    family: str
    count: int
    us: float


@dataclass(slots=True)
class Trace:
    """The timeline of one token.

    Attributes:
        title: model and token in words; `text` is what the token says.
        total_us: from the token's arrival to the next one's choice, while traced.
        plain_us: the same without tracing, as the median of the tokens before.
        reused: the graph of the token before was used again.
        spans: host phases may hold others; device spans follow each other.
        devices: per GPU. `notes`: what could not be measured.
    """

    title: str
    text: str
    total_us: float
    plain_us: float
    reused: bool
    spans: list[Span]
    devices: list[DeviceTime]
    notes: list[str] = field(default_factory=list)

    def phases(self) -> dict[str, float]:
        """Microseconds of each host phase, without what other phases within it took."""
        out = dict.fromkeys(PHASES, 0.0)
        host = [s for s in self.spans if s.track == HOST]
        for s in host:
            inner = [x for x in host if x is not s and s.start <= x.start and x.end <= s.end]
            direct = [x for x in inner if not any(_holds(y, x) for y in inner)]
            out[s.family] += s.duration - sum(x.duration for x in direct)
        return out

    def families(self) -> list[FamilyRow]:
        """Time by op family on each device, longest first."""
        rows: dict[tuple[str, str], FamilyRow] = {}
        for s in self.spans:
            if s.track != HOST:
                row = rows.setdefault((s.track, s.family), FamilyRow(s.track, s.family, 0, 0.0, 0))
                row.count += 1
                row.us += s.duration
        for row in rows.values():
            total = sum(r.us for r in rows.values() if r.track == row.track)
            row.share = row.us / total if total else 0.0
        return sorted(rows.values(), key=lambda r: (r.track, -r.us))

    def kernels(self) -> list[KernelRow]:
        """Time by kernel on each device, longest first; a kernel may compute several nodes."""
        rows: dict[tuple[str, str], KernelRow] = {}
        for s in self.spans:
            if s.track != HOST:
                name = kernel_name(s)
                row = rows.setdefault((s.track, name), KernelRow(s.track, name, s.family, 0, 0.0))
                row.count += 1
                row.us += s.duration
        return sorted(rows.values(), key=lambda r: -r.us)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, sums included."""
        return {
            **asdict(self),
            "phases": self.phases(),
            "families": [asdict(r) for r in self.families()],
            "kernels": [asdict(r) for r in self.kernels()],
        }


def _holds(outer: Span, inner: Span) -> bool:
    return (
        outer is not inner
        and outer.start <= inner.start
        and inner.end <= outer.end
        and outer.duration > inner.duration
    )


def trace_token(llama: Llama, prompt: str, token: int = 2) -> Trace:
    """Feed `prompt`, write tokens greedily, and trace the one numbered `token` (the first is 1; it
    builds a graph of its own, later ones use it again).

    Raises `UsageError` for a number below 1 or past the context's end. A device without timestamps
    is noted in the trace and has no spans.
    """
    tokens = llama.tokenize(prompt)
    n_ctx = llama.context.params.n_ctx
    if token < 1 or len(tokens) + token > n_ctx:
        raise UsageError(
            f"token {token} cannot be traced: the prompt has {len(tokens)} tokens, the context "
            f"holds {n_ctx}, and tokens are numbered from 1"
        )
    llama.context.kv.clear()
    current = int(np.argmax(llama.eval(tokens)[-1]))
    plain: list[float] = []
    plans: _CpuPlans = {}
    position = len(tokens)
    for i in range(token - 1):
        with Spans() as spans:
            if i == token - 2:  # so that the one that counts does not pay for what is made once
                _TracedRun(llama, spans, plans)
            began = perf_counter()
            current = int(np.argmax(llama.eval([current], position=position)[-1]))
            plain.append((perf_counter() - began) * 1e6)
        position += 1
    text = llama.model.vocab.piece(current).decode("utf-8", "replace")
    steady = plain[1:-1]  # the first token builds its graph, the last one was traced
    trace = _trace(llama, current, position, plans)
    trace.title = f"{llama.model.path.name}, token {token}"
    trace.text, trace.plain_us = text, median(steady) if steady else 0.0
    return trace


def _trace(llama: Llama, token: int, position: int, plans: _CpuPlans) -> Trace:
    reused = llama.context.stats.graphs_reused
    with Spans() as spans:
        run = _TracedRun(llama, spans, plans)
        spans.origin = began = perf_counter()
        logits = llama.eval([token], position=position)[-1]
        with spans.phase("sample"):
            int(np.argmax(logits))
        total = (perf_counter() - began) * 1e6
        devices = run.finish()
    spans.spans.sort(key=lambda s: (s.start, -s.duration))
    again = llama.context.stats.graphs_reused > reused
    return Trace("", "", total, 0.0, again, spans.spans, devices, run.notes)


class _TracedRun:
    """Puts itself into the path of one decode."""

    def __init__(self, llama: Llama, spans: Spans, plans: _CpuPlans) -> None:
        self.spans = spans
        self._plans = plans
        self.notes: list[str] = []
        self._timed: list[tuple[str, float, Any]] = []
        context = llama.context
        self._context = context
        self._inputs_from = 0.0
        spans.wrap(context, "_build", "build")
        spans.wrap(context.sched, "_make_plan", "split")
        spans.wrap(context.sched, "_allocate", "alloc")
        spans.replace(context, "_graph_for", self._around_graph(context._graph_for))
        spans.replace(context, "_use_threads", self._end_of_inputs(context._use_threads))
        spans.replace(context, "_read", self._around_read(context._read))
        compute = context.sched.graph_compute_async
        spans.replace(context.sched, "graph_compute_async", self._with_copies(compute))
        for backend in context.backends:
            self._trace_backend(backend)

    def _trace_backend(self, backend: Any) -> None:
        kind = type(backend).__module__
        if kind.startswith("wggml.backends.wgpu."):
            self._warm_up(backend)
            self.spans.replace(backend, "graph_compute", self._on_gpu(backend))
        elif kind.startswith("wggml.backends.cpu."):
            self.spans.replace(backend, "graph_compute", self._on_cpu(backend))
        else:
            self.spans.wrap(backend, "graph_compute", "compute")

    def _warm_up(self, backend: Any) -> None:
        from wggml.backends.wgpu.timing import TimedRun

        try:
            TimedRun.warm_up(backend.device)
        except DeviceError as e:
            self.notes.append(str(e))

    # ---- host phases --------------------------------------------------------------------------

    def _around_graph(self, original: Any) -> Any:
        def graph_for(step: Any) -> Any:
            with self.spans.phase("build"):
                active = original(step)
            self._inputs_from = perf_counter()
            return active

        return graph_for

    def _end_of_inputs(self, original: Any) -> Any:
        def use_threads(n_tokens: int) -> None:
            self.spans.add(HOST, "inputs", self._inputs_from, perf_counter(), "inputs")
            original(n_tokens)

        return use_threads

    def _around_read(self, original: Any) -> Any:
        def read(*args: Any) -> Any:
            with self.spans.phase("wait"):
                self._context.sched.synchronize()
            with self.spans.phase("readback"):
                return original(*args)

        return read

    def _with_copies(self, original: Any) -> Any:
        def compute(graph: Graph) -> bool:
            for step in self._context.sched._steps or ():
                for c in step.copies:
                    self._trace_copy(c)
            return bool(original(graph))

        return compute

    def _trace_copy(self, c: InputCopy) -> None:
        bring = c.bring

        def timed(run: Any, copy: InputCopy) -> None:
            with self.spans.phase("copy", f"{copy.src.name}, {copy.nbytes} bytes"):
                bring(run, copy)

        self.spans.replace(c, "bring", timed)

    # ---- devices --------------------------------------------------------------------------------

    def _on_gpu(self, backend: Any) -> Any:
        from wggml.backends.wgpu.timing import TimedRun

        original = backend.graph_compute

        def compute(graph: Graph) -> None:
            built = backend.counters.plans_built
            began = perf_counter()
            plan = backend.plan(graph)
            if backend.counters.plans_built > built:
                self.spans.add(HOST, "compile", began, perf_counter(), "compile")
            try:
                run = TimedRun(backend.device, plan)
            except DeviceError:  # noted by the warm-up
                with self.spans.phase("submit"):
                    original(graph)
                return
            for phase, times in (("record", run.recording), ("submit", run.submitting)):
                for t0, t1 in times:
                    self.spans.add(HOST, phase, t0, t1, phase, f"{len(plan.dispatches)} dispatches")
            if run.submitting:
                self._timed.append((backend.name, run.submitting[0][0], run))

        return compute

    def _on_cpu(self, backend: Any) -> Any:
        def compute(graph: Graph) -> None:
            known = self._plans.get(graph.uid)
            if known is None or not _still_valid(known[0], backend):
                with self.spans.phase("compile", "node by node, for the trace"):
                    known = self._plans[graph.uid] = _marked_plan(backend, graph)
            plan, ends = known
            with self.spans.phase("compute"), np.errstate(all="ignore"):
                first = 0
                for end, nodes in ends:
                    began = perf_counter()
                    for step in plan.steps[first:end]:
                        step()
                    name = " | ".join(f"{op_label(t)} {t.name}" for t in nodes)
                    family = family_of(op_label(nodes[0]))
                    self.spans.add(backend.name, name, began, perf_counter(), family)
                    first = end

        return compute

    def finish(self) -> list[DeviceTime]:
        """Read the timestamps and lay the dispatches on the host's clock: a plan begins when it
        has been handed over and the one before it on the device has ended."""
        times: dict[str, DeviceTime] = {}
        free: dict[str, float] = {}
        for name, submitted, run in self._timed:
            result = run.read()
            at = max(self.spans.at(submitted), free.get(name, 0.0))
            for t in result.timings:
                span = Span(name, t.node, at + t.start / 1e3, t.ns / 1e3, _family(t.node), t.label)
                self.spans.spans.append(span)
            free[name] = at + result.interval / 1e3
            total = times.setdefault(name, DeviceTime(name))
            total.dispatches += len(result.timings)
            total.interval_us += result.interval / 1e3
            total.sum_us += sum(t.ns for t in result.timings) / 1e3
        return list(times.values())


def _family(node: str) -> str:
    """Family of a dispatch by the first of its nodes, written `OP name`."""
    return family_of(node.partition(" ")[0])


def _still_valid(plan: Any, backend: Any) -> bool:
    """The rule of the CPU backend for its own plans."""
    live = not any(b.freed for b in plan.buffers)
    return bool(plan.generation == backend.weights.generation and live)


def _marked_plan(backend: Any, graph: Graph) -> tuple[Any, list[tuple[int, list[Tensor]]]]:
    """The CPU's plan of a graph, and for each node (or fused nodes) where its steps end."""
    from wggml.backends.cpu.plan import Compiler

    ends: list[tuple[int, list[Tensor]]] = []

    class Marking(Compiler):
        def _end_of(self, nodes: list[Tensor]) -> None:
            super()._end_of(nodes)
            ends.append((len(self.plan.steps), nodes))

    plan = Marking(graph, backend.pool, backend.weights).compile()
    return plan, ends


def kernel_name(span: Span) -> str:
    """The label of a dispatch with equal parts counted, or the op where the CPU computed."""
    if not span.detail:
        return span.name.partition(" ")[0]
    parts = Counter(span.detail.split(" | "))
    return " | ".join(part if n == 1 else f"{n} x {part}" for part, n in parts.items())
