"""Writing with importance weights, byte for byte as ggml: Q4_0 .. Q5_1, the k-quants, IQ4.

An error of a value counts its weight times sqrt(sigma2 + x^2), sigma2 being the mean square of the
values around it: of the super-block, or for the formats with one scale of the whole row, in which
case `weights` [B, block] arrive with that factor already.
"""

from __future__ import annotations

import numpy as np

from wggml.quants.fourbit import iq4_codes, search_iq4, store_iq4_xs
from wggml.quants.kquants_search import (
    AffineSearch,
    columns,
    energy,
    fit_affine,
    fit_positive,
    fit_symmetric,
    importance,
)
from wggml.quants.kquants_write import (
    by_rows,
    pack_k4,
    pack_q2,
    pack_q3,
    pack_scales_k4,
    pack_scales_q3,
    requantise,
    store_q6,
    stored,
)
from wggml.quants.layouts import F32, U8, Records, set_field
from wggml.quants.legacy import pack_five, pack_nibbles
from wggml.quants.rounding import reciprocal, to_f16


def _search(top: int) -> AffineSearch:
    return AffineSearch(top=top, first=-0.9, step=0.05, count=36, absolute=False)


def _scales(values: F32, weight: F32, top: int) -> tuple[F32, U8]:
    """Scale [B, 1] and codes [B, groups] of a block's scales or minima [B, groups]."""
    scale, codes = fit_positive(np.ascontiguousarray(values.T), np.ascontiguousarray(weight.T), top)
    return scale[:, None], codes.T.astype(np.uint8)


def write_q2_k(x: F32, rec: Records, weights: F32) -> None:
    weight = importance(x, 16, weights, energy(x) / np.float32(256))
    fit = fit_affine(columns(x, 16), weight, _search(3))
    total = weight.sum(axis=0).reshape(-1, 16)
    d, steps = _scales(fit[0].reshape(-1, 16), total, 15)
    dmin, low = _scales(fit[1].reshape(-1, 16), total, 15)
    packed = steps | low << np.uint8(4)
    set_field(rec, "scales", packed)
    scale = stored(rec, "d", d) * (packed & 15)
    minimum = stored(rec, "dmin", dmin) * (packed >> 4)
    pack_q2(rec, requantise(x, by_rows(fit[2], len(x)), scale, minimum, 0, 3))


def write_q3_k(x: F32, rec: Records, weights: F32) -> None:
    weight = importance(x, 16, weights, 2 * energy(x) / np.float32(256))
    fitted, codes = fit_symmetric(columns(x, 16), 4, weight)
    total = weight.sum(axis=0).reshape(-1, 16)
    d, steps = fit_symmetric(
        np.ascontiguousarray(fitted.reshape(-1, 16).T), 32, np.ascontiguousarray(total.T)
    )
    set_field(rec, "scales", pack_scales_q3(steps.T.astype(np.uint8)))
    scale = stored(rec, "d", d[:, None]) * (steps.T - np.float32(32))
    pack_q3(rec, requantise(x, by_rows(codes, len(x)), scale, None, -4, 3))


def _k4(x: F32, rec: Records, weights: F32, top: int) -> U8:
    weight = importance(x, 32, weights, 2 * energy(x) / np.float32(256))
    fit = fit_affine(columns(x, 32), weight, _search(top))
    total = weight.sum(axis=0).reshape(-1, 8)
    d, steps = _scales(fit[0].reshape(-1, 8), total, 63)
    dmin, low = _scales(fit[1].reshape(-1, 8), total, 63)
    set_field(rec, "scales", pack_scales_k4(steps, low))
    scale, minimum = stored(rec, "d", d) * steps, stored(rec, "dmin", dmin) * low
    return requantise(x, by_rows(fit[2], len(x)), scale, minimum, 0, top)


def write_q4_k(x: F32, rec: Records, weights: F32) -> None:
    pack_k4(rec, _k4(x, rec, weights, 15))


def write_q5_k(x: F32, rec: Records, weights: F32) -> None:
    pack_k4(rec, _k4(x, rec, weights, 31))


def write_q6_k(x: F32, rec: Records, weights: F32) -> None:
    """The one format that takes the weights as they are."""
    store_q6(x, rec, *fit_symmetric(columns(x, 16), 32, columns(weights, 16)))


def _symmetric(x: F32, rec: Records, weights: F32, half: int) -> U8:
    d, codes = fit_symmetric(columns(x, 32), half, columns(weights, 32))
    rec["d"] = to_f16(d)
    return codes.T.astype(np.uint8)


def _affine(x: F32, rec: Records, weights: F32, top: int) -> U8:
    d, low, codes = fit_affine(columns(x, 32), columns(weights, 32), _search(top))
    rec["d"], rec["m"] = to_f16(d), to_f16(-low)
    return codes.T.astype(np.uint8)


def write_q4_0(x: F32, rec: Records, weights: F32) -> None:
    set_field(rec, "qs", pack_nibbles(_symmetric(x, rec, weights, 8)))


def write_q4_1(x: F32, rec: Records, weights: F32) -> None:
    set_field(rec, "qs", pack_nibbles(_affine(x, rec, weights, 15)))


def write_q5_0(x: F32, rec: Records, weights: F32) -> None:
    pack_five(rec, _symmetric(x, rec, weights, 16))


def write_q5_1(x: F32, rec: Records, weights: F32) -> None:
    pack_five(rec, _affine(x, rec, weights, 31))


def write_iq4_nl(x: F32, rec: Records, weights: F32) -> None:
    weight = importance(x, 32, weights, energy(x) * np.float32(2 / 32))
    d = search_iq4(columns(x, 32), 7, weight)
    rec["d"] = to_f16(d)
    set_field(rec, "qs", pack_nibbles(iq4_codes(reciprocal(d)[:, None] * x)))


def write_iq4_xs(x: F32, rec: Records, weights: F32) -> None:
    weight = importance(x, 32, weights, energy(x) * np.float32(2 / 256))
    store_iq4_xs(x, rec, search_iq4(columns(x, 32), 7, weight).reshape(len(x), 8))
