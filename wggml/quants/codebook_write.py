"""Writing the codebook formats IQ2 and IQ3, byte for byte as ggml does.

Each block of 256 is cut into groups of 32 or 16. Magnitudes become codebook entries on a scale of
their group (`codebook_search`), signs are bits, and group scales 4-bit numbers (odd steps) on the
block's. `weights` [B, 256] say how much an error of each value matters (an importance matrix).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.quants.codebook_search import Fit, GridSearch, fit_entries
from wggml.quants.fourbit import pack_pairs
from wggml.quants.kquants_search import (
    TINY,
    columns,
    energy,
    fit_positive,
    importance,
    ratio,
)
from wggml.quants.layouts import F32, U8, Records, set_field
from wggml.quants.rounding import nearest, to_f16

_Ints = npt.NDArray[Any]

_IQ3_XXS = GridSearch(Type.IQ3_XXS, reach=15, step=0.2, tiny=1e-8)
_IQ3_S = GridSearch(Type.IQ3_S, reach=9, step=0.2, tiny=0, all_again=True, strict=True)
_IQ2_S = GridSearch(Type.IQ2_S, reach=9, step=0.1, tiny=1e-8)
_IQ2_XS = GridSearch(Type.IQ2_XS, reach=9, step=0.1, tiny=float(TINY))
_IQ2_XXS = GridSearch(Type.IQ2_XXS, reach=6, step=0.1, tiny=0, all_again=True)


def _sign_bits(x: F32) -> U8:
    """Groups as columns [size, G] -> bytes [size / 8, G]: bit i says that value i is negative."""
    return np.packbits((x < 0).reshape(-1, 8, x.shape[1]), axis=1, bitorder="little")[:, 0]


def _even(x: F32, weight: F32) -> tuple[F32, U8]:
    """Magnitudes and sign bytes with an even number of minus signs in every 8 values: where it was
    odd, the value that matters least changes its sign."""
    bits = _sign_bits(x)
    size = np.abs(x)
    odd = np.unpackbits(bits[:, None], axis=1).sum(axis=1) % 2 == 1
    least = (weight * x * x).reshape(-1, 8, x.shape[1]).argmin(axis=1)
    part, group = np.nonzero(odd)
    at = least[part, group]
    size.reshape(-1, 8, x.shape[1])[part, at, group] *= -1
    bits[part, group] ^= (1 << at).astype(np.uint8)
    return size, bits & np.uint8(127)


def _by_block(a: _Ints, blocks: int) -> _Ints:
    """[E, G] -> [B, groups of a block * E], group after group."""
    return np.ascontiguousarray(a.T).reshape(blocks, -1)


def _store_scales(rec: Records, fit: Fit, fudge: float) -> U8:
    """The block's scale into `rec`; returns the 4-bit steps [B, groups]."""
    scales = fit.scale.reshape(len(rec), -1)
    d = scales.max(axis=1, keepdims=True) / np.float32(31)
    rec["d"] = to_f16(d[:, 0] * np.float32(fudge))
    inverse = ratio(np.ones_like(d), d, d > 0)
    steps = nearest(np.float32(0.5) * (inverse * scales - np.float32(1)))
    return np.where(d > 0, np.clip(steps, 0, 15), 0).astype(np.uint8)


def write_iq3_xxs(x: F32, rec: Records, weights: F32 | None = None) -> None:
    groups = columns(x, 32)
    weight = groups * groups
    if weights is not None:
        weight = importance(x, 32, weights, 2 * energy(x) / np.float32(256))
    sizes, signs = _even(groups, weight)
    fit = fit_entries(sizes, weight, _IQ3_XXS)
    steps = _store_scales(rec, fit, 1.0125)
    set_field(rec, "qs", _by_block(fit.entry, len(x)).astype(np.uint8))
    set_field(rec, "signs", _seven_bit_words(fit, signs, steps))


def _seven_bit_words(fit: Fit, signs: U8, steps: U8) -> _Ints:
    """Four sign indices of 7 bits and a step of 4 -> uint32 [B, 8]."""
    turned = np.where(fit.flip, ~signs & np.uint8(127), signs) * fit.used
    words = (turned.astype(np.uint32) << np.array([[0], [7], [14], [21]], np.uint32)).sum(
        axis=0, dtype=np.uint32
    )
    packed: _Ints = words.reshape(steps.shape) | steps.astype(np.uint32) << np.uint32(28)
    return packed


def _all_signs(fit: Fit, signs: U8, blocks: int) -> U8:
    turned = np.where(fit.flip, ~signs, signs) * fit.used
    return _by_block(turned, blocks).astype(np.uint8)


def write_iq3_s(x: F32, rec: Records, weights: F32 | None = None) -> None:
    """A group of zeros has no place of its own in ggml's reference: codes and signs of the groups
    after it move up, while scales and high bits stay. The bytes here are the same, so that files
    agree; a weight matrix with whole groups of zeros should not be stored in this format."""
    groups = columns(x, 32)
    weight = groups * groups
    if weights is not None:
        weight = importance(x, 32, weights, 2 * energy(x) / np.float32(256))
    fit = fit_entries(np.abs(groups), weight, _IQ3_S)
    steps = _store_scales(rec, fit, 1.033)
    set_field(rec, "scales", pack_pairs(steps))
    entry = _by_block(fit.entry, len(x))
    set_field(rec, "qh", np.packbits(entry >> 8, axis=1, bitorder="little"))
    # groups in use first; the sort is stable
    order = np.argsort(~fit.used.reshape(len(x), 8), axis=1, kind="stable")[:, :, None]
    signs = _all_signs(fit, _sign_bits(groups), len(x))
    for name, parts in (("qs", (entry & 255).astype(np.uint8)), ("signs", signs)):
        by_group = parts.reshape(len(x), 8, -1)
        set_field(rec, name, np.take_along_axis(by_group, order, axis=1).reshape(len(x), -1))


def write_iq2_s(x: F32, rec: Records, weights: F32 | None = None) -> None:
    groups = columns(x, 16)
    sigma2 = 2 * energy(x) / np.float32(256)
    if weights is None:
        weight = columns(np.float32(0.25) * sigma2[:, None] + x * x, 16)
    else:
        weight = importance(x, 16, weights, sigma2)
    fit = fit_entries(np.abs(groups), weight, _IQ2_S)
    set_field(rec, "scales", pack_pairs(_store_scales(rec, fit, 0.9875)))
    entry = _by_block(fit.entry, len(x))
    set_field(rec, "qs", (entry & 255).astype(np.uint8))
    high = (entry >> 8).astype(np.uint8).reshape(len(x), 8, 4) << np.array([0, 2, 4, 6], np.uint8)
    set_field(rec, "qh", np.bitwise_or.reduce(high, axis=2))
    set_field(rec, "signs", _all_signs(fit, _sign_bits(groups), len(x)))


def write_iq2_xs(x: F32, rec: Records, weights: F32) -> None:
    groups = columns(x, 16)
    weight = importance(x, 16, weights, energy(x) / np.float32(256))
    sizes, signs = _even(groups, weight)
    fit = fit_entries(sizes, weight, _IQ2_XS)
    set_field(rec, "scales", pack_pairs(_store_scales(rec, fit, 1.0)))
    turned = np.where(fit.flip, ~signs & np.uint8(127), signs) * fit.used
    words = fit.entry.astype(np.uint16) | turned.astype(np.uint16) << np.uint16(9)
    set_field(rec, "qs", _by_block(words, len(x)))


def write_iq2_xxs(x: F32, rec: Records, weights: F32) -> None:
    groups = columns(x, 32)
    weight = importance(x, 32, weights, energy(x) / np.float32(256))
    sizes, signs = _even(groups, weight)
    # guesses start from the scale of a plain rounding to 0 .. 4
    largest = np.maximum(fit_positive(sizes, weight, 4)[0] * np.float32(3), np.float32(0))
    fit = fit_entries(sizes, weight, _IQ2_XXS, largest)
    words = np.empty((len(x), 8, 2), np.uint32)
    words[:, :, 1] = _seven_bit_words(fit, signs, _store_scales(rec, fit, 1.0))
    words[:, :, 0] = _by_block(fit.entry, len(x)).astype(np.uint8).view("<u4")
    set_field(rec, "qs", words.reshape(len(x), -1))
