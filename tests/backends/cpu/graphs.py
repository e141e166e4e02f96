"""Small graphs placed by hand, so that tests decide which tensors share memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wggml.backends.cpu.backend import CpuBackend
from wggml.backends.cpu.buffer import CpuBuffer
from wggml.backends.cpu.device import CpuDevice
from wggml.core.context import Context
from wggml.core.graph import Graph, next_uid
from wggml.core.tensor import Tensor
from wggml.hal.interface import BufferUsage


def cpu(**options: Any) -> CpuBackend:
    return CpuDevice().init_backend(**options)


def place(tensors: Sequence[Tensor], usage: BufferUsage = BufferUsage.COMPUTE) -> CpuBuffer:
    """Put every root among `tensors` that has no place yet into one new buffer, views with them."""
    buft = CpuDevice().buffer_type()
    roots = [t for t in tensors if t.view_src is None and t.data is None]
    offsets, end = [], 0
    for t in roots:
        offsets.append(end)
        end += -(-buft.alloc_size(t) // buft.alignment) * buft.alignment
    buffer = buft.alloc_buffer(end)
    buffer.usage = usage
    buffer.clear(0xFF)
    for t, at in zip(roots, offsets, strict=True):
        t.buffer, t.data = buffer, at
    place_views(tensors)
    return buffer


def place_views(tensors: Sequence[Tensor]) -> None:
    for t in tensors:
        root = t.view_src
        if root is not None and root.data is not None:
            t.buffer, t.data = root.buffer, root.data + t.view_offs


def share(t: Tensor, with_: Tensor) -> None:
    """Give `t` the memory of `with_`, as the allocator does for in-place results."""
    t.buffer, t.data = with_.buffer, with_.data


def graph_of(*results: Tensor, uid: bool = False) -> Graph:
    graph = Graph(256)
    for t in results:
        graph.build_forward_expand(t)
    if uid:
        graph.uid = next_uid()
    return graph


def fill(ctx: Context, values: Callable[[Tensor], np.ndarray | None]) -> None:
    """Write `values(t)` into every root for which there are any."""
    for t in ctx.tensors:
        if t.view_src is None and (array := values(t)) is not None:
            t.set(array)
