"""Weight layouts: how block-format tensors lie in WEIGHTS buffers.

A file stores blocks of, say, 20 bytes (scale, minimum, 16 bytes of codes), which no GPU reads well.
At upload each tensor is split into *regions*, arrays with one record per block, in block order:
codes as whole `vec4<u32>`, scales apart; q6_K's upper bits are also brought into another order.
Nothing is recomputed, so `unpack` gives the file's bytes back. Since every region is linear in the
block index, rows, row ranges, experts and any other view made of whole blocks are found by
arithmetic on block numbers, as in the file.

Regions of one tensor follow each other, each starting at a multiple of 16 bytes. The region names
are the ones the loaders in `shaders/mul_mat/types/` use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS, Type, type_name, type_size
from wggml.errors import ShapeError
from wggml.hal.interface import BufferUsage

U8 = npt.NDArray[np.uint8]

ALIGN = 16


class Field(NamedTuple):
    """Bytes [begin, begin + nbytes) of each block, kept as records of `stride` bytes.

    `elem` is what a shader reads: a WGSL type, or `half` / `byte` for records smaller than a u32,
    which lie densely in an `array<u32>`.
    """

    name: str
    elem: str
    begin: int
    nbytes: int
    stride: int


def _field(name: str, elem: str, begin: int, nbytes: int, stride: int = 0) -> Field:
    return Field(name, elem, begin, nbytes, stride or nbytes)


# Q4_K and Q5_K blocks are whole vec4s already; Q3_K gets two bytes of padding (1.8 %).
FIELDS: dict[Type, tuple[Field, ...]] = {
    Type.Q4_0: (_field("q", "vec4<u32>", 2, 16), _field("d", "half", 0, 2)),
    Type.Q4_1: (_field("q", "vec4<u32>", 4, 16), _field("d", "u32", 0, 4)),
    Type.Q5_0: (
        _field("q", "vec4<u32>", 6, 16), _field("h", "u32", 2, 4), _field("d", "half", 0, 2),
    ),
    Type.Q5_1: (
        _field("q", "vec4<u32>", 8, 16), _field("h", "u32", 4, 4), _field("d", "u32", 0, 4),
    ),
    Type.Q8_0: (_field("q", "vec4<u32>", 2, 32), _field("d", "half", 0, 2)),
    Type.Q2_K: (_field("q", "vec4<u32>", 0, 80), _field("d", "u32", 80, 4)),
    Type.Q3_K: (_field("q", "vec4<u32>", 0, 110, 112),),
    Type.Q4_K: (_field("q", "vec4<u32>", 0, 144),),
    Type.Q5_K: (_field("q", "vec4<u32>", 0, 176),),
    Type.Q6_K: (_field("q", "vec4<u32>", 0, 208), _field("d", "half", 208, 2)),
    Type.Q1_0: (_field("q", "vec4<u32>", 2, 16), _field("d", "half", 0, 2)),
    Type.Q2_0: (_field("q", "vec4<u32>", 2, 16), _field("d", "half", 0, 2)),
    Type.IQ4_NL: (_field("q", "vec4<u32>", 2, 16), _field("d", "half", 0, 2)),
    Type.IQ4_XS: (
        _field("q", "vec4<u32>", 8, 128), _field("h", "u32", 4, 4), _field("d", "u32", 0, 4),
    ),
    Type.MXFP4: (_field("q", "vec4<u32>", 1, 16), _field("d", "byte", 0, 1)),
    Type.NVFP4: (_field("q", "vec4<u32>", 4, 32), _field("d", "u32", 0, 4)),
    Type.TQ1_0: (
        _field("q", "vec4<u32>", 0, 48), _field("h", "u32", 48, 4), _field("d", "half", 52, 2),
    ),
    Type.TQ2_0: (_field("q", "vec4<u32>", 0, 64), _field("d", "half", 64, 2)),
    Type.IQ2_XXS: (_field("q", "vec4<u32>", 2, 64), _field("d", "half", 0, 2)),
    Type.IQ2_XS: (
        _field("q", "vec4<u32>", 2, 64), _field("h", "u32", 66, 8), _field("d", "half", 0, 2),
    ),
    Type.IQ2_S: (
        _field("q", "vec4<u32>", 2, 64), _field("h", "vec4<u32>", 66, 16),
        _field("d", "half", 0, 2),
    ),
    Type.IQ3_XXS: (_field("q", "vec4<u32>", 2, 96), _field("d", "half", 0, 2)),
    Type.IQ3_S: (
        _field("q", "vec4<u32>", 2, 64), _field("h", "u32", 66, 44), _field("d", "half", 0, 2),
    ),
    Type.IQ1_S: (_field("q", "vec4<u32>", 2, 48), _field("d", "half", 0, 2)),
    Type.IQ1_M: (_field("q", "vec4<u32>", 0, 48), _field("h", "u32", 48, 8)),
}  # fmt: skip


def _turn_upper_bits(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Transpose the 2-bit fields of bytes: [4, n] words -> [4, n]. Field i of a byte of word j
    becomes field j of the same byte of word i. Its own inverse."""
    out = np.zeros_like(words)
    for i in range(4):
        for j in range(4):
            field = words[j] >> np.uint32(2 * i)
            field &= np.uint32(0x03030303)
            field <<= np.uint32(2 * j)
            out[i] |= field
    return out


def _gather_q6_k(blocks: U8) -> U8:
    """[n, 210] blocks with the upper bits (bytes 128..191) brought together by chunk of 32 weights:
    two words each, weight 4 j + k of sixteen in bits 2 j of byte k. Chunks that share nibble bytes
    (4 h + p and 4 h + p + 2) follow each other."""
    n = len(blocks)
    upper = np.ascontiguousarray(blocks[:, 128:192]).view(np.uint32)
    # half h, sixteen s, word j -> j first; then chunk 2 v + p first
    words = upper.reshape(n, 2, 2, 4).transpose(3, 0, 1, 2).reshape(4, n * 4)
    turned = _turn_upper_bits(words).reshape(2, 2, n, 2, 2)  # v, p, block, h, s
    out = blocks.copy()
    out[:, 128:192] = (
        np.ascontiguousarray(turned.transpose(2, 3, 1, 0, 4)).view(np.uint8).reshape(n, 64)
    )
    return out


def _scatter_q6_k(blocks: U8) -> U8:
    """The inverse of `_gather_q6_k`."""
    n = len(blocks)
    pairs = np.ascontiguousarray(blocks[:, 128:192]).view(np.uint32).reshape(n, 2, 2, 2, 2)
    words = pairs.transpose(3, 2, 0, 1, 4).reshape(4, n * 4)  # v, p, block, h, s
    turned = _turn_upper_bits(words).reshape(4, n, 2, 2)
    out = blocks.copy()
    out[:, 128:192] = (
        np.ascontiguousarray(turned.transpose(1, 2, 3, 0)).view(np.uint8).reshape(n, 64)
    )
    return out


# Plain types are taken sixteen bytes at a time where they lie in textures (texels.py); in buffers
# they keep the file's layout, which is the same.
PLAIN_FIELDS: dict[Type, tuple[Field, ...]] = {
    t: (_field("q", "vec4<u32>", 0, 16),) for t in (Type.F32, Type.F16, Type.BF16)
}

# Types whose bits are rearranged within each block: (file -> packed, packed -> file).
ORDERS: dict[Type, tuple[Callable[[U8], U8], Callable[[U8], U8]]] = {
    Type.Q6_K: (_gather_q6_k, _scatter_q6_k),
}


@dataclass(frozen=True, slots=True)
class Region:
    """One field of all blocks: `nbytes` bytes at byte `offset` of the packed tensor."""

    field: Field
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A packed tensor: `n_blocks` blocks of `block_bytes` file bytes in `nbytes` bytes.

    `granule`: writes must begin at a block number that is a multiple of it (and end there, or at
    the last block), so that they fall on whole 4-byte words.
    """

    type: Type
    n_blocks: int
    block_bytes: int
    regions: tuple[Region, ...]
    nbytes: int
    granule: int


def is_packed_type(type: Type) -> bool:
    """True when WEIGHTS buffers hold `type` in a layout of their own."""
    return type in FIELDS


@lru_cache(maxsize=4096)
def layout(type: Type, ne: Shape4) -> Layout:
    """Where each region of a contiguous tensor lies. `ShapeError` for types that are not packed."""
    if type not in FIELDS:
        known = ", ".join(type_name(t) for t in FIELDS)
        raise ShapeError(f"type {type_name(type)} has no packed layout; packed types: {known}")
    n_blocks = ne[0] // TRAITS[type].blck_size * ne[1] * ne[2] * ne[3]
    return _layout(type, FIELDS[type], n_blocks, type_size(type))


@lru_cache(maxsize=4096)
def plain_layout(type: Type, ne: Shape4) -> Layout:
    """The same for plain types whose rows are whole blocks of sixteen bytes."""
    n_blocks = ne[0] * type_size(type) // 16 * ne[1] * ne[2] * ne[3]
    return _layout(type, PLAIN_FIELDS[type], n_blocks, 16)


def _layout(type: Type, fields: tuple[Field, ...], n_blocks: int, block_bytes: int) -> Layout:
    regions: list[Region] = []
    offset = 0
    for f in fields:
        nbytes = -(-n_blocks * f.stride // ALIGN) * ALIGN
        regions.append(Region(f, offset, nbytes))
        offset += nbytes
    granule = max(4 // min(f.stride, 4) for f in fields)
    return Layout(type, n_blocks, block_bytes, tuple(regions), offset, granule)


def packed_size(type: Type, ne: Shape4) -> int:
    """Bytes a contiguous tensor takes in a WEIGHTS buffer: the file's size for plain types, and up
    to 2 % and a few bytes more for packed ones."""
    if type in FIELDS:
        return layout(type, ne).nbytes
    traits = TRAITS[type]
    return ne[0] // traits.blck_size * traits.type_size * ne[1] * ne[2] * ne[3]


def packed_root(t: Tensor) -> Tensor | None:
    """The tensor whose packed layout holds `t` (itself, or the root it views); None when `t` lies
    in the file's layout. `t` must be placed."""
    buffer = t.placed_in
    root = t.view_src or t
    if buffer is None or buffer.usage != BufferUsage.WEIGHTS:
        return None
    return root if root.type in FIELDS and root.is_contiguous() else None


# ---- bytes in and out ---------------------------------------------------------------------------


def block_range(type: Type, offset: int, nbytes: int) -> tuple[int, int]:
    """(first block, count) of a byte range in the file's layout; `ShapeError` unless it is whole
    blocks."""
    size = type_size(type)
    if offset % size or nbytes % size:
        raise ShapeError(
            f"bytes {offset}..{offset + nbytes} of a packed {type_name(type)} tensor are not whole "
            f"blocks of {size} bytes; read or write whole rows"
        )
    return offset // size, nbytes // size


def pack(lay: Layout, first_block: int, blocks: U8) -> Iterator[tuple[int, U8]]:
    """File bytes of consecutive blocks -> (byte offset in the packed tensor, bytes) to write there.

    `blocks` is uint8 of any shape, contiguous. Sizes written are multiples of 4 bytes: a range that
    ends at the last block is padded with zeros. Raises `ShapeError` when the range breaks the
    layout's `granule` (read, merge and write whole granules then) or leaves the tensor.
    """
    size = lay.block_bytes
    count = blocks.size // size
    end = first_block + count
    if blocks.size % size or end > lay.n_blocks:
        raise ShapeError(
            f"{blocks.size} bytes from block {first_block} on do not fit a {type_name(lay.type)} "
            f"tensor of {lay.n_blocks} blocks of {size} bytes"
        )
    if first_block % lay.granule or (end % lay.granule and end != lay.n_blocks):
        raise ShapeError(
            f"blocks {first_block}..{end} of a packed {type_name(lay.type)} tensor: writes must "
            f"begin and end at a multiple of {lay.granule} blocks"
        )
    flat = blocks.reshape(count, size)
    if lay.type in ORDERS:
        flat = ORDERS[lay.type][0](flat)
    for region in lay.regions:
        yield region.offset + first_block * region.field.stride, _gather(flat, region.field)


def _gather(blocks: U8, f: Field) -> U8:
    """One field of [n, type_size] blocks as flat records, padded to whole words."""
    n = len(blocks)
    if f.stride == f.nbytes == blocks.shape[1]:
        return blocks.reshape(-1)
    out = np.zeros(-(-n * f.stride // 4) * 4, np.uint8)
    # void fields move as units, several times faster than byte by byte
    source = np.dtype({"names": ["v"], "formats": [f"V{f.nbytes}"], "offsets": [f.begin],
                       "itemsize": blocks.shape[1]})  # fmt: skip
    target = np.dtype({"names": ["v"], "formats": [f"V{f.nbytes}"], "itemsize": f.stride})
    out[: n * f.stride].view(target)["v"] = (
        np.ascontiguousarray(blocks).reshape(-1).view(source)["v"]
    )
    return out


def spans(lay: Layout, first_block: int, count: int) -> list[tuple[int, int]]:
    """(byte offset, nbytes) per region to read before `unpack`; whole 4-byte words, so the ranges
    may hold a neighbour's bytes at both ends."""
    out = []
    for r in lay.regions:
        begin = first_block * r.field.stride // 4 * 4
        end = -(-(first_block + count) * r.field.stride // 4) * 4
        out.append((r.offset + begin, end - begin))
    return out


def unpack(lay: Layout, first_block: int, count: int, parts: Sequence[U8]) -> U8:
    """The file's bytes of `count` blocks, from what `spans` told to read. Flat uint8."""
    out = np.empty((count, lay.block_bytes), np.uint8)
    for r, part in zip(lay.regions, parts, strict=True):
        f = r.field
        skip = first_block * f.stride % 4
        records = part[skip : skip + count * f.stride].reshape(count, f.stride)
        out[:, f.begin : f.begin + f.nbytes] = records[:, : f.nbytes]
    if lay.type in ORDERS:
        out = ORDERS[lay.type][1](out)
    return out.reshape(-1)
