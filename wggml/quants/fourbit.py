"""Formats whose 4-bit codes index a table of 16 values: IQ4_NL, IQ4_XS, MXFP4, NVFP4.

Readers take block records [B] and fill f32 [B, block]; writers store what ggml's reference
routines do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.quants.kquants_search import columns, peaks, ratio
from wggml.quants.layouts import F32, I8, U8, Parts, Records, field, reader, set_field
from wggml.quants.legacy import nibbles, pack_nibbles, scale_of
from wggml.quants.rounding import nearest, reciprocal, signed_max, to_f16

# Facts of the formats: IQ4's levels; the sixteen e2m1 floats of MXFP4 and NVFP4, doubled.
IQ4_LEVELS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FP4_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@cache
def _levels(values: tuple[int, ...]) -> I8:
    return np.array(values, np.int8)


@cache
def e8m0_halves() -> F32:
    """[256]: half of the power of two that an e8m0 byte stands for (the values are doubled)."""
    e = np.arange(256, dtype=np.uint32)
    bits = np.where(e < 2, np.uint32(0x00200000) << (e & 1), (np.maximum(e, 1) - 1) << 23)
    return bits.astype(np.uint32).view(np.float32)


@cache
def ue4m3_halves() -> F32:
    """[256]: half of the number that an unsigned e4m3 byte stands for; 0x7f (NaN) reads as 0."""
    byte = np.arange(256)
    exp, man = byte >> 3 & 15, (byte & 7).astype(np.float32)
    value = np.where(exp == 0, np.ldexp(man, -9), np.ldexp(1 + man / 8, exp - 7))
    value[0x7F] = 0
    halves: F32 = (value * 0.5).astype(np.float32)
    return halves


def to_ue4m3(x: F32) -> U8:
    """Non-negative f32 -> unsigned e4m3, to nearest, halves up. As ggml has it, everything that
    rounds to 256 or more becomes the largest value, 448."""
    bits = np.minimum(x, np.float32(448)).view(np.uint32)
    # rounding by half of the last kept bit lets a carry run into the exponent by itself
    normal = ((bits + np.uint32(1 << 19)) >> np.uint32(20)).astype(np.int32) - (120 << 3)
    small = np.clip((x * np.float32(512) + np.float32(0.5)).astype(np.int32), 0, 7)
    # the exponent that decides is the one before rounding
    is_small = (bits >> np.uint32(23)).astype(np.int32) <= 120
    code = np.where(is_small, small, np.where(normal >= 0x78, 0x7E, normal))
    return np.where(x > 0, code, 0).astype(np.uint8)


def parts_iq4_nl(rec: Records) -> Parts:
    codes = _levels(IQ4_LEVELS).take(nibbles(rec)).reshape(len(rec), 1, -1)
    return codes, scale_of(rec), None


def parts_iq4_xs(rec: Records) -> Parts:
    low = field(rec, "scales_l")[:, :, None] >> np.array([0, 4], np.uint8) & np.uint8(15)
    high = rec["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    steps: F32 = (low.reshape(-1, 8) | high << np.uint16(4)).astype(np.float32) - np.float32(32)
    codes = _levels(IQ4_LEVELS).take(nibbles(rec, groups=8)).reshape(-1, 8, 32)
    return codes, scale_of(rec) * steps, None


read_iq4_nl = reader(parts_iq4_nl)
read_iq4_xs = reader(parts_iq4_xs)


def read_mxfp4(rec: Records, out: F32) -> None:
    out[...] = _levels(FP4_DOUBLED).take(nibbles(rec)).reshape(out.shape)
    out *= e8m0_halves().take(rec["e"])[:, None]


def read_nvfp4(rec: Records, out: F32) -> None:
    by16 = out.reshape(-1, 4, 16)
    by16[...] = _levels(FP4_DOUBLED).take(nibbles(rec, groups=4)).reshape(by16.shape)
    by16 *= ue4m3_halves().take(field(rec, "d"))[:, :, None]


def _closest_fp4(x: F32, d: F32) -> U8:
    """Code of the value `FP4_DOUBLED[code] * d` nearest to each x [B, n]; ties go to the first."""
    best = np.zeros(x.shape, np.uint8)
    least = np.abs(x)
    for code, value in enumerate(FP4_DOUBLED):
        error = np.abs(np.float32(value) * d - x)
        better = error < least
        np.copyto(best, np.uint8(code), where=better)
        np.minimum(least, error, out=least)
    return best


def write_mxfp4(x: F32, rec: Records) -> None:
    peak = np.abs(x).max(axis=1)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(peak)) - 2 + 127
    e = np.where(peak > 0, np.clip(exponent, 0, 254), 0).astype(np.uint8)
    rec["e"] = e
    set_field(rec, "qs", pack_nibbles(_closest_fp4(x, e8m0_halves().take(e)[:, None])))


def write_nvfp4(x: F32, rec: Records) -> None:
    groups = x.reshape(-1, 16)
    d = to_ue4m3(np.abs(groups).max(axis=1) / np.float32(6))
    codes = _closest_fp4(groups, ue4m3_halves().take(d)[:, None])
    set_field(rec, "d", d.reshape(-1, 4))
    set_field(rec, "qs", pack_nibbles(codes).reshape(len(x), -1))


@cache
def _level_above() -> npt.NDArray[np.intp]:
    """[256]: for a whole number v - 127 the index of the first IQ4 level above it, from 1 to 15."""
    upper = np.searchsorted(_levels(IQ4_LEVELS), np.arange(-127, 129), side="right")
    return np.clip(upper, 1, 15)


def _closest_level(x: F32) -> npt.NDArray[np.intp]:
    """Index of the IQ4 level nearest to each x; of two equally near the upper."""
    levels = _levels(IQ4_LEVELS).astype(np.float32)
    cell = np.clip(np.floor(x), -127, 128).astype(np.intp) + 127
    upper = _level_above().take(cell)
    return upper - (x - levels.take(upper - 1) < levels.take(upper) - x)


def search_iq4(x: F32, tries: int, weight: F32 | None = None) -> F32:
    """The scale [G] that fits each group best, weights x * x unless given: from the first guess,
    then `tries` steps to either side of it (none when 0). Groups are columns, x [32, G], so that
    sums add one row after the other, as the reference does."""
    if x.shape[1] == 1:  # NumPy would add up a lone column in another order
        return search_iq4(
            np.repeat(x, 2, 1), tries, None if weight is None else np.repeat(weight, 2, 1)
        )[:1]
    peak, zero = peaks(x)
    weight = x * x if weight is None else weight
    levels = _levels(IQ4_LEVELS).astype(np.float32)

    def sums(inverse: F32) -> tuple[F32, F32]:
        q = levels.take(_closest_level(inverse * x))
        return (weight * q * x).sum(axis=0), (weight * q * q).sum(axis=0)

    bottom = levels[0]
    sum_qx, sum_qq = sums(np.float32(1) / (-peak / bottom if tries else peak / bottom))
    d = ratio(sum_qx, sum_qq, sum_qq > 0)
    best: F32 = d * sum_qx
    for step in range(-tries, tries + 1) if tries else ():
        sum_qx, sum_qq = sums((np.float32(step) + bottom) / peak)
        better = (sum_qq > 0) & (sum_qx * sum_qx > best * sum_qq)
        d = np.where(better, ratio(sum_qx, sum_qq, better), d)
        best = np.where(better, d * sum_qx, best)
    d[zero] = 0
    return d


def write_iq4_nl(x: F32, rec: Records) -> None:
    rec["d"] = to_f16(search_iq4(columns(x, 32), 0))
    # the reference keeps the codes of its first guess
    first = signed_max(x) / np.float32(IQ4_LEVELS[0])
    set_field(rec, "qs", pack_nibbles(iq4_codes(reciprocal(first) * x)))


def write_iq4_xs(x: F32, rec: Records) -> None:
    store_iq4_xs(x, rec, search_iq4(columns(x, 32), 7).reshape(len(x), 8))


def store_iq4_xs(x: F32, rec: Records, scales: F32) -> None:
    """IQ4_XS from the scales [B, 8] of its groups."""
    blocks = len(x)
    d = -signed_max(scales) / np.float32(32)
    rec["d"] = to_f16(d[:, 0])
    steps = np.clip(nearest(reciprocal(d) * scales), -32, 31)
    inverse = reciprocal((d * steps).astype(np.float32)).reshape(-1, 1)
    codes = iq4_codes(inverse * x.reshape(-1, 32))
    set_field(rec, "qs", pack_nibbles(codes).reshape(blocks, -1))
    raised = (steps + 32).astype(np.uint16)
    set_field(rec, "scales_l", pack_pairs(raised & np.uint16(15)))
    rec["scales_h"] = (raised >> np.uint16(4) << np.arange(0, 16, 2, dtype=np.uint16)).sum(axis=1)


def iq4_codes(x: F32) -> U8:
    """The nearest level of each x, as bytes."""
    return _closest_level(x).astype(np.uint8)


def pack_pairs(codes: npt.NDArray[Any]) -> U8:
    """Codes below 16 [B, 2 n] -> bytes [B, n]: neighbours share a byte, the first low."""
    packed: U8 = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    return packed
