"""A small laboratory on one device: tensors placed, filled, computed, read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.core.context import Context
from wggml.core.graph import Graph, next_uid
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Buffer, BufferUsage


class Lab:
    """Makes tensors on one backend. Every root gets a buffer range of its own, in order."""

    def __init__(self, backend: WgpuBackend) -> None:
        self.backend = backend
        self.ctx = Context(4096)
        self.buffers: list[Buffer] = []

    def buffer(self, nbytes: int, usage: BufferUsage = BufferUsage.COMPUTE) -> Buffer:
        buffer = self.backend.buffer_type().alloc_buffer(nbytes)
        buffer.usage = usage
        self.buffers.append(buffer)
        return buffer

    def place(self, *tensors: Tensor, usage: BufferUsage = BufferUsage.COMPUTE) -> None:
        """One new buffer for all of them, without gaps beyond the alignment."""
        buft = self.backend.buffer_type()
        ends = [0]
        for t in tensors:
            size = -(-buft.alloc_size(t) // buft.alignment) * buft.alignment
            ends.append(ends[-1] + size)
        buffer = self.buffer(ends[-1], usage)
        for t, at in zip(tensors, ends, strict=False):
            t.buffer, t.data = buffer, at

    def tensor(self, array: Any, type_: Type = Type.F32, *, weights: bool = False) -> Tensor:
        """A leaf with these values; `ne` is the shape reversed."""
        a = np.asarray(array)
        t = self.ctx.new_tensor(type_, a.shape[::-1] or (1,))
        self.place(t, usage=BufferUsage.WEIGHTS if weights else BufferUsage.COMPUTE)
        return t.set(a)

    def graph(self, *results: Tensor) -> Graph:
        """Expand and place all unplaced nodes; views follow their roots."""
        graph = Graph(1024)
        for t in results:
            graph.build_forward_expand(t)
        for t in [*graph.leafs, *graph.nodes]:
            if t.view_src is not None:
                if t.data is None:
                    assert t.view_src.data is not None
                    t.data = t.view_src.data + t.view_offs
                t.buffer = t.view_src.buffer
            elif t.data is None:
                self.place(t)
                self.buffers[-1].clear(0xFF)  # NaN: what a kernel leaves out must show
        graph.uid = next_uid()
        return graph

    def run(self, t: Tensor) -> np.ndarray[Any, Any]:
        """Compute `t` and read it."""
        self.backend.graph_compute(self.graph(t))
        return t.numpy()

    def free(self) -> None:
        for b in self.buffers:
            b.free()


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng([7, *seed])


def values(shape: Sequence[int], *seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return rng(*seed).standard_normal(tuple(shape)).astype(np.float32)
