"""`LlamaContext`: decode, with graph reuse.

The parameters that alone determine a graph's topology make a `GraphKey`; while it stays equal and
every input still fits, a token costs setting inputs and replaying compiled plans.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Flag
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ComputeAbortedError, UsageError
from wggml.hal.interface import Backend
from wggml.models.builder import GraphBuilder, GraphShape
from wggml.models.model import Model
from wggml.runtime.batch import Batch, Ubatch, split_simple
from wggml.runtime.graph_inputs import GraphInput, Step
from wggml.runtime.hooks import NodeFunction, NodeHook, NodeHooks
from wggml.runtime.kv_cache import KVCache, KVParams
from wggml.sched import Sched

Logits = npt.NDArray[np.float32]

# More columns than the kernels for few of them take, so that the prompt's are compiled too.
WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParams:
    """Settings of a context.

    n_ctx: cells of the KV cache. n_batch: most tokens of one `decode`. n_ubatch: most tokens of
    one graph. n_seq_max: most sequences. n_threads, n_threads_batch: CPU threads for one token and
    for more, None keeps the library's default. parallel: keep up to 4 copies of the inputs so
    that splits of successive graphs overlap.
    """

    n_ctx: int = 2048
    n_batch: int = 2048
    n_ubatch: int = 512
    n_seq_max: int = 1
    flash_attn: bool = True
    type_k: Type = Type.F16
    type_v: Type = Type.F16
    n_threads: int | None = None
    n_threads_batch: int | None = None
    op_offload: bool = True
    parallel: bool = False
    cpu_cache_mb: int | None = None

    def check(self) -> None:
        """Raise `UsageError` for sizes that cannot work."""
        for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class GraphKey:
    """All that a graph's topology depends on, apart from what its inputs check themselves: the
    ubatch's shape (its sequences by id where it is sorted by them), what is wanted of it, and the
    settings of the context."""

    arch: str
    n_tokens: int
    n_seq_tokens: int
    n_seqs: int
    n_seqs_unq: int
    equal_seqs: bool
    seqs: tuple[int, ...]
    n_outputs: int
    causal: bool
    flash_attn: bool


@dataclass(slots=True)
class ActiveGraph:
    """The graph that is allocated now, and how to feed it."""

    key: GraphKey
    graph: Graph
    inputs: list[GraphInput]
    logits: Tensor
    logits_backend: Backend | None


@dataclass(slots=True)
class ContextStats:
    """What a context did; seconds are wall time."""

    n_decoded: int = 0
    n_prompt: int = 0
    n_eval: int = 0
    prompt_seconds: float = 0.0
    eval_seconds: float = 0.0
    graphs_built: int = 0
    graphs_reused: int = 0
    reallocs: int = 0
    input_seconds: float = 0.0
    submit_seconds: float = 0.0
    wait_seconds: float = 0.0
    build_seconds: float = 0.0
    # this thread's own processor time, of runs that reused their graph and of those that built one;
    # what it did for the next run while a device computed is counted apart
    reuse_cpu_seconds: float = 0.0
    rebuild_cpu_seconds: float = 0.0
    ahead_cpu_seconds: float = 0.0


class LlamaContext:
    """Runs batches of tokens through a model.

    Attributes: `model`, `params`, `kv`, `sched`, `backends` (priority order, CPU last), `stats`.
    """

    def __init__(self, model: Model, params: ContextParams) -> None:
        params.check()
        self.model = model
        self.params = params
        self.stats = ContextStats()
        self.n_ubatch = min(params.n_ubatch, params.n_ctx)
        self.kv = KVCache(
            model.hp,
            KVParams(
                n_ctx=params.n_ctx, n_ubatch=self.n_ubatch,
                n_seq_max=params.n_seq_max, type_k=params.type_k, type_v=params.type_v,
                v_trans=not params.flash_attn,
            ),
            model.placement.device_of,
        )  # fmt: skip
        n_nodes = 64 + 64 * model.hp.n_layer
        self._ctx = Context(2 * n_nodes, name="graph")
        self._graph = Graph(n_nodes)
        self.backends = [
            d.init_backend(cpu_cache_mb=params.cpu_cache_mb)
            if d is model.placement.cpu
            else d.init_backend()
            for d in model.devices
        ]
        self.sched = Sched(
            self.backends, graph_size=4 * n_nodes, parallel=params.parallel,
            op_offload=params.op_offload,
        )  # fmt: skip
        self._set_threads = [
            f for b in self.backends if (f := b.extension("set_n_threads")) is not None
        ]
        self._hooks = NodeHooks(self.sched)
        self._active: ActiveGraph | None = None
        self._reuse = os.environ.get("WGGML_GRAPH_REUSE", "1") != "0"
        self.reserve()

    # ---- graphs -----------------------------------------------------------------------------

    def _key(self, u: Ubatch) -> GraphKey:
        unique = u.seqs_unique
        return GraphKey(
            self.model.hp.arch, u.n_tokens, u.n_seq_tokens, u.n_seqs, len(unique), u.equal_seqs,
            unique if u.equal_seqs else (), u.n_outputs, True, self.params.flash_attn,
        )  # fmt: skip

    def _build(self, n_tokens: int, n_outputs: int) -> tuple[Graph, list[GraphInput], Tensor]:
        self._ctx.reset()
        self._graph = Graph(self._graph.size)
        shape = GraphShape(n_tokens, n_outputs, self.params.flash_attn)
        g = GraphBuilder(self._ctx, self._graph, self.model.hp, self.kv, shape)
        logits = self.model.arch.build(g)
        if n_outputs:
            self._graph.build_forward_expand(logits.set_output())
        return self._graph, g.inputs, logits

    def reserve(self, sizes: Sequence[int] = ()) -> None:
        """Plan the largest graphs (a full ubatch over a full cache, then one token) so that decode
        does not allocate; or graphs of the given numbers of tokens. Forgets the active graph."""
        self._active = None
        self.sched.reset()
        heads = {}
        for name, part in self.kv.parts.items():  # make n_kv the largest there will be
            heads[name] = part.cells.pos[-1].copy()
            part.cells.pos[-1] = max(heads[name], 0)
        try:
            n = self.n_ubatch
            for n_tokens in sizes or (n, 1, n):
                graph, _, _ = self._build(n_tokens, 1)
                self.sched.reserve(graph)
        finally:
            for name, part in self.kv.parts.items():
                part.cells.pos[-1] = heads[name]

    def warm_up(self, progress: Callable[[float, str], None] | None = None) -> None:
        """Run a short prompt and one token, then forget both: shaders are compiled (seconds on a
        driver that has never seen them) and the CPU has turned weights to f32 before anyone waits
        for it. Without a GPU one token does all of that."""
        runs = [(1, "generation")]
        if len(self.backends) > 1:
            runs.insert(0, (min(self.n_ubatch, WARM_UP_TOKENS), "prompt"))
        for i, (n, what) in enumerate(runs):
            if progress is not None:
                progress(i / len(runs), f"warming up ({what})")
            self.decode(Batch.of([0] * n))
            self.kv.clear()
        self.stats = ContextStats()

    # ---- decode -----------------------------------------------------------------------------

    def decode(self, batch: Batch, *, stop: Callable[[], bool] | None = None) -> Logits:
        """Feed a batch; returns the logits of the tokens that asked for them, F32
        [n_outputs, n_vocab] in batch order.

        `stop` is asked between ubatches, and by backends that can while they compute; once it says
        True the rest is left out (an unfinished ubatch leaves nothing in the cache). Raises
        `UsageError` for a bad batch and `ModelError` when the cache is full; ubatches already
        computed stay in the cache.
        """
        batch.check(self.model.hp.n_vocab)
        if len(batch) > self.params.n_batch:
            raise UsageError(
                f"the batch has {len(batch)} tokens, n_batch allows {self.params.n_batch}"
            )
        rows = []
        with self._stoppable(stop):
            for ubatch in split_simple(batch, self.n_ubatch):
                if stop is not None and stop():
                    break
                try:
                    rows.append(self._process(ubatch))
                except ComputeAbortedError:
                    break
        n_vocab = self.model.hp.n_vocab
        return rows[0] if len(rows) == 1 else np.concatenate([np.empty((0, n_vocab), "f4"), *rows])

    @contextmanager
    def _stoppable(self, stop: Callable[[], bool] | None) -> Iterator[None]:
        if stop is None:
            yield
            return
        setters = [f for b in self.backends if (f := b.extension("set_abort_callback")) is not None]
        for f in setters:
            f(stop)
        try:
            yield
        finally:
            for f in setters:
                f(None)

    def _process(self, ubatch: Ubatch) -> Logits:
        t0, cpu0, ahead0 = time.perf_counter(), time.thread_time(), self._ahead_seconds()
        built = self.stats.graphs_built
        slots = self.kv.prepare(ubatch)
        try:
            step = Step(ubatch, self.kv, slots)
            active = self._graph_for(step)
            t1 = time.perf_counter()
            for inp in active.inputs:
                inp.set(step)
            t2 = time.perf_counter()
            self._use_threads(ubatch.n_tokens)
            self.sched.graph_compute_async(active.graph)
            t3 = time.perf_counter()
            logits = self._read(active, ubatch.n_outputs)
            ahead = self._ahead_seconds() - ahead0
            cpu = time.thread_time() - cpu0 - ahead
            self._count_host(cpu, ahead, reused=self.stats.graphs_built == built)
        except BaseException:
            self.kv.undo(slots)
            self._active = None
            raise
        self._count(ubatch.n_tokens, t0, t1, t2, t3)
        return logits

    def _graph_for(self, step: Step) -> ActiveGraph:
        """The active graph if it fits this step, else a new one, split and allocated."""
        key = self._key(step.ubatch)
        active = self._active
        if (
            self._reuse and active is not None and active.key == key
            and all(inp.can_reuse(step) for inp in active.inputs)
        ):  # fmt: skip
            if self.sched.n_copies > 1:
                self.sched.synchronize()  # the previous run may still read its inputs
            self.stats.graphs_reused += 1
            return active
        self._active = None  # a build that fails must not be reused
        self.sched.reset()
        graph, inputs, logits = self._build(key.n_tokens, key.n_outputs)
        before = self.sched.n_reallocs
        self.sched.alloc_graph(graph)
        self._note_reallocs(self.sched.n_reallocs - before, key)
        backend = self.sched.get_tensor_backend(logits) if key.n_outputs else None
        self._active = ActiveGraph(key, graph, inputs, logits, backend)
        self.stats.graphs_built += 1
        return self._active

    def _note_reallocs(self, n: int, key: GraphKey) -> None:
        """Count reallocations. Many outputs at once were not reserved for and are expected to
        cause one; any other is said once."""
        if n and not self.stats.reallocs and key.n_outputs <= 1:
            logging.getLogger(__name__).warning(
                "compute buffers were made anew for a graph of %d tokens, which the reserved ones "
                "should have held", key.n_tokens,
            )  # fmt: skip
        self.stats.reallocs += n

    def _read(self, active: ActiveGraph, n_outputs: int) -> Logits:
        out = np.empty((n_outputs, self.model.hp.n_vocab), np.float32)
        if active.logits_backend is not None:
            active.logits_backend.get_tensor_async(active.logits, out.reshape(-1).view(np.uint8))
            active.logits_backend.synchronize()
        else:
            self.sched.synchronize()
        return out

    def _use_threads(self, n_tokens: int) -> None:
        p = self.params
        n = p.n_threads_batch if n_tokens > 1 and p.n_threads_batch else p.n_threads
        if n is not None:
            for f in self._set_threads:
                f(n)

    def _ahead_seconds(self) -> float:
        return sum(b.counters.ahead_seconds for b in self.backends)

    def _count_host(self, seconds: float, ahead: float, *, reused: bool) -> None:
        self.stats.ahead_cpu_seconds += ahead
        if reused:
            self.stats.reuse_cpu_seconds += seconds
        else:
            self.stats.rebuild_cpu_seconds += seconds

    def _count(self, n_tokens: int, t0: float, t1: float, t2: float, t3: float) -> None:
        s, end = self.stats, time.perf_counter()
        s.n_decoded += n_tokens
        s.build_seconds += t1 - t0
        s.input_seconds += t2 - t1
        s.submit_seconds += t3 - t2
        s.wait_seconds += end - t3
        if n_tokens > 1:
            s.n_prompt += n_tokens
            s.prompt_seconds += end - t0
        else:
            s.n_eval += 1
            s.eval_seconds += end - t0

    # ---- looking ----------------------------------------------------------------------------

    def on_node(self, pattern: str, function: NodeFunction) -> NodeHook:
        """Call `function(t, values)` after each node whose name contains the regular expression
        `pattern`, until the returned hook is removed; see `NodeHooks.add`."""
        return self._hooks.add(pattern, function)

    # ---- facts ------------------------------------------------------------------------------

    def compute_buffer_sizes(self) -> dict[str, int]:
        """Bytes of the compute buffer of each backend."""
        return {b.name: self.sched.buffer_size(b) for b in self.backends}

    def nodes_per_backend(self) -> dict[str, int]:
        """How many computing nodes of the active graph each backend runs."""
        counts = {b.name: 0 for b in self.backends}
        if self._active is not None:
            for t in self._active.graph.nodes:
                backend = self.sched.get_tensor_backend(t)
                if backend is not None and t.op not in VIEW_OPS and t.flags & Flag.COMPUTE:
                    counts[backend.name] += 1
        return counts

    def close(self) -> None:
        """Free compute buffers and the KV cache; the model stays open."""
        self._active = None
        self.sched.close()
        self.kv.free()
        for b in self.backends:
            b.close()
