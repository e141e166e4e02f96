"""Placing all tensors of a context at once: weights and caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wggml.alloc.dyn_tallocr import pad
from wggml.alloc.tallocr import Tallocr, unplace, view_init
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError
from wggml.hal.interface import UNLIMITED, Buffer, BufferType, BufferUsage

SMALLER_PART_TRIES = 3


def alloc_ctx_tensors(
    tensors: Iterable[Tensor] | Context,
    buft: BufferType,
    usage: BufferUsage = BufferUsage.WEIGHTS,
    *,
    exact: bool = False,
) -> list[Buffer]:
    """Place every tensor that has no place yet, in order, in as few buffers as `buft.max_size`
    allows. A tensor larger than that gets a buffer of its own. Views follow their roots.

    Args:
        exact: do as ggml does. Otherwise, a device that refuses a buffer within its stated limit is
            asked for halves, down to eighths; and views that come after the last tensor of a full
            buffer get their place too.

    Returns the buffers made; none when nothing needed memory. Raises `AllocationError` when one is
    refused; then all are freed and the tensors are unplaced again.
    """
    made: list[Buffer] = []
    placed: list[Tensor] = []
    tensors = list(tensors)
    todo = [(*part, 0 if exact else SMALLER_PART_TRIES) for part in _parts(tensors, buft)]
    while todo:
        part, size, tries = todo.pop(0)
        try:
            buffer = buft.alloc_buffer(size)
        except AllocationError as e:
            if tries and len(smaller := list(_parts(part, buft, size // 2))) > 1:
                todo[:0] = [(*p, tries - 1) for p in smaller]
                continue
            message = _refused(part, size, made, buft, e)
            for t in placed:
                unplace(t)
            for b in made:
                b.free()
            raise AllocationError(message) from e
        buffer.usage = usage
        made.append(buffer)
        placed += _fill(part, buffer, views=exact)
    if made and not exact:
        _init_views(tensors)
    return made


def alloc_ctx_tensors_size(tensors: Iterable[Tensor] | Context, buft: BufferType) -> int:
    """Bytes that `alloc_ctx_tensors` would request."""
    return sum(size for _, size in _parts(list(tensors), buft))


def _parts(
    tensors: list[Tensor], buft: BufferType, limit: int | None = None
) -> Iterator[tuple[list[Tensor], int]]:
    """Consecutive tensors that share a buffer of at most `limit` bytes (a single larger tensor
    excepted), and its bytes. The last part is left out when it needs none."""
    limit = buft.max_size if limit is None else limit
    part: list[Tensor] = []
    size = 0
    for t in tensors:
        need = 0
        if t.data is None and t.view_src is None:
            need = pad(buft.alloc_size(t), buft.alignment)
        if size and size + need > limit:
            yield part, size
            part, size = [], 0
        part.append(t)
        size += need
    if size:
        yield part, size


def _fill(part: list[Tensor], buffer: Buffer, *, views: bool) -> list[Tensor]:
    """Place a part, and its views if asked; returns the tensors that got memory."""
    tallocr = Tallocr(buffer)
    placed = [t for t in part if t.view_src is None and t.data is None]
    for t in placed:
        tallocr.alloc(t)
    if views:
        _init_views(part)
    return placed


def _init_views(tensors: list[Tensor]) -> None:
    for t in tensors:
        if t.view_src is not None and t.view_src.buffer is not None and t.buffer is None:
            view_init(t)


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
