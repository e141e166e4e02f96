"""Byte layout of one block of every block format, as NumPy structured dtypes.

Facts of the GGUF file format. Byte strings are `V<n>` fields, which NumPy copies several times
faster than `n` separate bytes; `field` turns one into numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type

U8 = npt.NDArray[np.uint8]
I8 = npt.NDArray[np.int8]
F32 = npt.NDArray[np.float32]
Records = npt.NDArray[np.void]
# Integer (or level) codes [B, groups, n], scales [B, groups], and minima [B, groups] or None: a
# value is scale * code + minimum.
Parts = tuple[npt.NDArray[Any], F32, F32 | None]

LAYOUTS: dict[Type, np.dtype[np.void]] = {
    t: np.dtype(fields)
    for t, fields in {
        Type.Q1_0: [("d", "<f2"), ("qs", "V16")],
        Type.Q2_0: [("d", "<f2"), ("qs", "V16")],
        Type.Q4_0: [("d", "<f2"), ("qs", "V16")],
        Type.Q4_1: [("d", "<f2"), ("m", "<f2"), ("qs", "V16")],
        Type.Q5_0: [("d", "<f2"), ("qh", "V4"), ("qs", "V16")],
        Type.Q5_1: [("d", "<f2"), ("m", "<f2"), ("qh", "V4"), ("qs", "V16")],
        Type.Q8_0: [("d", "<f2"), ("qs", "V32")],
        Type.Q8_1: [("d", "<f2"), ("s", "<f2"), ("qs", "V32")],
        Type.Q2_K: [("scales", "V16"), ("qs", "V64"), ("d", "<f2"), ("dmin", "<f2")],
        Type.Q3_K: [("hmask", "V32"), ("qs", "V64"), ("scales", "V12"), ("d", "<f2")],
        Type.Q4_K: [("d", "<f2"), ("dmin", "<f2"), ("scales", "V12"), ("qs", "V128")],
        Type.Q5_K: [
            ("d", "<f2"),
            ("dmin", "<f2"),
            ("scales", "V12"),
            ("qh", "V32"),
            ("qs", "V128"),
        ],
        Type.Q6_K: [("ql", "V128"), ("qh", "V64"), ("scales", "V16"), ("d", "<f2")],
        Type.Q8_K: [("d", "<f4"), ("qs", "V256"), ("bsums", "V32")],
        Type.IQ2_XXS: [("d", "<f2"), ("qs", "V64")],
        Type.IQ2_XS: [("d", "<f2"), ("qs", "V64"), ("scales", "V8")],
        Type.IQ2_S: [("d", "<f2"), ("qs", "V32"), ("signs", "V32"), ("qh", "V8"), ("scales", "V8")],
        Type.IQ3_XXS: [("d", "<f2"), ("qs", "V64"), ("signs", "V32")],
        Type.IQ3_S: [("d", "<f2"), ("qs", "V64"), ("qh", "V8"), ("signs", "V32"), ("scales", "V4")],
        Type.IQ1_S: [("d", "<f2"), ("qs", "V32"), ("qh", "V16")],
        Type.IQ1_M: [("qs", "V32"), ("qh", "V16"), ("scales", "V8")],
        Type.IQ4_NL: [("d", "<f2"), ("qs", "V16")],
        Type.IQ4_XS: [("d", "<f2"), ("scales_h", "<u2"), ("scales_l", "V4"), ("qs", "V128")],
        Type.TQ1_0: [("qs", "V48"), ("qh", "V4"), ("d", "<f2")],
        Type.TQ2_0: [("qs", "V64"), ("d", "<f2")],
        Type.MXFP4: [("e", "u1"), ("qs", "V16")],
        Type.NVFP4: [("d", "V4"), ("qs", "V32")],
    }.items()
}


def field(rec: Records, name: str, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
    """Byte-string field `name` of `rec` [B] as a fresh contiguous array [B, n] of `dtype`."""
    copied: npt.NDArray[Any] = np.ascontiguousarray(rec[name])
    return copied.view(dtype).reshape(len(rec), -1)


def set_field(rec: Records, name: str, values: npt.NDArray[Any]) -> None:
    """Store `values` [B, n] (any dtype whose rows fill the field) into byte-string field `name`."""
    rec[name] = np.ascontiguousarray(values).view(rec.dtype[name]).reshape(len(rec))


def bytes_at(words: npt.NDArray[np.uint64], shifts: tuple[int, ...], mask: int) -> U8:
    """Bit fields out of packed bytes: [..., n] uint64 words -> [..., len(shifts), 8 n] bytes.

    Byte `j` of group `k` is `(byte j >> shifts[k]) & mask`. Eight bytes move at a time: a bit
    that a shift carries over from the next byte is above `mask`, as long as
    `mask << shifts[k]` fits in a byte.
    """
    n = words.shape[-1]
    # groups are stored as one value of all their bytes: loops over two or four words are slow
    group = np.dtype(f"V{8 * n}")
    spread = np.empty((*words.shape[:-1], len(shifts)), group)
    for k, shift in enumerate(shifts):
        bits = words >> np.uint64(shift)
        bits &= np.uint64(mask * 0x0101010101010101)
        spread[..., k] = bits.view(group)[..., 0]
    return spread.view(np.uint8).reshape(*words.shape[:-1], len(shifts), 8 * n)


def reader(take_apart: Callable[[Records], Parts]) -> Callable[[Records, F32], None]:
    """A routine that fills f32 [B, block] out of blocks taken apart."""

    def read(rec: Records, out: F32) -> None:
        codes, scales, minima = take_apart(rec)
        values = out.reshape(codes.shape)
        values[...] = codes
        values *= scales[:, :, None]
        if minima is not None:
            values += minima[:, :, None]

    return read
