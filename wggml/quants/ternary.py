"""Ternary formats: TQ1_0 (five values a byte, base 3) and TQ2_0 (two bits a value)."""

from __future__ import annotations

import numpy as np

from wggml.quants.layouts import F32, I8, U8, Records, bytes_at, field, set_field
from wggml.quants.legacy import scale_of
from wggml.quants.rounding import reciprocal, roundf, to_f16

# TQ1_0's 256 values in file order: (bytes, values a byte) of three runs. Within a run the first
# value of every byte comes first, then every second one, and so on.
_RUNS = ((32, 5), (16, 5), (4, 4))


def read_tq1_0(rec: Records, out: F32) -> None:
    packed = np.concatenate([field(rec, "qs"), field(rec, "qh")], axis=1)
    at, byte = 0, 0
    for width, count in _RUNS:
        part = packed[:, byte : byte + width].copy()
        for _ in range(count):
            # a byte is a fraction of 256: its first base-3 digit is the whole part of 3 x
            digit: I8 = (part >= 86).view(np.int8) + (part >= 171).view(np.int8)
            digit -= 1
            out[:, at : at + width] = digit
            part *= np.uint8(3)
            at += width
        byte += width
    out *= scale_of(rec)


def read_tq2_0(rec: Records, out: F32) -> None:
    words = field(rec, "qs", np.uint64).reshape(-1, 2, 4)
    codes: I8 = bytes_at(words, (0, 2, 4, 6), 0x03).view(np.int8)
    codes -= 1
    out[...] = codes.reshape(out.shape)
    out *= scale_of(rec)


def _digits(x: F32, rec: Records) -> U8:
    """Codes 0, 1, 2 of x over its largest magnitude; stores `d`."""
    d = np.abs(x).max(axis=1, keepdims=True)
    rec["d"] = to_f16(d[:, 0])
    return (roundf(x * reciprocal(d)) + 1).astype(np.uint8)


def write_tq1_0(x: F32, rec: Records) -> None:
    codes = _digits(x, rec)
    packed = []
    at = 0
    for width, count in _RUNS:
        total = np.zeros((len(x), width), np.uint16)
        for _ in range(count):
            total = total * 3 + codes[:, at : at + width]
            at += width
        total *= 3 ** (5 - count)
        packed.append(((total * 256 + 242) // 243).astype(np.uint8))  # the fraction, rounded up
    set_field(rec, "qs", np.concatenate(packed[:2], axis=1))
    set_field(rec, "qh", packed[2])


def write_tq2_0(x: F32, rec: Records) -> None:
    four = _digits(x, rec).reshape(-1, 2, 4, 32)
    packed = four[:, :, 0] | four[:, :, 1] << 2 | four[:, :, 2] << 4 | four[:, :, 3] << 6
    set_field(rec, "qs", packed.reshape(len(x), -1))
