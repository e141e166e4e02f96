"""`WgpuBackend`: a stream on a wgpu device. Its queue keeps everything in order."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

from wggml.backends.wgpu import encode
from wggml.backends.wgpu import fusion as fusions
from wggml.backends.wgpu.buffer import WgpuBuffer
from wggml.backends.wgpu.device import WgpuDevice
from wggml.backends.wgpu.errors import trap
from wggml.backends.wgpu.fingerprint import fingerprint
from wggml.backends.wgpu.implementation import raw_api, translate
from wggml.backends.wgpu.optimize import gather
from wggml.backends.wgpu.plan import Plan, compile_plan
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.errors import ComputeAbortedError, UsageError
from wggml.hal.interface import Backend, Buffer, Bytes, Counters, Event, KeepAlive

MAX_PLANS = 64
MAX_UIDS = 4 * MAX_PLANS  # every rebuild has a new uid, though its plan may be an old one
ENV_DEBUG = "WGGML_BACKEND_DEBUG"
# Multiply-adds of matrix products in one submit, by whether the adapter is software: about a
# quarter of a second on two cores (20 G/s), and as long on a small GPU (1 T/s). Drivers end submits
# that run for seconds, and nothing can be stopped inside one.
MACS_PER_SUBMIT = {True: 4 * 10**9, False: 250 * 10**9}


class WgpuEvent(Event):
    """A point in the queue. All streams of a device share its queue, so waiting there is free;
    waiting on the host waits for the queue."""

    def __init__(self, backend: WgpuBackend) -> None:
        self.backend = backend
        self.recorded = False

    def synchronize(self) -> None:
        if self.recorded:
            self.backend.synchronize()


@dataclass(slots=True, eq=False)
class _Kept:
    """A plan and every buffer its graph lies in, which tell its fingerprint apart from others."""

    plan: Plan
    buffers: tuple[Buffer, ...]

    def is_alive(self) -> bool:
        return self.plan.is_alive() and not any(b.freed for b in self.buffers)


class WgpuBackend(Backend):
    """Runs graphs as replayable plans.

    Args:
        encode: "public" or "raw" recording; None picks.
        max_dispatches_per_submit: cut plans so that no submit runs for long; 0 = only those whose
            matrix products are many (a prompt), see `MACS_PER_SUBMIT`.
        fusion: which kinds of nodes run together (`fusion.KINDS`), or all or none; None asks the
            environment (WGGML_FUSION).
    """

    def __init__(
        self,
        device: WgpuDevice,
        *,
        encode: str | None = None,
        max_dispatches_per_submit: int = 0,
        fusion: bool | Iterable[str] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UsageError(
                f"backend {device.name} has no option {sorted(unknown)}; it takes encode, "
                "max_dispatches_per_submit, fusion"
            )
        self.device: WgpuDevice = device
        self.name = device.name
        self.max_dispatches_per_submit = max_dispatches_per_submit
        self.fusion = fusions.from_environment() if fusion is None else _kinds(fusion)
        self._gpu = device.gpu
        self._record = _encode_choose(encode)
        self._plans: OrderedDict[Hashable, _Kept] = OrderedDict()  # by fingerprint
        self._by_uid: dict[int, _Kept] = {}
        self._counters = Counters()
        self._raw = raw_api()
        self._trap = trap()
        self._abort: Callable[[], bool] | None = None

    # ---- counters -----------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:  # type: ignore[override]
        """What this stream did; creation counts are the device's, whoever asked for them."""
        c, made, shaders = self._counters, self.device.created, self.device.pipelines.created
        c.buffers_created = made.buffers_created
        c.bind_groups_created = made.bind_groups_created
        c.pipelines_created = shaders.pipelines_created
        c.layouts_created = shaders.layouts_created
        return c

    # ---- computing ----------------------------------------------------------------------------

    def graph_compute(self, graph: Graph) -> None:
        c = self._counters
        began, ahead = perf_counter(), c.ahead_seconds
        plan = self.plan(graph)
        try:
            if self._abort is None or len(plan.recorder) < 2:
                self._replay(plan)
            else:
                self._replay_until_aborted(plan, self._abort)
        except ComputeAbortedError:
            raise
        except Exception as e:
            last = plan.dispatches[-1].node if plan.dispatches else "nothing"
            doing = f"running {len(plan.dispatches)} dispatches up to node {last}"
            raise translate(e, doing, self.name) from e
        finally:
            if not graph.uid:
                self._retire(plan)
        if self._trap.messages:
            self._trap.raise_pending("computing a graph", self.name)
        c.graphs += 1
        c.nodes += plan.nodes
        c.dispatches += len(plan.dispatches)
        c.submits += len(plan.recorder)
        c.host_seconds += perf_counter() - began - (c.ahead_seconds - ahead)

    def _replay(self, plan: Plan) -> None:
        """Submit the plan. One that runs again and again is encoded anew while the device computes,
        so that the next run can be submitted at once."""
        if len(plan.recorder) != 1:
            encode.replay(self._gpu, plan.recorder)
            return
        encode.submit(self._gpu, plan.ahead or encode.commands(self._gpu, plan.recorder))
        plan.runs, plan.ahead = plan.runs + 1, None
        if plan.runs > 1:
            began = thread_time()
            plan.ahead = encode.commands(self._gpu, plan.recorder)
            self._counters.ahead_seconds += thread_time() - began

    def _replay_until_aborted(self, plan: Plan, abort: Callable[[], bool]) -> None:
        """Wait for each submit before the next one: what is queued cannot be taken back."""
        for recorder in plan.recorder:
            if abort():
                raise ComputeAbortedError("the graph was stopped by its abort callback")
            encode.replay(self._gpu, [recorder])
            self.synchronize()

    def _dispatches_per_submit(self, graph: Graph, n_dispatches: int) -> int:
        if self.max_dispatches_per_submit:
            return self.max_dispatches_per_submit
        macs = sum(
            t.n_elements * t.src[0].ne[0]
            for t in graph.nodes
            if t.op in (Op.MUL_MAT, Op.MUL_MAT_ID) and t.src[0] is not None
        )
        pieces = -(-macs // MACS_PER_SUBMIT[self.device.profile.is_software])
        return -(-n_dispatches // pieces) if pieces > 1 else 0

    def plan(self, graph: Graph) -> Plan:
        """The plan of a graph: the one known by its uid if its buffers live, else that of an equal
        graph at the same places, else a new one."""
        if not graph.uid:
            return self._compile(graph)
        kept = self._by_uid.get(graph.uid)
        if kept is None or not kept.is_alive():
            kept = self._equal_or_new(graph)
            self._by_uid[graph.uid] = kept
            if len(self._by_uid) > MAX_UIDS:
                del self._by_uid[next(iter(self._by_uid))]
        else:
            self._counters.plans_replayed += 1
        return kept.plan

    def knows(self, graph: Graph) -> bool:
        kept = self._by_uid.get(graph.uid) if graph.uid else None
        return kept is not None and kept.is_alive()

    @property
    def plans(self) -> list[Plan]:
        """The plans kept, least recently made or found first."""
        return [kept.plan for kept in self._plans.values()]

    def _equal_or_new(self, graph: Graph) -> _Kept:
        key, buffers = fingerprint(graph)
        kept = self._plans.get(key)
        if kept is not None and kept.is_alive():
            self._plans.move_to_end(key)
            self._counters.plans_replayed += 1
            return kept
        if kept is not None:
            self._drop(key)
        kept = _Kept(self._compile(graph), buffers)
        self._plans[key] = kept
        while len(self._plans) > MAX_PLANS:
            self._drop(next(iter(self._plans)))
        return kept

    def _drop(self, key: Hashable) -> None:
        gone = self._plans.pop(key)
        gone.plan.free()
        self._by_uid = {uid: k for uid, k in self._by_uid.items() if k is not gone}

    def _compile(self, graph: Graph) -> Plan:
        plan = compile_plan(self.device, graph, kinds=self.fusion)
        per_submit = self._dispatches_per_submit(graph, len(plan.dispatches))
        plan.recorder = encode.prepare(plan.dispatches, self._record, per_submit)
        self._counters.plans_built += 1
        self._debug(plan)
        return plan

    def _retire(self, plan: Plan) -> None:
        """A plan without uid is used once. Destroying a buffer after its submit is allowed."""
        plan.free()

    def _debug(self, plan: Plan) -> None:
        """WGGML_BACKEND_DEBUG: 1 a line per new plan, 2 its dispatches as well."""
        level = os.environ.get(ENV_DEBUG, "0")
        if level == "0":
            return
        n = len({id(d.pipeline) for d in plan.dispatches})
        head = f"{plan.nodes} nodes, {len(plan.dispatches)} dispatches, {n} pipelines"
        print(f"{self.name} plan {plan.uid}: {head}", file=sys.stderr)
        if level == "2":
            print(plan, file=sys.stderr)
            for note in self.device.notes:
                print(f"{self.name} note: {note.splitlines()[0]}", file=sys.stderr)

    def graph_optimize(self, graph: Graph, keep: KeepAlive) -> None:
        if "merge" in self.fusion:
            gather(graph, keep)

    def synchronize(self) -> None:
        try:
            if self._raw is not None:
                lib, ffi = self._raw
                lib.wgpuDevicePoll(self._gpu._internal, True, ffi.NULL)
            else:
                self._gpu.queue.on_submitted_work_done_sync()
        except Exception as e:
            raise translate(e, "waiting for its queue", self.name) from e
        self._trap.raise_pending("finishing its queue", self.name)

    # ---- data ---------------------------------------------------------------------------------

    def set_tensor_async(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        """Queued in order with the graphs; the data is copied before this returns."""
        self._home(t).set_tensor(t, data, offset)
        self._counters.bytes_uploaded += data.nbytes

    def get_tensor_async(self, t: Tensor, out: Bytes, offset: int = 0) -> None:
        """Waits: the copy is queued behind all submitted work, and `out` is filled on return."""
        self._home(t).get_tensor_into(t, out, offset)
        self._counters.bytes_downloaded += out.nbytes

    def copy_tensor_async(self, src_backend: Backend, src: Tensor, dst: Tensor) -> bool:
        return self._home(dst).copy_from(src, dst)

    def _home(self, t: Tensor) -> WgpuBuffer:
        home = t._buffer_or_raise("access")
        assert isinstance(home, WgpuBuffer), f"{t.name} lies in {home!r}, not on {self.name}"
        return home

    # ---- events -------------------------------------------------------------------------------

    def event_new(self) -> Event | None:
        return WgpuEvent(self)

    def event_record(self, event: Event) -> None:
        event.recorded = True

    def event_wait(self, event: Event) -> None:
        if isinstance(event, WgpuEvent) and event.backend.device is self.device:
            return  # one queue: what was recorded before runs before
        event.synchronize()

    # ---- extensions ---------------------------------------------------------------------------

    def set_abort_callback(self, abort: Callable[[], bool] | None) -> None:
        """Ask `abort` before each submit of a plan that is cut into several; once it says True
        `graph_compute` raises `ComputeAbortedError`. None asks nothing and waits for nothing."""
        self._abort = abort

    def extension(self, name: str) -> Callable[..., Any] | None:
        return self.set_abort_callback if name == "set_abort_callback" else None

    def close(self) -> None:
        for kept in self._plans.values():
            kept.plan.free()
        self._plans.clear()
        self._by_uid.clear()


def _kinds(fusion: bool | Iterable[str]) -> frozenset[str]:
    if isinstance(fusion, bool):
        return fusions.ALL if fusion else frozenset()
    return frozenset(fusion)


_encode_choose = encode.choose
