"""The CPU backend: compiles graphs into plans and runs them at once, in the caller's thread."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.cpu.buffer import CpuBuffer
from wggml.backends.cpu.plan import Compiler, Plan, ScratchPool
from wggml.backends.cpu.threads import BlasThreads, threads_from
from wggml.backends.cpu.weights import MIB, WeightCache
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.errors import ComputeAbortedError, UsageError
from wggml.hal.interface import Backend, Counters

if TYPE_CHECKING:
    from wggml.backends.cpu.device import CpuDevice

# f32 copies of quantised weights. Holds all of a 270M-parameter model (1.07 GB); a model that is
# larger runs partly from tiles that are dequantised on each use.
DEFAULT_CACHE_MB = 1280
MAX_PLANS = 256  # a graph cut into many splits has a plan for each


class CpuBackend(Backend):
    """A synchronous stream of NumPy work.

    Options: `cpu_cache_mb`, the budget in MiB for weights kept as f32 (0 = none, default
    `DEFAULT_CACHE_MB`); `n_threads` for BLAS (default: BLAS's own choice).
    """

    def __init__(
        self,
        device: CpuDevice,
        *,
        cpu_cache_mb: float | None = None,
        n_threads: int | None = None,
    ) -> None:
        budget = DEFAULT_CACHE_MB if cpu_cache_mb is None else cpu_cache_mb
        if budget < 0:
            raise UsageError(f"cpu_cache_mb is {budget}; it must be 0 (off) or a number of MiB")
        self.name = device.name
        self.device = device
        self.counters = Counters()
        self.weights = WeightCache(int(budget * MIB), threads_from())
        self.pool = ScratchPool()
        self._plans: OrderedDict[int, Plan] = OrderedDict()
        self._threads = BlasThreads()
        self._abort: Callable[[], bool] | None = None
        if n_threads is not None:
            self.set_n_threads(n_threads)

    @property
    def arrays_created(self) -> int:
        """Scratch arrays and dequantised weights made so far; stands still between rebuilds."""
        return self.pool.created + self.weights.created

    def set_n_threads(self, n: int) -> None:
        """Use `n` threads in BLAS from now on (cheap when nothing changes)."""
        self._threads.set(n)
        self.weights.threads_from = threads_from() if n > 1 else 0

    # ---- computing ----------------------------------------------------------------------------

    def graph_compute(self, graph: Graph) -> None:
        began = time.perf_counter()
        counters = self.counters
        plan = self._known_plan(graph.uid)
        if plan is None:
            plan = Compiler(graph, self.pool, self.weights).compile()
            counters.plans_built += 1
            if graph.uid:
                self._remember(graph.uid, plan)
        else:
            counters.plans_replayed += 1
        # infinities in masks and overflowing exponentials are meant; one switch for all steps
        with np.errstate(all="ignore"):
            if self._abort is None:
                for step in plan.steps:
                    step()
            else:
                self._run_until_aborted(plan, self._abort)
        counters.graphs += 1
        counters.nodes += plan.n_nodes
        counters.dispatches += len(plan.steps)
        counters.host_seconds += time.perf_counter() - began

    def _run_until_aborted(self, plan: Plan, abort: Callable[[], bool]) -> None:
        for step in plan.steps:
            if abort():
                raise ComputeAbortedError("the graph was stopped by its abort callback")
            step()

    def knows(self, graph: Graph) -> bool:
        return self._known_plan(graph.uid) is not None

    def _known_plan(self, uid: int) -> Plan | None:
        plan = self._plans.get(uid) if uid else None
        if plan is None:
            return None
        if plan.generation != self.weights.generation or any(b.freed for b in plan.buffers):
            del self._plans[uid]
            return None
        self._plans.move_to_end(uid)
        return plan

    def _remember(self, uid: int, plan: Plan) -> None:
        self._plans[uid] = plan
        for buffer in plan.buffers:
            buffer.watch(self)
        while len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def copy_tensor_async(self, src_backend: Backend, src: Tensor, dst: Tensor) -> bool:
        home = dst.placed_in
        if not isinstance(home, CpuBuffer) or not isinstance(src.placed_in, CpuBuffer):
            return False
        src_backend.synchronize()
        return home.copy_from(src, dst)

    # ---- Watcher: plans hold windows on memory that ends -----------------------------------------

    def buffer_written(self, buffer: CpuBuffer, begin: int, end: int) -> None:
        """Plans read what lies in memory when they run."""

    def buffer_freed(self, buffer: CpuBuffer) -> None:
        for uid in [u for u, p in self._plans.items() if buffer in p.buffers]:
            del self._plans[uid]

    # ---- extensions -----------------------------------------------------------------------------

    def set_abort_callback(self, abort: Callable[[], bool] | None) -> None:
        """Ask `abort` before each step; once it says True `graph_compute` raises
        `ComputeAbortedError`. None asks nothing, which costs nothing."""
        self._abort = abort

    def extension(self, name: str) -> Callable[..., Any] | None:
        known: dict[str, Callable[..., Any]] = {
            "set_n_threads": self.set_n_threads,
            "set_abort_callback": self.set_abort_callback,
        }
        return known.get(name)

    def close(self) -> None:
        self._plans.clear()
        self.weights.clear()
        self.pool = ScratchPool()
