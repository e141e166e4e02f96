"""How long each dispatch of a plan takes on the device, by timestamps written inside the pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """One dispatch: its label, the graph node it belongs to, nanoseconds on the device."""

    label: str
    node: str
    ns: int


def time_plan(device: WgpuDevice, plan: Plan, runs: int = 3) -> list[Timing]:
    """Run the plan `runs` times with a timestamp after every dispatch; the least time of each.

    Timestamps cost some microseconds apiece and keep dispatches from overlapping, so the sum is
    more than an ordinary run takes. Raises `DeviceError` where the adapter has no timestamps inside
    passes.
    """
    api = raw_api()
    if not device.profile.timestamps or api is None:
        raise DeviceError(
            f"device {device.name} has no timestamps inside passes (or this wgpu version is not "
            "known to write them); time the whole graph instead"
        )
    best: list[int] = []
    for _ in range(runs):
        ns = [t for part in _parts(plan) for t in _run_part(device, part, api)]
        best = [min(a, b) for a, b in zip(best, ns, strict=True)] if best else ns
    return [Timing(d.label, d.node, t) for d, t in zip(plan.dispatches, best, strict=True)]


def summary(timings: Iterable[Timing]) -> list[tuple[str, int, int]]:
    """(label, dispatches, total ns) per label, slowest first."""
    count: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for t in timings:
        count[t.label] += 1
        total[t.label] += t.ns
    return sorted(((k, count[k], total[k]) for k in total), key=lambda row: -row[2])


def _parts(plan: Plan) -> Iterable[Sequence[Any]]:
    step = MAX_QUERIES - 1
    for i in range(0, len(plan.dispatches), step):
        yield plan.dispatches[i : i + step]


def _run_part(device: WgpuDevice, dispatches: Sequence[Any], api: tuple[Any, Any]) -> list[int]:
    lib, _ = api
    gpu = device.gpu
    flags = module().BufferUsage
    n = len(dispatches) + 1
    queries = gpu.create_query_set(type="timestamp", count=n)
    out = device.create_buffer(n * 8, int(flags.QUERY_RESOLVE | flags.COPY_SRC), "timestamps")
    encoder = gpu.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    lib.wgpuComputePassEncoderWriteTimestamp(compute_pass._internal, queries._internal, 0)
    for i, d in enumerate(dispatches):
        compute_pass.set_pipeline(d.pipeline.gpu)
        compute_pass.set_bind_group(0, d.bind_group)
        compute_pass.dispatch_workgroups(*d.groups)
        lib.wgpuComputePassEncoderWriteTimestamp(compute_pass._internal, queries._internal, i + 1)
    compute_pass.end()
    encoder.resolve_query_set(queries, 0, n, out, 0)
    gpu.queue.submit([encoder.finish()])
    stamps = np.frombuffer(gpu.queue.read_buffer(out), np.uint64).astype(np.int64)
    out.destroy()
    return [int(v) for v in np.diff(stamps)]
