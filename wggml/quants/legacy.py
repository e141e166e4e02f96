"""Formats with one scale a block: Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1.

Readers take block records [B] and fill f32 [B, block], or take the blocks apart; writers go the
other way, byte for byte what ggml's reference routines store.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.quants.layouts import F32, I8, U8, Parts, Records, bytes_at, field, reader, set_field
from wggml.quants.rounding import reciprocal, roundf, signed_max, to_f16


def scale_of(rec: Records, name: str = "d") -> F32:
    """f16 field `name` as f32 [B, 1]."""
    d: F32 = rec[name].astype(np.float32)
    return d[:, None]


def nibbles(rec: Records, name: str = "qs", groups: int = 1) -> U8:
    """[B, groups, 2, n] codes: of each group of bytes first the low halves, then the high."""
    words: npt.NDArray[np.uint64] = field(rec, name, np.uint64).reshape(len(rec), groups, -1)
    return bytes_at(words, (0, 4), 0x0F)


def _fifth_bits(rec: Records) -> U8:
    """[B, 32] bytes, 0x10 where bit j of the 32-bit `qh` is set."""
    bits: U8 = np.unpackbits(field(rec, "qh"), axis=1, bitorder="little")
    bits <<= np.uint8(4)
    return bits


def read_q1_0(rec: Records, out: F32) -> None:
    bits = np.unpackbits(field(rec, "qs"), axis=1, bitorder="little").view(np.int8)
    bits += bits
    bits -= 1
    out[...] = bits
    out *= scale_of(rec)


def read_q2_0(rec: Records, out: F32) -> None:
    four = field(rec, "qs").astype(np.uint32)
    # one byte holds four neighbouring codes: spread them over the four bytes of a word
    words = (four & 3) | (four & 12) << 6 | (four & 48) << 12 | (four & 192) << 18
    codes = words.astype("<u4").view(np.int8)
    codes -= 1
    out[...] = codes
    out *= scale_of(rec)


def parts_q4_0(rec: Records) -> Parts:
    codes = nibbles(rec).view(np.int8)
    codes -= 8
    return _one_group(codes), scale_of(rec), None


def parts_q4_1(rec: Records) -> Parts:
    return _one_group(nibbles(rec)), scale_of(rec), scale_of(rec, "m")


def parts_q5_0(rec: Records) -> Parts:
    signed: I8 = _five_bits(rec).view(np.int8)
    signed -= 16
    return _one_group(signed), scale_of(rec), None


def parts_q5_1(rec: Records) -> Parts:
    return _one_group(_five_bits(rec)), scale_of(rec), scale_of(rec, "m")


def parts_q8(rec: Records) -> Parts:
    """Q8_0 and Q8_1 (whose `s`, the scaled sum of codes, is no part of the values)."""
    return _one_group(field(rec, "qs", np.int8)), scale_of(rec), None


def _five_bits(rec: Records) -> U8:
    codes = _fifth_bits(rec)
    codes |= nibbles(rec).reshape(codes.shape)
    return codes


def _one_group(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return codes.reshape(len(codes), 1, -1)


read_q4_0 = reader(parts_q4_0)
read_q4_1 = reader(parts_q4_1)
read_q5_0 = reader(parts_q5_0)
read_q5_1 = reader(parts_q5_1)
read_q8 = reader(parts_q8)


def pack_nibbles(codes: U8) -> U8:
    """[B, 2 n] codes below 16 -> [B, n] bytes: first half low, second half high."""
    n = codes.shape[1] // 2
    return codes[:, :n] | (codes[:, n:] << np.uint8(4))


def pack_five(rec: Records, codes: U8) -> None:
    """Codes below 32 [B, 32]: nibbles in `qs`, the fifth bits in `qh`."""
    set_field(rec, "qs", pack_nibbles(codes & np.uint8(15)))
    set_field(rec, "qh", np.packbits(codes >> 4, axis=1, bitorder="little"))


def write_q1_0(x: F32, rec: Records) -> None:
    # one value after the other, as the reference sums: f32 sums depend on their order
    total = np.zeros(len(x), np.float32)
    for j in range(x.shape[1]):
        total += np.abs(x[:, j])
    rec["d"] = to_f16(total / np.float32(x.shape[1]))
    set_field(rec, "qs", np.packbits(x >= 0, axis=1, bitorder="little"))


def write_q2_0(x: F32, rec: Records) -> None:
    d = np.abs(x).max(axis=1, keepdims=True)
    rec["d"] = to_f16(d[:, 0])
    codes = np.clip(roundf(x * reciprocal(d)) + 1, 0, 3).astype(np.uint8)
    set_field(
        rec,
        "qs",
        codes[:, 0::4] | codes[:, 1::4] << 2 | codes[:, 2::4] << 4 | codes[:, 3::4] << 6,
    )


def _symmetric(x: F32, rec: Records, half: int) -> U8:
    """Codes 0 .. 2 half - 1 with the value of largest magnitude at code 0; stores `d`."""
    d = signed_max(x) / np.float32(-half)
    rec["d"] = to_f16(d[:, 0])
    codes = (x * reciprocal(d) + np.float32(half + 0.5)).astype(np.int32)
    return np.minimum(codes, np.int32(2 * half - 1)).astype(np.uint8)


def _affine(x: F32, rec: Records, top: int) -> U8:
    """Codes 0 .. top between the smallest and the largest value; stores `d` and `m`."""
    low = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - low) / np.float32(top)
    rec["d"] = to_f16(d[:, 0])
    rec["m"] = to_f16(low[:, 0])
    codes: npt.NDArray[np.int32] = ((x - low) * reciprocal(d) + np.float32(0.5)).astype(np.int32)
    return np.minimum(codes, np.int32(top)).astype(np.uint8)


def write_q4_0(x: F32, rec: Records) -> None:
    set_field(rec, "qs", pack_nibbles(_symmetric(x, rec, 8)))


def write_q4_1(x: F32, rec: Records) -> None:
    set_field(rec, "qs", pack_nibbles(_affine(x, rec, 15)))


def write_q5_0(x: F32, rec: Records) -> None:
    pack_five(rec, _symmetric(x, rec, 16))


def write_q5_1(x: F32, rec: Records) -> None:
    pack_five(rec, _affine(x, rec, 31))


def _eight_bits(x: F32, rec: Records) -> tuple[F32, npt.NDArray[np.int8]]:
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    rec["d"] = to_f16(d[:, 0])
    codes = roundf(x * reciprocal(d)).astype(np.int8)
    set_field(rec, "qs", codes)
    return d, codes


def write_q8_0(x: F32, rec: Records) -> None:
    _eight_bits(x, rec)


def write_q8_1(x: F32, rec: Records) -> None:
    d, codes = _eight_bits(x, rec)
    rec["s"] = to_f16(codes.sum(axis=1, dtype=np.int32).astype(np.float32) * d[:, 0])
