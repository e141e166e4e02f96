"""Placing all tensors of a context at once: weights and caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wggml.alloc.dyn_tallocr import pad
from wggml.alloc.tallocr import Tallocr, unplace, view_init
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError
from wggml.hal.interface import UNLIMITED, Buffer, BufferType, BufferUsage


def alloc_ctx_tensors(
    tensors: Iterable[Tensor] | Context,
    buft: BufferType,
    usage: BufferUsage = BufferUsage.WEIGHTS,
) -> list[Buffer]:
    """Place every tensor that has no place yet, in order, in as few buffers as `buft.max_size`
    allows. A tensor larger than that gets a buffer of its own. Views follow their roots.

    Returns the buffers made; none when nothing needed memory. Raises `AllocationError` when one is
    refused; then all are freed and the tensors are unplaced again.
    """
    made: list[Buffer] = []
    placed: list[Tensor] = []
    for part, size in _parts(list(tensors), buft):
        try:
            buffer = buft.alloc_buffer(size)
        except AllocationError as e:
            for t in placed:
                unplace(t)
            for b in made:
                b.free()
            raise AllocationError(_refused(part, size, made, buft, e)) from e
        buffer.usage = usage
        made.append(buffer)
        placed += _fill(part, buffer)
    return made


def alloc_ctx_tensors_size(tensors: Iterable[Tensor] | Context, buft: BufferType) -> int:
    """Bytes that `alloc_ctx_tensors` would request."""
    return sum(size for _, size in _parts(list(tensors), buft))


def _parts(tensors: list[Tensor], buft: BufferType) -> Iterator[tuple[list[Tensor], int]]:
    """Consecutive tensors that share a buffer, and its bytes. The last part is left out when it
    needs none."""
    part: list[Tensor] = []
    size = 0
    for t in tensors:
        need = 0
        if t.data is None and t.view_src is None:
            need = pad(buft.alloc_size(t), buft.alignment)
        if size and size + need > buft.max_size:
            yield part, size
            part, size = [], 0
        part.append(t)
        size += need
    if size:
        yield part, size


def _fill(part: list[Tensor], buffer: Buffer) -> list[Tensor]:
    """Place a part; returns the tensors that got a place."""
    tallocr = Tallocr(buffer)
    placed = []
    for t in part:
        if t.view_src is not None:
            if t.buffer is not None or t.view_src.buffer is None:
                continue
            view_init(t)
        elif t.data is None:
            tallocr.alloc(t)
        else:
            continue
        placed.append(t)
    return placed


def _refused(
    part: list[Tensor], size: int, made: list[Buffer], buft: BufferType, e: AllocationError
) -> str:
    largest = max((t for t in part if t.view_src is None), key=buft.alloc_size)
    limit = "no limit" if buft.max_size >= UNLIMITED else f"at most {buft.max_size} bytes"
    return (
        f"no memory for {len(part)} tensors: {buft.name} refused {size} bytes ({e}) after "
        f"{sum(b.size for b in made)} bytes in {len(made)} buffers; one buffer may have {limit}; "
        f"the largest tensor is {largest.name!r} with {buft.alloc_size(largest)} bytes. Put fewer "
        "layers on this device (-ngl), or use a smaller context or a smaller quantisation"
    )
