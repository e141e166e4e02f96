"""How long each dispatch of a plan takes on the device, by timestamps around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.wgpu.implementation import module, raw_api
from wggml.backends.wgpu.plan import Plan
from wggml.errors import DeviceError

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice

MAX_QUERIES = 4096  # of one query set (wgpu-native)


@dataclass(frozen=True, slots=True)
class Timing:
    """One dispatch: its label, the graph node it belongs to, nanoseconds on the device, and when
    it began, counted from the beginning of the run."""

    label: str
    node: str
    ns: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A run of a plan: its dispatches, and nanoseconds from the beginning of its first pass to the
    end of its last one, which the passes' own timestamps tell."""

    timings: list[Timing]
    interval: int


def time_plan(device: WgpuDevice, plan: Plan, runs: int = 3) -> list[Timing]:
    """Run the plan `runs` times with a timestamp after every dispatch; the least time of each.

    Timestamps cost some microseconds apiece and keep dispatches from overlapping, so the sum is
    more than an ordinary run takes. Raises `DeviceError` where the adapter has no timestamps.
    """
    best: list[Timing] = []
    for _ in range(runs):
        now = TimedRun(device, plan).read().timings
        pairs = zip(best, now, strict=True)
        best = [min(a, b, key=lambda t: t.ns) for a, b in pairs] if best else now
    return best


def summary(timings: Iterable[Timing]) -> list[tuple[str, int, int]]:
    """(label, dispatches, total ns) per label, slowest first."""
    count: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for t in timings:
        count[t.label] += 1
        total[t.label] += t.ns
    return sorted(((k, count[k], total[k]) for k in total), key=lambda row: -row[2])


class TimedRun:
    """Records and submits a plan with timestamps; `read` waits for it.

    With timestamps inside passes all dispatches share passes, as they do in an ordinary run, and
    there is one after each. Where the adapter has them at the ends of passes only, each dispatch
    has a pass of its own. Raises `DeviceError` where it has none.

    Attributes: `recording` and `submitting` are spans of `perf_counter` seconds on the host.
    """

    def __init__(self, device: WgpuDevice, plan: Plan) -> None:
        self._device = device
        self._plan = plan
        self._api = raw_api() if device.profile.timestamps else None
        if self._api is None and "timestamp-query" not in device.gpu.features:
            raise DeviceError(
                f"device {device.name} has no timestamps: its dispatches cannot be timed one by "
                "one; time the whole graph instead"
            )
        self.recording: list[tuple[float, float]] = []
        self.submitting: list[tuple[float, float]] = []
        self._parts = [self._start(part) for part in self._cut(plan.dispatches)]

    @classmethod
    def warm_up(cls, device: WgpuDevice) -> None:
        """Do once what the first run in a process would pay for (the bindings are parsed when they
        are first used, 0.1 s), so that it is not counted."""
        run = cls(device, Plan(0, [], (), 0, None))
        run._stamps(*run._start(()))

    def _cut(self, dispatches: Sequence[Any]) -> Iterable[Sequence[Any]]:
        step = MAX_QUERIES // 2 if self._api is None else MAX_QUERIES - 3
        for i in range(0, len(dispatches), step):
            yield dispatches[i : i + step]

    def _start(self, dispatches: Sequence[Any]) -> tuple[int, Any]:
        """(number of timestamps, the buffer they will be in) of a stretch that was submitted."""
        began = perf_counter()
        gpu, flags = self._device.gpu, module().BufferUsage
        n = 2 * max(len(dispatches), 1) if self._api is None else len(dispatches) + 3
        queries = gpu.create_query_set(type="timestamp", count=n)
        usage = int(flags.QUERY_RESOLVE | flags.COPY_SRC)
        out = self._device.create_buffer(n * 8, usage, "timestamps")
        encoder = gpu.create_command_encoder()
        if self._api is None:
            self._one_pass_each(encoder, queries, dispatches)
        else:
            self._in_one_pass(encoder, queries, dispatches, self._api[0])
        encoder.resolve_query_set(queries, 0, n, out, 0)
        commands = encoder.finish()
        recorded = perf_counter()
        gpu.queue.submit([commands])
        self.recording.append((began, recorded))
        self.submitting.append((recorded, perf_counter()))
        return n, out

    def _in_one_pass(self, encoder: Any, queries: Any, dispatches: Sequence[Any], lib: Any) -> None:
        compute_pass = _timed_pass(encoder, queries, 0, len(dispatches) + 2)
        write = lib.wgpuComputePassEncoderWriteTimestamp
        write(compute_pass._internal, queries._internal, 1)
        for i, d in enumerate(dispatches):
            _dispatch(compute_pass, d)
            write(compute_pass._internal, queries._internal, i + 2)
        compute_pass.end()

    def _one_pass_each(self, encoder: Any, queries: Any, dispatches: Sequence[Any]) -> None:
        for i, d in enumerate(dispatches):
            compute_pass = _timed_pass(encoder, queries, 2 * i, 2 * i + 1)
            _dispatch(compute_pass, d)
            compute_pass.end()

    def read(self) -> TimedPlan:
        """The times, once the device is done."""
        starts: list[int] = []
        ends: list[int] = []
        first = last = 0
        for k, (n, out) in enumerate(self._parts):
            stamps = self._stamps(n, out)
            if self._api is None:
                starts += stamps[::2]
                ends += stamps[1::2]
            else:
                starts += stamps[1:-2]
                ends += stamps[2:-1]
            first = stamps[0] if k == 0 else first
            last = stamps[-1]
        ns = _period(self._device)
        dispatches = self._plan.dispatches
        timings = [
            Timing(d.label, d.node, int(max(end - start, 0) * ns), int((start - first) * ns))
            for d, start, end in zip(dispatches, starts, ends, strict=True)
        ]
        return TimedPlan(timings, int((last - first) * ns))

    def _stamps(self, n: int, out: Any) -> list[int]:
        ticks = np.frombuffer(self._device.gpu.queue.read_buffer(out), np.uint64)
        out.destroy()
        return [int(v) for v in ticks]


def _timed_pass(encoder: Any, queries: Any, begin: int, end: int) -> Any:
    return encoder.begin_compute_pass(
        timestamp_writes={
            "query_set": queries,
            "beginning_of_pass_write_index": begin,
            "end_of_pass_write_index": end,
        }
    )


def _dispatch(compute_pass: Any, d: Any) -> None:
    compute_pass.set_pipeline(d.pipeline.gpu)
    compute_pass.set_bind_group(0, d.bind_group)
    compute_pass.dispatch_workgroups(*d.groups)


def _period(device: WgpuDevice) -> float:
    """Nanoseconds of a tick: wgpu-native gives the driver's ticks, others nanoseconds."""
    api = raw_api()
    if api is None:
        return 1.0
    return float(api[0].wgpuQueueGetTimestampPeriod(device.gpu.queue._internal)) or 1.0
