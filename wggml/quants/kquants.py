"""Reading the k-quants (super-blocks of 256 with small integer scales): Q2_K .. Q6_K, Q8_K.

Readers take block records [B] apart, or fill f32 [B, 256].
"""

from __future__ import annotations

import numpy as np

from wggml.quants.layouts import F32, I8, U8, Parts, Records, bytes_at, field, reader
from wggml.quants.legacy import nibbles, scale_of


def _two_bits(rec: Records) -> U8:
    """[B, 2, 4, 32] codes: each half of `qs` holds four groups of 32, lowest bits first."""
    return bytes_at(field(rec, "qs", np.uint64).reshape(-1, 2, 4), (0, 2, 4, 6), 0x03)


def scales_k4(rec: Records) -> tuple[U8, U8]:
    """Q4_K's and Q5_K's eight 6-bit scales and eight 6-bit minima, each [B, 8].

    Twelve bytes: 0-3 hold scales 0-3, 4-7 minima 0-3, 8-11 the low four bits of scales and
    minima 4-7, whose upper two bits are the top bits of bytes 0-7.
    """
    w = field(rec, "scales", np.uint32)
    sc = np.empty((len(rec), 2), np.uint32)
    mn = np.empty((len(rec), 2), np.uint32)
    sc[:, 0] = w[:, 0] & 0x3F3F3F3F
    mn[:, 0] = w[:, 1] & 0x3F3F3F3F
    sc[:, 1] = (w[:, 2] & 0x0F0F0F0F) | ((w[:, 0] >> 2) & 0x30303030)
    mn[:, 1] = ((w[:, 2] >> 4) & 0x0F0F0F0F) | ((w[:, 1] >> 2) & 0x30303030)
    return sc.view(np.uint8), mn.view(np.uint8)


def scales_q3(rec: Records) -> I8:
    """Q3_K's sixteen 6-bit scales [B, 16], with 32 taken off: four low bits each in bytes 0-7
    (first eight scales in the low halves), two high bits each in bytes 8-11."""
    w = field(rec, "scales", np.uint32)
    sc = np.empty((len(rec), 4), np.uint32)
    for k in range(4):
        low = w[:, k % 2] >> (4 * (k // 2)) & 0x0F0F0F0F
        sc[:, k] = low | (w[:, 2] >> (2 * k) & 0x03030303) << 4
    signed: I8 = sc.view(np.int8)
    signed -= 32
    return signed


def parts_q2_k(rec: Records) -> Parts:
    sc = field(rec, "scales")
    codes = _two_bits(rec).reshape(-1, 16, 16)
    return codes, scale_of(rec) * (sc & 15), scale_of(rec, "dmin") * -(sc >> 4).astype(np.float32)


def parts_q3_k(rec: Records) -> Parts:
    high = bytes_at(field(rec, "hmask", np.uint64), (0, 1, 2, 3, 4, 5, 6, 7), 0x01)
    codes = _two_bits(rec).reshape(high.shape)
    high <<= 2
    codes |= high
    signed: I8 = codes.view(np.int8)
    signed -= 4
    return signed.reshape(-1, 16, 16), scale_of(rec) * scales_q3(rec), None


def _parts_k4(rec: Records, codes: U8) -> Parts:
    sc, mn = scales_k4(rec)
    minima = scale_of(rec, "dmin") * mn
    return codes.reshape(-1, 8, 32), scale_of(rec) * sc, np.negative(minima, out=minima)


def parts_q4_k(rec: Records) -> Parts:
    return _parts_k4(rec, nibbles(rec, groups=4))


def parts_q5_k(rec: Records) -> Parts:
    codes = bytes_at(field(rec, "qh", np.uint64), (0, 1, 2, 3, 4, 5, 6, 7), 0x01)
    codes <<= 4
    codes |= nibbles(rec, groups=4).reshape(codes.shape)
    return _parts_k4(rec, codes)


def parts_q6_k(rec: Records) -> Parts:
    codes = bytes_at(field(rec, "qh", np.uint64).reshape(-1, 2, 4), (0, 2, 4, 6), 0x03)
    codes <<= 4
    codes |= nibbles(rec, "ql", groups=2).reshape(codes.shape)
    signed: I8 = codes.view(np.int8)
    signed -= 32
    scales = scale_of(rec) * field(rec, "scales", np.int8)
    return signed.reshape(-1, 16, 16), scales, None


read_q2_k = reader(parts_q2_k)
read_q3_k = reader(parts_q3_k)
read_q4_k = reader(parts_q4_k)
read_q5_k = reader(parts_q5_k)
read_q6_k = reader(parts_q6_k)


def read_q8_k(rec: Records, out: F32) -> None:
    out[...] = field(rec, "qs", np.int8)
    out *= rec["d"][:, None]
