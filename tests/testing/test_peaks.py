"""Peaks are measured on every device, and within the limits of a masked one."""

from __future__ import annotations

import math

import numpy as np

from tests.conftest import find_adapter
from wggml.backends.wgpu.device import WgpuDevice
from wggml.testing.peaks import Peaks, _Bench, measure_peaks


def check(peaks: Peaks) -> None:
    # slower than any machine that runs this, and faster than any
    assert 1e7 < peaks.copy_bytes_per_s < 1e14
    assert 1e7 < peaks.fma_flops < 1e16
    assert math.isfinite(peaks.fma_flops)


def test_the_cpu_has_peaks() -> None:
    from wggml.hal.registry import default_registry

    peaks = measure_peaks(default_registry().cpu())
    check(peaks)
    assert peaks.clock == "wall"


def test_limits_of_the_device_are_kept(adapter_name: str) -> None:
    device = find_adapter(adapter_name)
    assert isinstance(device, WgpuDevice)
    masked = device.with_mask("binding=1M,invocations=64")
    bench = _Bench(masked)
    assert bench.nbytes <= 1 << 20 and bench.lanes == 64
    marks = np.arange(bench.nbytes // 4, dtype=np.uint32)
    masked.gpu.queue.write_buffer(bench.src, 0, marks)
    bench._best_of("peak/copy.wgsl", bench.groups)
    copied = np.frombuffer(masked.gpu.queue.read_buffer(bench.dst), np.uint32)
    np.testing.assert_array_equal(copied, marks)
    check(bench.peaks())
