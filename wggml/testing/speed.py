"""How long a case takes on a device."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from wggml.core.graph import next_uid
from wggml.hal.interface import Backend, DeviceType
from wggml.testing.cost import node_bytes, node_flops
from wggml.testing.opcases import why_not
from wggml.testing.opdata import BuiltCase, OpCase, build_case, is_real
from wggml.testing.placing import place, write_leafs

MIN_RUNS, MAX_RUNS = 3, 200
ENOUGH_SECONDS = 0.1  # of measuring, once there are MIN_RUNS
SLOW_SECONDS = 1.0  # a single run as long as this is enough


@dataclass(frozen=True, slots=True)
class Speed:
    """The best run of one case: seconds, by `timestamps` of the device or the `wall` clock; bytes
    and operations as in `cost`. `reason` tells why there is no figure."""

    case: OpCase
    seconds: float = 0.0
    clock: str = ""
    bytes: int = 0
    flops: int = 0
    reason: str = ""

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds if self.seconds else 0.0


def measure(case: OpCase, backend: Backend) -> Speed:
    """Run the case until its time is known; weights lie in a WEIGHTS buffer."""
    built = build_case(case)
    placed = place(built, backend, weights_buffer=True)
    try:
        why = why_not(built, backend)
        if why is not None:
            return Speed(case, reason=why)
        write_leafs(built)
        built.graph.uid = next_uid()
        seconds, clock = _time(built, backend)
    finally:
        placed.free()
    nodes = [t for t in built.graph.nodes if is_real(t)]
    return Speed(case, seconds, clock, sum(map(node_bytes, nodes)), sum(map(node_flops, nodes)))


def _time(built: BuiltCase, backend: Backend) -> tuple[float, str]:
    once = _wall(built, backend)  # compiles
    if once > ENOUGH_SECONDS:
        once = _wall(built, backend)
    found = _timestamps(built, backend, once)
    if found is not None:
        return found, "timestamps"
    best, total, runs = once, 0.0, 1
    while runs < MAX_RUNS and once < SLOW_SECONDS:
        if runs >= MIN_RUNS and total >= ENOUGH_SECONDS:
            break
        seconds = _wall(built, backend)
        best, total, runs = min(best, seconds), total + seconds, runs + 1
    return best, "wall"


def _wall(built: BuiltCase, backend: Backend) -> float:
    began = perf_counter()
    backend.graph_compute(built.graph)
    backend.synchronize()
    return perf_counter() - began


def _timestamps(built: BuiltCase, backend: Backend, once: float) -> float | None:
    """Seconds on the device, or None where it has no clock."""
    if backend.device.type is DeviceType.CPU:
        return None
    from wggml.backends.wgpu.backend import WgpuBackend
    from wggml.backends.wgpu.implementation import raw_api
    from wggml.backends.wgpu.timing import time_plan

    assert isinstance(backend, WgpuBackend)
    profile = backend.device.profile
    # lavapipe stamps when it has queued a dispatch, not when that is done
    if profile.is_software or not profile.timestamps or raw_api() is None:
        return None
    runs = 1 if once >= SLOW_SECONDS else min(MAX_RUNS, max(MIN_RUNS, int(ENOUGH_SECONDS / once)))
    plan = backend.plan(built.graph)
    return sum(t.ns for t in time_plan(backend.device, plan, runs)) * 1e-9
