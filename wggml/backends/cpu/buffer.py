"""Host memory as NumPy arrays, made by us or mapped from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from wggml.core.tensor import Tensor
from wggml.errors import AllocationError, UsageError
from wggml.hal.interface import Buffer, BufferType, BufferUsage, Device

if TYPE_CHECKING:
    from wggml.backends.cpu.mirrors import Mirror

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 32  # of tensors in a buffer, as in ggml and in GGUF files
BASE_ALIGNMENT = 64  # of a buffer's first byte: one cache line


class Watcher(Protocol):
    """Whoever keeps something derived from a buffer's bytes or place."""

    def buffer_written(self, buffer: CpuBuffer, begin: int, end: int) -> None:
        """Bytes [begin, end) changed through the buffer's own calls."""

    def buffer_freed(self, buffer: CpuBuffer) -> None:
        """The memory is going away."""


class CpuBufferType(BufferType):
    """Ordinary host memory. Any `CpuBuffer` can be read by the CPU backend without a copy."""

    is_host = True

    def __init__(self, device: Device | None = None, name: str = "CPU") -> None:
        self.name = name
        self.device = device
        self.alignment = ALIGNMENT

    def alloc_buffer(self, size: int) -> CpuBuffer:
        """A buffer of `size` bytes with undefined contents; `AllocationError` when the system has
        no memory of that size."""
        try:
            return CpuBuffer(self, aligned_bytes(size))
        except (MemoryError, ValueError) as e:
            raise AllocationError(
                f"cannot get {size} bytes of host memory ({size / 2**20:.1f} MiB); use a smaller "
                "context or model, or free memory"
            ) from e

    def buffer_from_host(self, array: npt.NDArray[np.uint8]) -> CpuBuffer:
        """A buffer over bytes that exist already (a mapped file), without a copy.

        `array` is 1-D, contiguous uint8 and must outlive the buffer's use. If it is not writeable
        (a read-only map), writing to a tensor in it raises `UsageError`.
        """
        if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
            raise UsageError(
                f"buffer_from_host needs a contiguous 1-D uint8 array, got {array.dtype} "
                f"{array.shape}; use numpy.frombuffer(mapped, numpy.uint8)"
            )
        return CpuBuffer(self, array)


def aligned_bytes(size: int) -> Bytes:
    """`size` uninitialised bytes whose address is a multiple of `BASE_ALIGNMENT`."""
    raw = np.empty(size + BASE_ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % BASE_ALIGNMENT
    return raw[skip : skip + size]


class CpuBuffer(Buffer):
    """Host memory. `memory` holds its bytes; tensors are windows into it; `mirrors` are f32 copies
    of the K and V caches in it, by their first byte."""

    def __init__(self, buft: CpuBufferType, memory: Bytes) -> None:
        self.buft = buft
        self.memory = memory
        self.size = memory.size
        self.usage = BufferUsage.ANY
        self.freed = False
        self.mirrors: dict[int, Mirror] = {}
        self._watchers: WeakSet[Watcher] = WeakSet()

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` (held weakly) of later writes and of the end of the memory."""
        self._watchers.add(watcher)

    def _window(self, t: Tensor, offset: int, nbytes: int, what: str) -> Bytes:
        if self.freed:
            raise UsageError(f"cannot {what} tensor {t.name!r}: its buffer was freed")
        assert t.data is not None
        begin = t.data + offset
        if offset < 0 or nbytes < 0 or begin + nbytes > self.size:
            raise UsageError(
                f"cannot {what} {nbytes} bytes at offset {offset} of tensor {t.name!r}: it starts "
                f"at byte {t.data} of a buffer of {self.size} bytes"
            )
        return self.memory[begin : begin + nbytes]

    def _writable(self, t: Tensor, offset: int, nbytes: int) -> Bytes:
        window = self._window(t, offset, nbytes, "write")
        if not window.flags.writeable:
            raise UsageError(
                f"cannot write tensor {t.name!r}: its buffer is a read-only map of a file; copy "
                "the tensor into a buffer of its own first"
            )
        return window

    def written(self, begin: int, end: int) -> None:
        """Bytes [begin, end) have changed: tell all who keep something derived from them."""
        for mirror in self.mirrors.values():
            if mirror.begin < end and begin < mirror.end:
                mirror.known = 0
        for watcher in list(self._watchers):
            watcher.buffer_written(self, begin, end)

    def _written(self, t: Tensor, offset: int, nbytes: int) -> None:
        if self._watchers or self.mirrors:
            assert t.data is not None
            self.written(t.data + offset, t.data + offset + nbytes)

    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._writable(t, offset, raw.size)[:] = raw
        self._written(t, offset, raw.size)

    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        n = t.nbytes - offset if nbytes is None else nbytes
        return self._window(t, offset, n, "read").copy()

    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        self._writable(t, offset, nbytes)[:] = value
        self._written(t, offset, nbytes)

    def clear(self, value: int = 0) -> None:
        if self.freed or not self.memory.flags.writeable:
            raise UsageError("cannot clear a freed buffer or a read-only map of a file")
        self.memory[:] = value
        self.written(0, self.size)

    def host_bytes(self, t: Tensor) -> Bytes | None:
        return self._window(t, 0, t.nbytes, "read")

    def copy_from(self, src: Tensor, dst: Tensor) -> bool:
        home = src.placed_in
        if not isinstance(home, CpuBuffer):
            return False
        n = src.nbytes
        self._writable(dst, 0, n)[:] = home._window(src, 0, n, "read")
        self._written(dst, 0, n)
        return True

    def free(self) -> None:
        if self.freed:
            return
        self.freed = True
        for watcher in list(self._watchers):
            watcher.buffer_freed(self)
        self._watchers.clear()
        self.mirrors.clear()
        self.memory = np.empty(0, np.uint8)
