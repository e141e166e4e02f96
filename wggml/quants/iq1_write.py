"""Writing IQ1_S and IQ1_M, byte for byte as ggml does.

Weights are -1, 0 or 1 on the scale of their group, all of a part of it moved by an eighth up or
down. A group's values are sorted; of all ways to cut them into three, and to move the parts, the
best is taken, and then the codebook entries nearest to it. Groups are columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.quants.codebook_search import Codebook, codebook, nearest_entry
from wggml.quants.iquants import IQ1_DELTA
from wggml.quants.kquants_search import columns, energy, importance, ratio
from wggml.quants.layouts import F32, Records, set_field
from wggml.quants.rounding import nearest, to_f16

_Ints = npt.NDArray[Any]
_DELTA = np.float32(IQ1_DELTA)
_UP = (_DELTA - 1, _DELTA, _DELTA + 1)  # what codes 0, 1, 2 stand for, moved up or down
_DOWN = (-_DELTA - 1, -_DELTA, 1 - _DELTA)


@dataclass(slots=True)
class _Fit:
    """scale [G]; entry [E, G]; shift [E, G], +- an eighth; used [G]: false for zero groups."""

    scale: F32
    entry: _Ints
    shift: F32
    used: npt.NDArray[np.bool_]


def _running(a: F32) -> F32:
    """Sums of the first 0, 1, .. n rows of [n, G] -> [n + 1, G]."""
    zero = np.zeros((1, a.shape[1]), np.float32)
    return np.concatenate([zero, np.add.accumulate(a, axis=0)])


def _cuts(n: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(n + 1) for j in range(i, n + 1))


class _Best:
    """The best cut so far of each group, in the order in which the reference tries them."""

    def __init__(self, largest: F32) -> None:
        self.scale = largest.copy()
        self.score = np.full_like(largest, -np.finfo(np.float32).max)
        self.found = np.full((3, len(largest)), -1)  # cut, cut, choice of shifts

    def offer(self, sum_qx: F32, sum_qq: F32, at: tuple[int, int, int]) -> None:
        better = (sum_qq > 0) & (sum_qx * sum_qx > self.score * sum_qq)
        np.copyto(self.scale, ratio(sum_qx, sum_qq, better), where=better)
        np.copyto(self.score, self.scale * sum_qx, where=better)
        self.found[:, better] = np.array(at)[:, None]


def _one_shift(sorted_wx: F32, sorted_w: F32, best: _Best) -> None:
    """All of a group moves up (choice 0) or down (1)."""
    x, w = _running(sorted_wx), _running(sorted_w)
    n = len(sorted_wx)
    for i, j in _cuts(n):
        for choice, (low, mid, top) in enumerate((_UP, _DOWN)):
            sum_qx = x[i] * low + (x[j] - x[i]) * mid + (x[n] - x[j]) * top
            sum_qq = w[i] * low * low + (w[j] - w[i]) * mid * mid + (w[n] - w[j]) * top * top
            best.offer(sum_qx, sum_qq, (i, j, choice))


def _two_shifts(sorted_wx: F32, sorted_w: F32, first: npt.NDArray[np.bool_], best: _Best) -> None:
    """Either half moves by itself: choice 0 both up, 1 the second down, 2 the first, 3 both.
    `first` [n, G]: the value is of the first half."""
    n = len(sorted_wx)
    halves = (first, ~first)
    x = [_running(np.where(h, sorted_wx, np.float32(0))) for h in halves]
    w = [_running(np.where(h, sorted_w, np.float32(0))) for h in halves]
    steps = [(v[0] * v[0] - v[1] * v[1], v[1] * v[1] - v[2] * v[2], v[2]) for v in (_UP, _DOWN)]
    for i, j in _cuts(n):
        qx, qq = [], []
        for h in range(2):
            moved = x[h][i] + x[h][j]
            qx.append([x[h][n] * top - moved for _, _, top in steps])
            qq.append([w[h][n] * top * top + w[h][i] * a + w[h][j] * b for a, b, top in steps])
        for choice in range(4):
            a, b = choice >> 1, choice & 1
            best.offer(qx[0][a] + qx[1][b], qq[0][a] + qq[1][b], (i, j, choice))


def _fit(x: F32, weight: F32, type: Type, tiny: float) -> _Fit:
    """x and weight [n, G]."""
    n, book = len(x), codebook(type)
    largest = np.abs(x).max(axis=0)
    used = largest >= np.float32(tiny)
    order = np.argsort(x, axis=0, kind="stable")
    wx = np.take_along_axis(weight * x, order, axis=0)
    w = np.take_along_axis(weight, order, axis=0)
    best = _Best(largest)
    if type is Type.IQ1_S:
        _one_shift(wx, w, best)
    else:
        _two_shifts(wx, w, order < n // 2, best)
    used &= best.found[0] >= 0
    rank = np.arange(n)[:, None]
    codes = np.empty(x.shape, np.uint8)
    cut = (rank >= best.found[0]).astype(np.uint8) + (rank >= best.found[1])
    np.put_along_axis(codes, order, cut.astype(np.uint8), axis=0)
    turned = best.scale < 0
    codes = np.where(turned, 2 - codes, codes)
    down = _downs(best.found[2], type) ^ turned
    shift = np.where(down, -_DELTA, _DELTA).astype(np.float32)
    return _on_grid(book, x, weight, codes, _Fit(np.abs(best.scale), codes, shift, used))


def _downs(choice: _Ints, type: Type) -> npt.NDArray[np.bool_]:
    """Which parts of eight values move down, [E, G]."""
    if type is Type.IQ1_S:
        return np.broadcast_to(choice == 1, (4, len(choice))).copy()
    return np.stack([choice >= 2, choice % 2 == 1])


def _on_grid(book: Codebook, x: F32, weight: F32, codes: _Ints, fit: _Fit) -> _Fit:
    """Entries for the codes; where these are not in the codebook, near ones and a new scale."""

    def parts(a: _Ints) -> _Ints:
        return a.reshape(-1, 8, a.shape[1]).transpose(1, 0, 2)

    tuples = book.number(parts(codes))
    fit.entry = book.entry[tuples]
    off = fit.entry < 0
    levels = book.codes.T.astype(np.float32) - 1
    if off.any():
        group = np.nonzero(off)[1]
        fit.entry[off] = nearest_entry(
            book, levels, tuples[off], parts(x)[:, off], parts(weight)[:, off],
            fit.scale[group], fit.shift[off],
        )  # fmt: skip
    q = (levels[:, fit.entry] + fit.shift).transpose(1, 0, 2).reshape(x.shape)
    sum_qx, sum_qq = (weight * q * x).sum(axis=0), (weight * q * q).sum(axis=0)
    again = off.any(axis=0) & (sum_qx > 0) & (sum_qq > 0)
    np.copyto(fit.scale, ratio(sum_qx, sum_qq, again), where=again)
    fit.scale[~fit.used] = 0
    fit.entry[:, ~fit.used] = 0
    fit.shift[:, ~fit.used] = _DELTA
    return fit


def _steps(fit: _Fit, blocks: int) -> tuple[F32, _Ints]:
    """The block's scale [B, 1] and steps 0 .. 7 of its groups [B, groups]."""
    scales = fit.scale.reshape(blocks, -1)
    d = scales.max(axis=1, keepdims=True) / np.float32(15)
    inverse = ratio(np.ones_like(d), d, d > 0)
    steps = np.clip(nearest(np.float32(0.5) * (inverse * scales - np.float32(1))), 0, 7)
    return d, np.where(d > 0, steps, 0).astype(np.uint16)


def write_iq1_s(x: F32, rec: Records, weights: F32) -> None:
    weight = importance(x, 32, weights, 2 * energy(x) / np.float32(256))
    fit = _fit(columns(x, 32), weight, Type.IQ1_S, 1e-12)
    d, steps = _steps(fit, len(x))
    rec["d"] = to_f16(d[:, 0] * np.float32(1.125))
    set_field(rec, "qs", (fit.entry & 255).T.astype(np.uint8).reshape(len(x), -1))
    high = (fit.entry >> 8).astype(np.uint16) << np.array([[0], [3], [6], [9]], np.uint16)
    words = np.bitwise_or.reduce(high, axis=0).reshape(len(x), 8)
    down = (fit.shift[0] < 0).astype(np.uint16).reshape(len(x), 8)
    set_field(rec, "qh", words | (steps | down << np.uint16(3)) << np.uint16(12))


def write_iq1_m(x: F32, rec: Records, weights: F32 | None = None) -> None:
    groups = columns(x, 16)
    weight = groups * groups
    if weights is not None:
        weight = importance(x, 16, weights, 2 * energy(x) / np.float32(256))
    fit = _fit(groups, weight, Type.IQ1_M, 1e-7)
    d, steps = _steps(fit, len(x))
    set_field(rec, "qs", (fit.entry & 255).T.astype(np.uint8).reshape(len(x), -1))
    high = (fit.entry >> 8).astype(np.uint8) | (fit.shift < 0).astype(np.uint8) << np.uint8(3)
    set_field(rec, "qh", (high[0] | high[1] << np.uint8(4)).reshape(len(x), -1))
    # the scale once more by least squares over the whole block
    levels = codebook(Type.IQ1_M).codes.T.astype(np.float32) - 1
    q = (levels[:, fit.entry] + fit.shift).transpose(1, 0, 2).reshape(groups.shape)
    q = (q * (2 * steps.reshape(-1).astype(np.float32) + 1)).astype(np.float32)
    terms = np.stack([weight * q * groups, weight * q * q])
    by_block = terms.transpose(0, 2, 1).reshape(2, len(x), 256)
    sum_qx, sum_qq = np.add.accumulate(by_block, axis=2)[:, :, -1]
    fitted = np.where(sum_qq > 0, ratio(sum_qx, sum_qq, sum_qq > 0), d[:, 0])
    scale = np.where(d[:, 0] > 0, fitted, 0).astype(np.float32) * np.float32(1.1125)
    bits = to_f16(scale).view(np.uint16)[:, None]
    words = np.bitwise_or.reduce(
        steps.reshape(len(x), 4, 4) << np.array([0, 3, 6, 9], np.uint16), axis=2
    )
    nibble = bits >> np.array([0, 4, 8, 12], np.uint16) & np.uint16(15)
    set_field(rec, "scales", words | nibble << np.uint16(12))
