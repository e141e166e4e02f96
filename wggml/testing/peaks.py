"""What a device reaches at best: bytes copied and multiply-adds a second, by two small kernels.

Figures of other kernels are shown as shares of these, since data sheets know neither software
adapters nor throttled ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.hal.interface import Device, DeviceType

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice

# Enough for a steady state, little enough for a watchdog: each measured run takes about this long.
TARGET_SECONDS = 0.03
RUNS = 5
# Larger than the last-level caches of large GPUs; software adapters have the host's.
COPY_BYTES = {True: 64 << 20, False: 256 << 20}
LANES, COPY_STEPS, FMA_CHAINS = 256, 4, 8
SGEMM_N = 1024


@dataclass(frozen=True, slots=True)
class Peaks:
    """Best figures of one device.

    `copy_bytes_per_s` counts bytes read plus bytes written; `fma_flops` counts a multiply-add as
    two operations of f32 a second. `clock` says what measured it: `timestamps` of the device, or
    `wall` where it has none.
    """

    copy_bytes_per_s: float
    fma_flops: float
    clock: str


def measure_peaks(device: Device) -> Peaks:
    """Measure `device`, in about a second. The CPU's are NumPy's copy and BLAS's product.

    Raises `DeviceError` when the device does not open, `ShaderError` when it refuses the kernels.
    """
    if device.type is DeviceType.CPU:
        return _cpu_peaks()
    from wggml.backends.wgpu.device import WgpuDevice

    assert isinstance(device, WgpuDevice)
    return _Bench(device).peaks()


def _cpu_peaks() -> Peaks:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SGEMM_N, SGEMM_N), np.float32) for _ in range(2))
    out = np.empty_like(a)
    src = np.ones(COPY_BYTES[True] // 4, np.float32)
    dst = np.zeros_like(src)
    copy = _best(lambda: _wall(lambda: np.copyto(dst, src)))
    gemm = _best(lambda: _wall(lambda: np.matmul(a, b, out)))
    return Peaks(2 * src.nbytes / copy, 2 * SGEMM_N**3 / gemm, "wall")


def _best(run: Callable[[], float]) -> float:
    return min(run() for _ in range(RUNS))


def _wall(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


class _Bench:
    """Two buffers on a wgpu device and a clock."""

    def __init__(self, device: WgpuDevice) -> None:
        from wggml.backends.wgpu.implementation import module

        profile = device.profile
        self.device, self.gpu = device, device.gpu
        self.lanes = min(LANES, profile.max_invocations, profile.max_workgroup_size[0])
        group = self.lanes * COPY_STEPS * 16
        most = min(COPY_BYTES[profile.is_software], profile.max_binding, profile.max_buffer)
        self.groups = min(most // group, profile.max_workgroups_per_dim)
        self.nbytes = self.groups * group
        flags = module().BufferUsage
        usage = int(flags.STORAGE | flags.COPY_DST | flags.COPY_SRC)
        self.src = device.create_buffer(self.nbytes, usage, "peak src")
        self.dst = device.create_buffer(self.nbytes, usage, "peak dst")
        # software adapters stamp when a dispatch is queued, or their clocks are coarse
        self.has_clock = "timestamp-query" in self.gpu.features and not profile.is_software

    def peaks(self) -> Peaks:
        try:
            copy = self._best_of("peak/copy.wgsl", self.groups)
            flops = self._fma()
        finally:
            self.src.destroy()
            self.dst.destroy()
        return Peaks(2 * self.nbytes / copy, flops, "timestamps" if self.has_clock else "wall")

    def _fma(self) -> float:
        """Doubles the work until a run is long enough to time."""
        groups = 64 if self.device.profile.is_software else 8192
        groups = min(groups, self.device.profile.max_workgroups_per_dim)
        pipeline = self._pipeline("peak/fma.wgsl")
        count = 64
        while True:
            numbers = np.array([0, 0.9999, 0.0001], np.float32).view(np.uint32)
            numbers[0] = count
            self.gpu.queue.write_buffer(self.src, 0, numbers)
            seconds = min(self._run(pipeline, groups) for _ in range(2))
            if seconds >= TARGET_SECONDS or count >= 1 << 20:
                break
            count *= 2 if seconds > TARGET_SECONDS / 4 else 4
        seconds = min(seconds, _best(lambda: self._run(pipeline, groups)))
        return 8 * FMA_CHAINS * count * groups * self.lanes / seconds

    def _best_of(self, shader: str, groups: int) -> float:
        pipeline = self._pipeline(shader)
        self._run(pipeline, groups)
        return _best(lambda: self._run(pipeline, groups))

    def _pipeline(self, shader: str) -> Any:
        from wggml.backends.wgpu import templates
        from wggml.backends.wgpu.pipelines import create_module

        sizes = {"W": self.lanes, "STEPS": COPY_STEPS, "CHAINS": FMA_CHAINS}
        code = create_module(self.gpu, templates.render(shader, sizes), shader)
        return self.gpu.create_compute_pipeline(
            layout="auto", compute={"module": code, "entry_point": "main"}
        )

    def _run(self, pipeline: Any, groups: int) -> float:
        """Seconds of one dispatch."""
        gpu = self.gpu
        entries = [
            {"binding": i, "resource": {"buffer": b, "offset": 0, "size": self.nbytes}}
            for i, b in enumerate((self.src, self.dst))
        ]
        group = gpu.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        encoder = gpu.create_command_encoder()
        stamps = _Stamps(self.device) if self.has_clock else None
        compute = encoder.begin_compute_pass(**(stamps.around() if stamps else {}))
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(groups)
        compute.end()
        if stamps:
            stamps.resolve(encoder)
        commands = encoder.finish()
        self._wait()
        began = perf_counter()
        gpu.queue.submit([commands])
        self._wait()
        wall = perf_counter() - began
        return stamps.seconds() if stamps else wall

    def _wait(self) -> None:
        """A small read-back comes after all that was submitted."""
        self.gpu.queue.read_buffer(self.dst, 0, 4)


class _Stamps:
    """The device's time at the beginning and the end of a pass."""

    def __init__(self, device: WgpuDevice) -> None:
        from wggml.backends.wgpu.implementation import module

        flags = module().BufferUsage
        self.gpu = device.gpu
        self.queries = self.gpu.create_query_set(type="timestamp", count=2)
        usage = int(flags.QUERY_RESOLVE | flags.COPY_SRC)
        self.out = device.create_buffer(16, usage, "timestamps")

    def around(self) -> dict[str, Any]:
        return {
            "timestamp_writes": {
                "query_set": self.queries,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        }

    def resolve(self, encoder: Any) -> None:
        encoder.resolve_query_set(self.queries, 0, 2, self.out, 0)

    def seconds(self) -> float:
        begin, end = np.frombuffer(self.gpu.queue.read_buffer(self.out), np.uint64)
        self.out.destroy()
        return max(int(end) - int(begin), 1) * 1e-9
