"""Buffers on a wgpu device.

Tensor bytes go in and out as the file has them. Quantised weights may lie on the device in a packed
layout (`packing.py`); this is decided by the buffer's usage: a WEIGHTS buffer packs what can be
packed, every other buffer keeps ggml's block layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.wgpu import weights
from wggml.backends.wgpu.implementation import translate
from wggml.core.tensor import Tensor
from wggml.core.types import is_quantized
from wggml.errors import AllocationError, ShapeError
from wggml.hal.interface import Buffer, BufferType, BufferUsage, Bytes

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.backends.wgpu.texels import TexelTensor

# write_buffer stages its data: pieces bound the host memory that an upload takes.
UPLOAD_PIECE = 16 << 20
# Tensors end on whole vec4s, so that a kernel may read its last elements as one.
UNIT = 16


class WgpuBufferType(BufferType):
    """Memory of one wgpu device."""

    def __init__(self, device: WgpuDevice) -> None:
        self.device: WgpuDevice = device
        self.name = device.name
        self.alignment = max(device.profile.min_storage_offset_alignment, 32)
        self.max_size = device.profile.max_buffer

    def alloc_size(self, t: Tensor) -> int:
        packed = weights.packed_size(t) or 0
        return -(-max(t.nbytes, packed) // UNIT) * UNIT

    def alloc_buffer(self, size: int) -> WgpuBuffer:
        if size > self.max_size:
            raise AllocationError(
                f"a buffer of {size} bytes on {self.name}: the device allows {self.max_size}. "
                "Split it, use a smaller context or batch, or place fewer layers on it"
            )
        return WgpuBuffer(self, size)


class WgpuBuffer(Buffer):
    """A GPUBuffer. `gpu_size` is `size` rounded up to whole vec4s."""

    def __init__(self, buft: WgpuBufferType, size: int) -> None:
        self.buft: WgpuBufferType = buft
        self.size = size
        self.device = buft.device
        self.freed = False
        self.gpu_size = max(UNIT, -(-size // UNIT) * UNIT)
        self.gpu: Any = self.device.create_buffer(
            self.gpu_size, self.device.storage_usage(), buft.name
        )
        # packed tensors that lie in textures instead, by their place in the buffer
        self.texels: dict[int, TexelTensor] = {}
        self._usage = BufferUsage.ANY
        self._holds_quants = False

    @property
    def usage(self) -> BufferUsage:
        """Decides whether quantised tensors are packed, so it cannot change once one is written."""
        return self._usage

    @usage.setter
    def usage(self, value: BufferUsage) -> None:
        repacks = BufferUsage.WEIGHTS in (value, self._usage) and value != self._usage
        if repacks and self._holds_quants:
            raise AllocationError(
                f"usage of a buffer on {self.buft.name} changes from {self._usage.name} to "
                f"{value.name} after quantised tensors were written; set it before"
            )
        self._usage = value

    def __repr__(self) -> str:
        return f"<WgpuBuffer {self.buft.name} {self.size} bytes {self._usage.name}>"

    # ---- tensors ------------------------------------------------------------------------------

    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        raw = _flat(data)
        at = self._place(t, offset, len(raw))
        self._holds_quants |= is_quantized(t.type)
        if weights.is_packed(t):
            weights.write(self, t, raw, offset)
        else:
            self.write_bytes(at, raw)

    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        n = t.nbytes - offset if nbytes is None else nbytes
        at = self._place(t, offset, n)
        if weights.is_packed(t):
            return weights.read(self, t, offset, n)
        return self.read_bytes(at, n)

    def get_tensor_into(self, t: Tensor, out: Bytes, offset: int = 0) -> None:
        """As `get_tensor`, into an array of the caller's: one copy less."""
        at = self._place(t, offset, out.nbytes)
        direct = out.flags.c_contiguous and out.dtype == np.uint8 and out.ndim == 1
        if weights.is_packed(t) or at % 4 or out.nbytes % 4 or not direct or not out.nbytes:
            out[:] = self.get_tensor(t, offset, out.nbytes)
        else:
            self.device.reader.read_into(self.gpu, at, out)

    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        self.set_tensor(t, np.full(nbytes, value, np.uint8), offset)

    def clear(self, value: int = 0) -> None:
        for at in range(0, self.gpu_size, UPLOAD_PIECE):
            n = min(UPLOAD_PIECE, self.gpu_size - at)
            self.write_bytes(at, np.full(n, value, np.uint8))

    def copy_from(self, src: Tensor, dst: Tensor) -> bool:
        """Device-side copy of equal layouts; False for packed or unaligned ones."""
        home = src.placed_in
        if not isinstance(home, WgpuBuffer) or home.device is not self.device:
            return False
        if weights.is_packed(src) or weights.is_packed(dst) or not src.same_layout(dst):
            return False
        assert src.data is not None and dst.data is not None
        n = src.nbytes
        if home is self or n % 4 or src.data % 4 or dst.data % 4:
            return False
        self._holds_quants |= is_quantized(dst.type)
        if n:
            encoder = self.device.gpu.create_command_encoder()
            encoder.copy_buffer_to_buffer(home.gpu, src.data, self.gpu, dst.data, n)
            self.device.gpu.queue.submit([encoder.finish()])
        return True

    def free(self) -> None:
        if not self.freed:
            self.freed = True
            self.gpu.destroy()
            for held in self.texels.values():
                held.free()
            self.texels.clear()

    # ---- bytes --------------------------------------------------------------------------------

    def _place(self, t: Tensor, offset: int, nbytes: int) -> int:
        """Position in the buffer of `t`'s bytes from `offset` on, checked against both ends."""
        if self.freed:
            raise AllocationError(f"tensor {t.name!r} lies in a buffer that was freed")
        if offset < 0 or nbytes < 0 or offset + nbytes > t.nbytes:
            raise ShapeError(
                f"bytes {offset}..{offset + nbytes} of tensor {t.name!r}, which has {t.nbytes}"
            )
        if t.data is None or t.data < 0 or t.data + t.nbytes > max(self.size, self.gpu_size):
            raise AllocationError(
                f"tensor {t.name!r} at {t.data} with {t.nbytes} bytes is outside its buffer of "
                f"{self.size} bytes"
            )
        return t.data + offset

    def write_bytes(self, at: int, data: Bytes) -> None:
        """Queue bytes for position `at`, whatever the alignment, in bounded pieces."""
        if not len(data):
            return
        head, tail = at % 4, (at + len(data)) % 4
        if head or tail:
            begin, end = at - head, -(-(at + len(data)) // 4) * 4
            whole = np.empty(end - begin, np.uint8)
            whole[:4] = self.read_bytes(begin, 4)
            whole[-4:] = self.read_bytes(end - 4, 4)
            whole[head : head + len(data)] = data
            at, data = begin, whole
        queue = self.device.gpu.queue
        try:
            for i in range(0, len(data), UPLOAD_PIECE):
                queue.write_buffer(self.gpu, at + i, data[i : i + UPLOAD_PIECE])
        except Exception as e:
            doing = f"writing {len(data)} bytes"
            raise translate(e, doing, self.device.name) from e

    def read_bytes(self, at: int, nbytes: int) -> Bytes:
        """Bytes after all submitted work is done."""
        if not nbytes:
            return np.empty(0, np.uint8)
        return self.device.reader.read(self.gpu, at, nbytes)


def _flat(data: Bytes) -> Bytes:
    raw = np.ascontiguousarray(data)
    return raw.reshape(-1).view(np.uint8)
