"""Writing the k-quants Q2_K .. Q6_K and Q8_K, byte for byte as ggml's reference routines.

Each super-block of 256 is cut into groups of 16 or 32. A search finds each group's scale (and
minimum); these are rounded to small integers on a scale of the super-block's own, and then the
weights to codes on the rounded scales. Where a group's rounded scale is 0 the codes of the search
are stored, as the reference does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.quants.kquants_search import (
    TINY,
    AffineSearch,
    columns,
    fit_affine,
    fit_by_descent,
    fit_symmetric,
    ratio,
)
from wggml.quants.layouts import F32, U8, Records, set_field
from wggml.quants.legacy import pack_nibbles
from wggml.quants.rounding import nearest, signed_max, to_f16

_Q2 = AffineSearch(top=3, first=-0.5, step=0.1, count=15, absolute=True)
_Q4 = AffineSearch(top=15, first=-1.0, step=0.1, count=20, absolute=False)
_Q5 = AffineSearch(top=31, first=-0.5, step=0.1, count=15, absolute=False)


def by_rows(codes: F32, blocks: int) -> F32:
    """Groups as columns -> [B, groups, size]."""
    return np.ascontiguousarray(codes.T).reshape(blocks, -1, len(codes))


def stored(rec: Records, name: str, values: F32) -> F32:
    """Store f16 field `name` and return what a reader will see, [B, 1]."""
    rec[name] = to_f16(values[:, 0])
    seen: F32 = rec[name].astype(np.float32)[:, None]
    return seen


def _bytes(values: F32) -> U8:
    """To the nearest integer, wrapped into a byte as C's cast does."""
    return nearest(values).astype(np.int32).astype(np.uint8)


def requantise(x: F32, codes: F32, d: F32, dm: F32 | None, lowest: int, top: int) -> U8:
    """Codes [B, 256] of x on the scales d [B, groups] and minima dm, counted from `lowest`;
    `codes` [B, groups, n] stay where a scale is 0."""
    grouped = x.reshape(codes.shape)
    shifted = grouped if dm is None else grouped + dm[:, :, None]
    scale = d[:, :, None]
    fresh = np.clip(nearest(ratio(shifted, scale, scale != 0)), lowest, top) - np.float32(lowest)
    return np.where(scale != 0, fresh, codes).astype(np.uint8).reshape(len(x), -1)


def pack_q2(rec: Records, codes: U8) -> None:
    """Codes below 4 [B, 256] into `qs`."""
    four = codes.reshape(-1, 2, 4, 32)
    packed = four[:, :, 0] | four[:, :, 1] << 2 | four[:, :, 2] << 4 | four[:, :, 3] << 6
    set_field(rec, "qs", packed.reshape(len(rec), -1))


def pack_q3(rec: Records, codes: U8) -> None:
    """Codes 0 .. 7 [B, 256]: two bits each in `qs`, the third in `hmask`."""
    set_field(rec, "hmask", _high_bits(codes, 2))
    pack_q2(rec, codes & np.uint8(3))


def pack_k4(rec: Records, codes: U8) -> None:
    """Codes of Q4_K, or of Q5_K with the fifth bit in `qh`, [B, 256]."""
    set_field(rec, "qs", _pack_pairs_of_32(codes & np.uint8(15)))
    if "qh" in (rec.dtype.names or ()):
        set_field(rec, "qh", _high_bits(codes, 4))


def _high_bits(codes: U8, bit: int) -> U8:
    """Bit `bit` of codes [B, 256] -> [B, 32]: bit k of byte j is that of code 32 k + j."""
    groups = (codes.reshape(-1, 8, 32) >> bit) & np.uint8(1)
    return np.packbits(groups, axis=1, bitorder="little").reshape(len(codes), 32)


def write_q2_k(x: F32, rec: Records) -> None:
    groups = columns(x, 16)
    fit = fit_affine(groups, np.abs(groups), _Q2)
    scales, minima = (part.reshape(-1, 16) for part in fit[:2])
    packed = np.zeros(scales.shape, np.uint8)
    for name, values, shift in (("d", scales, 0), ("dmin", minima, 4)):
        most = np.maximum(values.max(axis=1, keepdims=True), 0)
        inverse = ratio(np.full_like(most, 15), most, most > 0)
        packed |= _bytes(inverse * values) << np.uint8(shift)
        rec[name] = to_f16(most[:, 0] / np.float32(15))
    d = rec["d"].astype(np.float32)[:, None] * (packed & 15)
    dm = rec["dmin"].astype(np.float32)[:, None] * (packed >> 4)
    set_field(rec, "scales", packed)
    pack_q2(rec, requantise(x, by_rows(fit[2], len(x)), d, dm, 0, 3))


def write_q3_k(x: F32, rec: Records) -> None:
    fitted, codes = fit_by_descent(columns(x, 16), 4)
    scales = fitted.reshape(-1, 16)
    most = signed_max(scales)
    inverse = ratio(np.full_like(most, -32), most, most != 0)
    d = stored(rec, "d", ratio(np.ones_like(most), inverse, most != 0))
    steps = np.clip(nearest(inverse * scales), -32, 31) + np.float32(32)
    steps *= most != 0
    set_field(rec, "scales", pack_scales_q3(steps.astype(np.uint8)))
    scale = d * (steps - np.float32(32))
    pack_q3(rec, requantise(x, by_rows(codes, len(x)), scale, None, -4, 3))


def pack_scales_q3(steps: U8) -> U8:
    """Sixteen 6-bit scales [B, 16] -> 12 bytes (see `kquants.scales_q3`)."""
    low, high = steps & 15, steps >> 4
    packed = np.empty((len(steps), 12), np.uint8)
    packed[:, :8] = low[:, :8] | low[:, 8:] << 4
    packed[:, 8:] = high[:, 0:4] | high[:, 4:8] << 2 | high[:, 8:12] << 4 | high[:, 12:] << 6
    return packed


def _write_k4(x: F32, rec: Records, search: AffineSearch) -> U8:
    """Scales and minima of Q4_K and Q5_K into `rec`; returns the codes [B, 256]."""
    groups = columns(x, 32)
    mean = np.sqrt((groups * groups).sum(axis=0) / np.float32(32))
    fit = fit_affine(groups, mean + np.abs(groups), search)
    steps = []
    for name, part in (("d", fit[0]), ("dmin", fit[1])):
        values = part.reshape(-1, 8)
        most = np.maximum(values.max(axis=1, keepdims=True), 0)
        inverse = ratio(np.full_like(most, 63), most, most > 0)
        steps.append(np.minimum(_bytes(inverse * values), np.uint8(63)))
        rec[name] = to_f16(most[:, 0] / np.float32(63))
    set_field(rec, "scales", pack_scales_k4(*steps))
    d = rec["d"].astype(np.float32)[:, None] * steps[0]
    dm = rec["dmin"].astype(np.float32)[:, None] * steps[1]
    return requantise(x, by_rows(fit[2], len(x)), d, dm, 0, search.top)


def pack_scales_k4(sc: U8, mn: U8) -> U8:
    """Eight 6-bit scales and minima [B, 8] -> 12 bytes (see `kquants.scales_k4`)."""
    packed = np.empty((len(sc), 12), np.uint8)
    packed[:, 0:4] = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    packed[:, 4:8] = mn[:, :4] | (mn[:, 4:] >> 4) << 6
    packed[:, 8:12] = (sc[:, 4:] & 15) | mn[:, 4:] << 4
    return packed


def _pack_pairs_of_32(codes: U8) -> U8:
    """Codes below 16 [B, 256] -> [B, 128]: of each 64 the first 32 low, the others high."""
    return pack_nibbles(codes.reshape(-1, 64)).reshape(len(codes), -1)


def write_q4_k(x: F32, rec: Records) -> None:
    pack_k4(rec, _write_k4(x, rec, _Q4))


def write_q5_k(x: F32, rec: Records) -> None:
    pack_k4(rec, _write_k4(x, rec, _Q5))


def write_q6_k(x: F32, rec: Records) -> None:
    store_q6(x, rec, *fit_symmetric(columns(x, 16), 32))


def store_q6(x: F32, rec: Records, fitted: F32, codes: F32) -> None:
    """Q6_K from the scales and codes of its groups, as `fit_symmetric` gives them."""
    scales = fitted.reshape(-1, 16)
    most = signed_max(scales)
    used = np.abs(most) >= TINY
    inverse = ratio(np.full_like(most, -128), most, used)
    d = stored(rec, "d", ratio(np.ones_like(most), inverse, used))
    steps = np.minimum(nearest(inverse * scales), np.float32(127))
    set_field(rec, "scales", steps.astype(np.int8))
    fresh = requantise(x, by_rows(codes, len(x)), d * steps, None, -32, 31)
    fresh *= used  # a block without any scale is all zero bytes
    set_field(rec, "ql", pack_nibbles((fresh & np.uint8(15)).reshape(-1, 128)).reshape(len(x), -1))
    high = (fresh >> 4).reshape(-1, 2, 4, 32)
    packed = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    set_field(rec, "qh", packed.reshape(len(x), -1))


def write_q8_k(x: F32, rec: Records) -> None:
    peak = signed_max(x)
    used = peak != 0
    inverse = ratio(np.full_like(peak, -127), peak, used)
    codes = np.minimum(nearest(inverse * x), np.float32(127)).astype(np.int8)
    rec["d"] = ratio(np.ones_like(peak), inverse, used)[:, 0]
    set_field(rec, "qs", codes)
    sums: npt.NDArray[Any] = codes.reshape(len(x), 16, 16).sum(axis=2, dtype=np.int16)
    set_field(rec, "bsums", sums.astype("<i2"))
