"""The CPU as a device: always there, always last."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.cpu.backend import DEFAULT_CACHE_MB, CpuBackend
from wggml.backends.cpu.buffer import CpuBufferType
from wggml.core.opcodes import EMPTY_OPS, Op
from wggml.core.tensor import Tensor
from wggml.hal.interface import BufferType, Device, DeviceType

if TYPE_CHECKING:
    from wggml.backends.cpu.ops._impl import OpImpl


class CpuDevice(Device):
    """NumPy on the host's cores."""

    name = "CPU"
    type = DeviceType.CPU

    def __init__(self) -> None:
        self.description = processor_name()
        self._buft = CpuBufferType(self)

    def props(self) -> dict[str, Any]:
        free, total = self.memory()
        return {
            "api": f"NumPy {np.__version__}",
            "cores": os.cpu_count() or 1,
            "memory_total": total,
            "memory_free": free,
            "weight_cache_mb": DEFAULT_CACHE_MB,
            "missing": missing_ops(),
        }

    def memory(self) -> tuple[int, int]:
        """(available, total) bytes of host memory; zeros where the system does not tell."""
        try:
            page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
            free = os.sysconf("SC_AVPHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return (0, 0)
        return (free * page, total * page)

    def buffer_type(self) -> CpuBufferType:
        return self._buft

    def host_buffer_type(self) -> CpuBufferType:
        return self._buft

    def why_not(self, t: Tensor) -> str | None:
        if t.op in EMPTY_OPS:
            return None
        impl = kernels().get(t.op)
        return f"no kernel for {t.op.name}" if impl is None else impl.why_not(t)

    def supports_buft(self, buft: BufferType) -> bool:
        return isinstance(buft, CpuBufferType)

    def init_backend(self, **options: Any) -> CpuBackend:
        """A new stream; options as for `CpuBackend`."""
        return CpuBackend(self, **options)


def missing_ops() -> list[str]:
    """Names of ggml's ops that no kernel here computes."""
    return [op.name for op in Op if op not in EMPTY_OPS and op not in kernels()]


@cache
def kernels() -> dict[Op, OpImpl]:
    """Kernels by op, loaded when they are first asked for."""
    from wggml.backends.cpu.ops import OPS

    return OPS


def processor_name() -> str:
    """What the system calls its processor."""
    if sys.platform == "linux":
        try:
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        except OSError:
            pass
    return platform.processor() or platform.machine() or "CPU"


def find_devices() -> Sequence[CpuDevice]:
    """The one CPU device."""
    return [CpuDevice()]
