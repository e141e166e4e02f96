"""Packed weights in and out of a WEIGHTS buffer, byte for byte as the file has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.wgpu import packing, texels
from wggml.core.tensor import Tensor
from wggml.hal.interface import Bytes

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer

# File bytes packed at once: bounds the host memory an upload takes besides the memory map.
PIECE = 8 << 20


def packed_size(t: Tensor) -> int:
    """Bytes `t` takes when it is packed; its own size when it cannot be."""
    if not packing.is_packed_type(t.type) or t.view_src is not None or not t.is_contiguous():
        return t.nbytes
    return packing.packed_size(t.type, t.ne)


def is_packed(t: Tensor) -> bool:
    """True when `t` (placed) lies in a packed layout or in textures."""
    return packing.packed_root(t) is not None or texels.plain_root(t) is not None


def write(buffer: WgpuBuffer, t: Tensor, raw: Bytes, offset: int) -> None:
    """Write file bytes `raw` at `offset` of `t`; ranges that are no whole granules of blocks are
    read, merged and written back."""
    root, lay, at = _locate(t)
    store = texels.texels_of(root)
    size = lay.block_bytes
    begin, end = offset + at, offset + at + len(raw)
    unit = size * lay.granule
    first = begin // unit * lay.granule
    last = min(-(-end // unit) * lay.granule, lay.n_blocks)
    if first * size != begin or last * size != end:
        merged = _read_blocks(buffer, root, lay, first, last - first)
        merged[begin - first * size : end - first * size] = raw
        raw = merged
    step = max(PIECE // unit, 1) * lay.granule
    for block in range(first, last, step):
        i, n = (block - first) * size, min(step, last - block) * size
        if store is not None:
            texels.write_blocks(store, block, raw[i : i + n])
            continue
        for place, data in packing.pack(lay, block, raw[i : i + n]):
            buffer.write_bytes(_base(root) + place, data)


def read(buffer: WgpuBuffer, t: Tensor, offset: int, nbytes: int) -> Bytes:
    """`nbytes` file bytes at `offset` of `t`."""
    root, lay, at = _locate(t)
    size = lay.block_bytes
    begin, end = offset + at, offset + at + nbytes
    first, last = begin // size, -(-end // size)
    if first == last:
        return np.empty(0, np.uint8)
    raw = _read_blocks(buffer, root, lay, first, last - first)
    return raw[begin - first * size : end - first * size]


def _locate(t: Tensor) -> tuple[Tensor, packing.Layout, int]:
    """(root, its layout, byte offset of `t` in the root's file bytes)."""
    root = t.view_src or t
    lay = packing.layout(root.type, root.ne) if packing.packed_root(t) else texels.plain_of(root)
    return root, lay, t.view_offs if root is not t else 0


def _base(root: Tensor) -> int:
    assert root.data is not None
    return root.data


def _read_blocks(
    buffer: WgpuBuffer, root: Tensor, lay: packing.Layout, first: int, count: int
) -> Bytes:
    store = texels.texels_of(root)
    if store is not None:
        return texels.read_blocks(store, first, count)
    spans = packing.spans(lay, first, count)
    parts = [buffer.read_bytes(_base(root) + begin, n) for begin, n in spans]
    return packing.unpack(lay, first, count, parts)
