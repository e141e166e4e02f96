"""The searches behind the k-quant and IQ4 writers: scale, or scale and minimum, of each group.

Groups are columns, x [n, G]: a sum over the first axis then adds one row after the other, the order
in which ggml's reference sums; f32 sums depend on it, and the bytes written are to be the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.quants.layouts import F32
from wggml.quants.rounding import nearest, signed_max

# A group whose largest magnitude is below this counts as all zero.
TINY = np.float32(1e-15)


def columns(x: F32, size: int) -> F32:
    """Blocks [B, n] -> groups as columns [size, B * n / size]."""
    return np.ascontiguousarray(x.reshape(-1, size).T)


def energy(x: F32) -> F32:
    """Sums of squares of rows [B, n] -> [B], one value after the other."""
    total: F32 = np.add.accumulate(np.square(x), axis=1)[:, -1]
    return total


def importance(x: F32, size: int, weights: F32, sigma2: F32) -> F32:
    """weights [B, n] times sqrt(sigma2 [B] + x x), as groups in columns."""
    return columns((weights * np.sqrt(sigma2[:, None] + x * x)).astype(np.float32), size)


def ratio(a: F32, b: F32, where: npt.NDArray[np.bool_]) -> F32:
    """`a / b` where asked, 0 elsewhere."""
    out: F32 = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32)
    np.divide(a, b, out=out, where=where)
    return out


@dataclass(frozen=True, slots=True)
class AffineSearch:
    """Guesses of the inverse scale: (top + first + k * step) / range, for k = 0 .. count."""

    top: int
    first: float
    step: float
    count: int
    absolute: bool  # add up |error| instead of its square

    def guess(self, k: int) -> np.float32:
        offset = np.float32(self.first) + np.float32(self.step) * np.float32(k)
        return offset + np.float32(self.top)

    def error(self, x: F32, weight: F32, codes: F32, scale: F32, low: F32) -> F32:
        """Weighted error [G] of `scale * codes + low`."""
        diff = scale * codes + low - x
        diff = np.abs(diff) if self.absolute else diff * diff
        total: F32 = (weight * diff).sum(axis=0)
        return total


def fit_affine(x: F32, weight: F32, search: AffineSearch) -> tuple[F32, F32, F32]:
    """Scale [G], negated minimum [G] (>= 0) and codes [n, G]: the guess that, once improved by
    weighted least squares, leaves the smallest error. Guesses start from the best minimum so far.
    """
    lowest, high = x.min(axis=0), x.max(axis=0)
    lowest[lowest > 0] = 0  # and a negative zero stays one
    low, flat = lowest, high == lowest
    sum_w, sum_x = weight.sum(axis=0), (weight * x).sum(axis=0)
    span: F32 = np.where(flat, np.float32(1), high - low).astype(np.float32)
    inverse = np.float32(search.top) / span
    scale: F32 = np.float32(1) / inverse
    codes = np.clip(nearest(inverse * (x - low)), 0, search.top)
    least = search.error(x, weight, codes, scale, low)
    for k in range(search.count + 1):
        span = np.where(flat, np.float32(1), high - low).astype(np.float32)
        inverse = search.guess(k) / span
        tried = np.clip(nearest(inverse * (x - low)), 0, search.top)
        wc = weight * tried
        sum_l, sum_l2, sum_xl = wc.sum(axis=0), (wc * tried).sum(axis=0), (wc * x).sum(axis=0)
        det = sum_w * sum_l2 - sum_l * sum_l
        usable = det > 0
        new_scale = ratio(sum_w * sum_xl - sum_x * sum_l, det, usable)
        new_low = ratio(sum_l2 * sum_x - sum_l * sum_xl, det, usable)
        through_zero = new_low > 0
        new_scale = np.where(through_zero, ratio(sum_xl, sum_l2, through_zero), new_scale)
        new_low[through_zero] = 0
        error = search.error(x, weight, tried, new_scale, new_low)
        better = usable & (error < least)
        least = np.where(better, error, least)
        scale, low = np.where(better, new_scale, scale), np.where(better, new_low, low)
        codes = np.where(better, tried, codes)
    scale[flat] = 0
    codes[:, flat] = 0
    return scale, -np.where(flat, lowest, low), codes


def peaks(x: F32) -> tuple[F32, npt.NDArray[np.bool_]]:
    """The value of largest magnitude of each group [G] (1 for zero groups), and which groups
    count as zero [G]."""
    peak = signed_max(x.T)[:, 0]
    zero = np.abs(peak) < TINY
    peak[zero] = 1
    return peak, zero


def fit_symmetric(x: F32, half: int, weight: F32 | None = None) -> tuple[F32, F32]:
    """Scale [G] and codes [n, G] in 0 .. 2 half - 1 (code `half` means 0), weights x * x unless
    given: the best of 19 guesses around "largest magnitude at code 0"."""
    if weight is not None and x.shape[1] == 1:  # NumPy would add up a lone column in another order
        scale, codes = fit_symmetric(np.repeat(x, 2, 1), half, np.repeat(weight, 2, 1))
        return scale[:1], codes[:, :1]
    peak, zero = peaks(x)
    weight = x * x if weight is None else weight
    wx = weight * x

    def attempt(k: int) -> tuple[F32, F32, F32]:
        inverse = -(np.float32(half) + np.float32(0.1) * np.float32(k)) / peak
        codes = np.clip(nearest(inverse * x), -half, half - 1)
        return codes, (wx * codes).sum(axis=0), (weight * codes * codes).sum(axis=0)

    codes, sum_lx, sum_l2 = attempt(0)
    scale = ratio(sum_lx, sum_l2, sum_l2 != 0)
    best = scale * sum_lx
    for k in (*range(-9, 0), *range(1, 10)):
        tried, sum_lx, sum_l2 = attempt(k)
        better = (sum_l2 > 0) & (sum_lx * sum_lx > best * sum_l2)
        scale = np.where(better, ratio(sum_lx, sum_l2, better), scale)
        best = np.where(better, scale * sum_lx, best)
        codes = np.where(better, tried, codes)
    codes += np.float32(half)
    scale[zero] = 0
    codes[:, zero] = 0
    return scale, codes


def fit_by_descent(x: F32, half: int, rounds: int = 5) -> tuple[F32, F32]:
    """Scale [G] and codes [n, G] in 0 .. 2 half - 1, weights x * x: starting from "largest
    magnitude at code 0", each value in turn takes another code if the whole group gains by it."""
    peak, zero = peaks(x)
    weight = x * x
    codes = np.clip(nearest(np.float32(-half) / peak * x), -half, half - 1)
    sum_lx, sum_l2 = (weight * x * codes).sum(axis=0), (weight * codes * codes).sum(axis=0)
    for _ in range(rounds):
        for i in range(len(x)):
            w, xi, old = weight[i], x[i], codes[i]
            lx, l2 = sum_lx - w * xi * old, sum_l2 - w * old * old
            code = np.clip(nearest(ratio(xi * l2, lx, lx > 0)), -half, half - 1)
            changes = (lx > 0) & (code != old)
            lx, l2 = lx + w * xi * code, l2 + w * code * code
            gains = changes & (l2 > 0) & (lx * lx * sum_l2 > sum_lx * sum_lx * l2)
            codes[i] = np.where(gains, code, old)
            sum_lx, sum_l2 = np.where(gains, lx, sum_lx), np.where(gains, l2, sum_l2)
    codes += np.float32(half)
    scale = ratio(sum_lx, sum_l2, sum_l2 > 0)
    scale[zero] = 0
    codes[:, zero] = 0
    return scale, codes


def fit_positive(x: F32, weight: F32, top: int) -> tuple[F32, F32]:
    """Scale [G] and codes [n, G] of groups x [n, G] on codes 0 .. top: the best of nine guesses
    around "largest at code `top`", then each value in turn takes another code if the whole group
    gains by it.

    Codes are kept in bytes, as the reference does: below zero (which x may be) they wrap around.
    """
    if x.shape[1] == 1:
        scale, codes = fit_positive(np.repeat(x, 2, 1), np.repeat(weight, 2, 1), top)
        return scale[:1], codes[:, :1]
    most = x.max(axis=0)
    zero = most < TINY
    most = np.where(zero, np.float32(1), most).astype(np.float32)

    def guess(k: int) -> F32:
        return np.asarray((np.float32(0.1) * np.float32(k) + np.float32(top)) / most, np.float32)

    def error(codes: F32, inverse: F32) -> F32:
        diff = x - np.float32(1) / inverse * codes
        total: F32 = (weight * diff * diff).sum(axis=0)
        return total

    best: F32 = guess(0)
    least = error(_wrapped(nearest(best * x)), best)
    for k in (*range(-4, 0), *range(1, 5)):
        inverse = guess(k)
        mse = error(np.minimum(nearest(inverse * x), np.float32(top)), inverse)
        better = mse < least
        np.copyto(best, inverse, where=better)
        np.copyto(least, mse, where=better)
    first = np.minimum(nearest(best * x), np.float32(top))
    sum_lx, sum_l2 = (weight * x * first).sum(axis=0), (weight * first * first).sum(axis=0)
    codes = _wrapped(first)
    for _ in range(5):
        for w, xi, old in zip(weight, x, codes, strict=True):
            lx, l2 = sum_lx - w * xi * old, sum_l2 - w * old * old
            usable = (lx > 0) & (l2 > 0)
            code = np.minimum(nearest(ratio(xi * l2, lx, usable)), np.float32(top))
            changes = usable & (code != old)
            lx, l2 = lx + w * xi * code, l2 + w * code * code
            gains = changes & (lx * lx * sum_l2 > sum_lx * sum_lx * l2)
            np.copyto(old, _wrapped(code), where=gains)
            sum_lx, sum_l2 = np.where(gains, lx, sum_lx), np.where(gains, l2, sum_l2)
    scale = ratio(sum_lx, sum_l2, sum_l2 > 0)
    scale[zero] = 0
    codes[:, zero] = 0
    return scale, codes


def _wrapped(codes: F32) -> F32:
    return codes.astype(np.int32).astype(np.uint8).astype(np.float32)
