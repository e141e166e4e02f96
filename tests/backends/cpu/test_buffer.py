"""Host buffers."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from graphs import cpu, graph_of, place

from wggml.backends.cpu.buffer import BASE_ALIGNMENT, CpuBuffer, CpuBufferType, aligned_bytes
from wggml.backends.cpu.device import CpuDevice, find_devices
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.types import Type
from wggml.errors import AllocationError, UsageError
from wggml.hal.interface import BufferType, BufferUsage, DeviceType


@pytest.mark.parametrize("size", [1, 63, 4096, 100_001])
def test_memory_begins_on_a_cache_line(size: int) -> None:
    memory = aligned_bytes(size)
    assert memory.size == size
    assert memory.ctypes.data % BASE_ALIGNMENT == 0


def test_set_get_memset_and_bounds() -> None:
    ctx = Context(4)
    t = ctx.new_tensor(Type.I32, (4,), name="t")
    buffer = place([t])
    buffer.set_tensor(t, np.arange(4, dtype=np.int32).view(np.uint8))
    buffer.set_tensor(t, np.array([9], np.int32).view(np.uint8), 8)
    buffer.memset_tensor(t, 1, 12, 4)
    assert t.numpy().tolist() == [0, 1, 9, 0x01010101]
    np.testing.assert_array_equal(buffer.get_tensor(t, 4, 4), [1, 0, 0, 0])
    with pytest.raises(UsageError, match=r"'t'.*buffer of 32 bytes"):
        buffer.set_tensor(t, np.zeros(40, np.uint8))
    with pytest.raises(UsageError, match="offset 30"):
        buffer.get_tensor(t, 30, 8)
    buffer.free()
    buffer.free()
    with pytest.raises(UsageError, match="was freed"):
        buffer.get_tensor(t)


def test_a_mapped_file_is_computed_with_and_never_written(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    path = tmp_path / "weights"
    path.write_bytes(b"\0" * 96 + weights.astype(np.float16).tobytes())
    with path.open("rb") as f:
        mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(mapped, np.uint8)
    buffer = CpuDevice().buffer_type().buffer_from_host(array)
    assert np.shares_memory(buffer.memory, array)
    buffer.usage = BufferUsage.WEIGHTS
    ctx = Context(8)
    w = ctx.new_tensor(Type.F16, (64, 8), name="w")
    w.buffer, w.data = buffer, 96
    x = ctx.new_tensor(Type.F32, (64,))
    y = ops.mul_mat(ctx, w, x)
    place([x, y])
    x.set(np.ones(64, np.float32))
    cpu().graph_compute(graph_of(y))
    expected = weights.astype(np.float16).astype(np.float64).sum(1)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-5)
    for write in (
        lambda: w.set(np.zeros(512, np.float32)),
        lambda: buffer.memset_tensor(w, 0, 0, 4),
        lambda: buffer.clear(0),
    ):
        with pytest.raises(UsageError, match="read-only map"):
            write()


def test_buffer_from_host_takes_plain_bytes_only() -> None:
    with pytest.raises(UsageError, match="contiguous 1-D uint8"):
        CpuBufferType().buffer_from_host(np.zeros((4, 4), np.uint8))


def test_copy_between_host_buffers() -> None:
    ctx = Context(4)
    a, b = ctx.new_tensor(Type.F32, (4,)), ctx.new_tensor(Type.F32, (4,))
    place([a])
    target = place([b])
    a.set(np.arange(4, dtype=np.float32))
    assert target.copy_from(a, b)
    assert b.numpy().tolist() == [0, 1, 2, 3]
    a.set(np.zeros(4, np.float32))
    backend = cpu()
    assert backend.copy_tensor_async(backend, a, b)
    assert b.numpy().tolist() == [0, 0, 0, 0]


def test_memory_that_cannot_be_had() -> None:
    with pytest.raises(AllocationError, match="host memory"):
        CpuBufferType().alloc_buffer(2**62)


def test_the_device_describes_itself() -> None:
    (device,) = find_devices()
    assert (device.name, device.type) == ("CPU", DeviceType.CPU)
    assert device.description
    assert device.props()["cores"] >= 1
    assert device.buffer_type().is_host and device.buffer_type().device is device
    assert device.supports_buft(device.buffer_type())

    class Elsewhere(BufferType):
        name = "elsewhere"

        def alloc_buffer(self, size: int) -> CpuBuffer:
            raise NotImplementedError

    assert not device.supports_buft(Elsewhere())
