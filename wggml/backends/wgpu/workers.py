"""Spreading a software adapter's worker threads over the processors.

llvmpipe and SwiftShader compute on as many threads as there are processors and wake them for every
dispatch. Linux tends to wake both of two workers on the processor of the thread that waits for
them, where they take turns while the other one idles: a token took 36 ms instead of 19 on two
cores, for minutes on end. So each busy worker gets a processor of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from wggml.backends.wgpu.probe import run_once

_TASKS = Path("/proc/self/task")
ENV_PIN = "WGGML_PIN_WORKERS"
# Some milliseconds of work for every thread.
_GROUPS, _STEPS = 512, 4096
_SHADER = f"""
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(8) fn main(
    @builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32,
) {{
    var v = wg.x * 8u + lane + out[0];
    for (var i = 0u; i < {_STEPS}u; i++) {{ v = v * 1664525u + 1013904223u; }}
    if (v == 0u) {{ out[0] = v; }}
}}
"""


def spread(gpu_device: Any) -> int:
    """Pin the threads that compute for `gpu_device` to a processor each; returns how many.

    Does nothing (0) where they are not exactly as many as the processors this process may use, on
    systems without thread accounting, and with WGGML_PIN_WORKERS=0.
    """
    if not sys.platform.startswith("linux") or os.environ.get(ENV_PIN) == "0":
        return 0
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return 0
    try:
        _burn(gpu_device)  # compiled now, by a thread that is none of the workers
        before = _run_times()
        _burn(gpu_device)
        after = _run_times()
    except OSError:
        return 0
    ran = {tid: ns - before.get(tid, 0) for tid, ns in after.items() if tid not in _own_threads()}
    most = max(ran.values(), default=0)
    workers = sorted(tid for tid, ns in ran.items() if ns and ns >= most // 4)
    if len(workers) != len(cpus):
        return 0
    for tid, cpu in zip(workers, cpus, strict=True):
        try:
            os.sched_setaffinity(tid, {cpu})
        except OSError:  # it ended, or may not be moved
            return 0
    return len(workers)


def _own_threads() -> set[int]:
    return {t.native_id for t in threading.enumerate() if t.native_id is not None}


def _run_times() -> dict[int, int]:
    """Nanoseconds that each thread of this process has run."""
    times = {}
    for task in _TASKS.iterdir():
        try:
            times[int(task.name)] = int((task / "schedstat").read_text("ascii").split()[0])
        except FileNotFoundError:  # it ended meanwhile
            continue
    return times


def _burn(device: Any) -> None:
    run_once(device, _SHADER, 16, _GROUPS)
