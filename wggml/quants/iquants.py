"""Reading the codebook formats: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S.

Groups of 8 (or 4) weights are indices into a codebook, with signs and small scales beside them.
Readers take block records [B] and fill f32 [B, 256].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.quants.grids import even_signs, grid_words, sign_words
from wggml.quants.layouts import F32, Records, field
from wggml.quants.legacy import scale_of

_Ints = npt.NDArray[Any]

# What IQ1 adds to or takes from every codebook value of a group.
IQ1_DELTA = 0.125


def _low_high(packed: _Ints) -> _Ints:
    """Bytes [B, n] -> their halves [B, 2 n], low first."""
    halves = np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=2)
    return halves.reshape(len(packed), -1)


def _fill(out: F32, index: _Ints, signs: _Ints, scales: F32, kind: Type) -> None:
    """Codebook entries [B, 32 or 64] times signs (bytes [B, 32]) times scales [B, 8 or 16]."""
    codes = grid_words(kind).take(index).view(np.int8).reshape(len(out), 256)
    codes *= sign_words().take(signs).view(np.int8).reshape(codes.shape)
    groups = out.reshape(len(out), scales.shape[1], -1)
    groups[...] = codes.reshape(groups.shape)
    groups *= scales[:, :, None]


def _seven_bit_signs(words: _Ints) -> _Ints:
    """uint32 [B, 8], four sign indices of 7 bits each -> sign bytes [B, 32]."""
    index = words[:, :, None] >> np.array([0, 7, 14, 21], np.uint32) & np.uint32(127)
    return even_signs().take(index).reshape(len(words), 32)


def read_iq2_xxs(rec: Records, out: F32) -> None:
    words = field(rec, "qs", np.uint32).reshape(-1, 8, 2)
    index = np.ascontiguousarray(words[:, :, 0]).view(np.uint8)
    scales = scale_of(rec) * (np.float32(0.5) + (words[:, :, 1] >> 28)) * np.float32(0.25)
    _fill(out, index, _seven_bit_signs(words[:, :, 1]), scales.astype(np.float32), Type.IQ2_XXS)


def _scales_iq2(rec: Records) -> F32:
    steps = _low_high(field(rec, "scales")).astype(np.float32)
    return scale_of(rec) * (np.float32(0.5) + steps) * np.float32(0.25)


def read_iq2_xs(rec: Records, out: F32) -> None:
    words = field(rec, "qs", np.uint16)
    signs = even_signs().take(words >> np.uint16(9))
    _fill(out, words & np.uint16(511), signs, _scales_iq2(rec), Type.IQ2_XS)


def read_iq2_s(rec: Records, out: F32) -> None:
    high = field(rec, "qh")[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)
    index = field(rec, "qs") | high.reshape(-1, 32).astype(np.uint16) << np.uint16(8)
    _fill(out, index, field(rec, "signs"), _scales_iq2(rec), Type.IQ2_S)


def read_iq3_xxs(rec: Records, out: F32) -> None:
    words = field(rec, "signs", np.uint32)
    steps = (words >> np.uint32(28)).astype(np.float32)
    scales = scale_of(rec) * (np.float32(0.5) + steps) * np.float32(0.5)
    _fill(out, field(rec, "qs"), _seven_bit_signs(words), scales, Type.IQ3_XXS)


def read_iq3_s(rec: Records, out: F32) -> None:
    high = np.unpackbits(field(rec, "qh"), axis=1, bitorder="little").astype(np.uint16)
    index = field(rec, "qs") | high << np.uint16(8)
    steps = 1 + 2 * _low_high(field(rec, "scales")).astype(np.float32)
    _fill(out, index, field(rec, "signs"), scale_of(rec) * steps, Type.IQ3_S)


def _fill_iq1(out: F32, index: _Ints, minus: _Ints, scales: F32, kind: Type) -> None:
    """Codebook entries [B, 32] plus or (where `minus` [B, 32]) minus delta, times the scales.

    In eighths, so that sums stay exact small integers.
    """
    codes = grid_words(kind).take(index).view(np.int8).reshape(len(out), 32, 8)
    codes *= 8
    codes += (1 - 2 * minus.astype(np.int8))[:, :, None]
    groups = out.reshape(len(out), scales.shape[1], -1)
    groups[...] = codes.reshape(groups.shape)
    groups *= (scales * np.float32(IQ1_DELTA))[:, :, None]


def read_iq1_s(rec: Records, out: F32) -> None:
    words = field(rec, "qh", np.uint16)
    high = words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & np.uint16(7)
    index = field(rec, "qs") | high.reshape(-1, 32) << np.uint16(8)
    steps = (2 * (words >> np.uint16(12) & np.uint16(7)) + 1).astype(np.float32)
    minus = np.repeat(words >> np.uint16(15), 4, axis=1)
    _fill_iq1(out, index, minus, scale_of(rec) * steps, Type.IQ1_S)


def read_iq1_m(rec: Records, out: F32) -> None:
    words = field(rec, "scales", np.uint16)
    # the f16 scale is spread over the top four bits of the four words
    top = words >> np.uint16(12)
    bits = top[:, 0] | top[:, 1] << 4 | top[:, 2] << 8 | top[:, 3] << 12
    d: F32 = bits.astype(np.uint16).view(np.float16).astype(np.float32)[:, None]
    steps = words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & np.uint16(7)
    scales = d * (2 * steps.reshape(-1, 16) + 1).astype(np.float32)
    high = _low_high(field(rec, "qh"))
    index = field(rec, "qs") | (high & np.uint8(7)).astype(np.uint16) << np.uint16(8)
    _fill_iq1(out, index, high >> np.uint8(3), scales, Type.IQ1_M)
