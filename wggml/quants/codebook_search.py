"""The search behind the IQ2 and IQ3 writers, and the codebooks' tables, also for IQ1: for groups of
weights a scale and codebook entries.

A code says which of a few levels a magnitude takes: code c stands for 2c + 1 steps of the scale.
Entries of the codebook are tuples of codes; only some tuples are in it. Groups are columns, as in
`kquants_search`: sums add one row after the other, as the reference does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.quants.grids import grid
from wggml.quants.kquants_search import ratio
from wggml.quants.layouts import F32
from wggml.quants.rounding import nearest

_Ints = npt.NDArray[Any]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Codebook:
    """Entries of a type, and for every tuple of codes which entries are near it.

    levels: how many codes a weight has; codes uint8 [entries, n]; entry int16 [tuples]: the
    entry that a tuple is, else -1; near int16 [tuples, most], filled up with -1: the entries in
    the nearest shells of distance, by distance, then number.
    """

    levels: int
    codes: npt.NDArray[np.uint8]
    entry: npt.NDArray[np.int16]
    near: npt.NDArray[np.int16]

    def number(self, codes: _Ints) -> _Ints:
        """Tuples [n, ...] -> their numbers [...]."""
        weights = self.levels ** np.arange(len(codes))
        return np.tensordot(weights, codes.astype(np.int32), 1)


# How many shells of distance the reference looks at.
_SHELLS = {
    Type.IQ1_S: 3, Type.IQ1_M: 3, Type.IQ2_XXS: 2, Type.IQ2_XS: 2, Type.IQ2_S: 1,
    Type.IQ3_XXS: 2, Type.IQ3_S: 3,
}  # fmt: skip


@cache
def codebook(type: Type) -> Codebook:
    """The codebook of an IQ2 or IQ3 type; made once, in about a second at most."""
    values = grid(type)
    steps = np.unique(values)
    codes = np.searchsorted(steps, values).astype(np.uint8)
    levels, n = len(steps), values.shape[1]
    tuples = np.arange(levels**n)[:, None] // levels ** np.arange(n) % levels
    entry = np.full(len(tuples), -1, np.int16)
    entry[codes @ levels ** np.arange(n)] = np.arange(len(codes))
    # squared distances are small integers, exact in f32
    t, c = tuples.astype(np.float32), codes.astype(np.float32)
    distance = (t * t).sum(1)[:, None] + (c * c).sum(1) - 2 * (t @ c.T)
    shell = distance.min(axis=1, keepdims=True)
    for _ in range(_SHELLS[type] - 1):
        shell = np.where(distance > shell, distance, np.inf).min(axis=1, keepdims=True)
    of, which = np.nonzero(distance <= shell)
    order = np.lexsort((which, distance[of, which], of))
    of, which = of[order], which[order]
    counts = np.bincount(of, minlength=len(tuples))
    near = np.full((len(tuples), counts.max()), -1, np.int16)
    near[of, np.arange(len(of)) - (np.cumsum(counts) - counts)[of]] = which
    return Codebook(levels, codes, entry, near)


def nearest_entry(
    book: Codebook, levels: F32, tuples: _Ints, x: F32, weight: F32, scale: F32, shift: F32
) -> _Ints:
    """For N items the entry of least weighted squared error among those near its tuple: levels
    [n, entries] are the entries' values, to which `shift` [N] is added; tuples [N], x and weight
    [n, N], scale [N]. Of equals the first."""
    counts = (book.near[tuples] >= 0).sum(axis=1)
    order = np.argsort(-counts, kind="stable")  # items with many candidates first
    near, x, weight = book.near[tuples[order]], x[:, order], weight[:, order]
    scale, shift = scale[order], shift[order]
    best = np.zeros(len(tuples), np.int16)
    least = np.full(len(tuples), np.finfo(np.float32).max, np.float32)
    for k in range(near.shape[1]):
        m = int((counts > k).sum())
        if not m:
            break
        diff = scale[:m] * (levels[:, near[:m, k]] + shift[:m]) - x[:, :m]
        error = np.add.accumulate(weight[:, :m] * diff * diff, axis=0)[-1]
        better = error < least[:m]
        least[:m][better] = error[better]
        best[:m][better] = near[:m, k][better]
    found = np.empty_like(best)
    found[order] = best
    return found


@dataclass(frozen=True, slots=True)
class GridSearch:
    """How a type's reference looks for a group's scale and entries.

    Guesses of the inverse scale: (2 levels - 1 + k * step) / largest, for k = -reach .. reach.
    Afterwards entries are looked up once more on the best scale: `all_again`, or only those that
    were not in the codebook as rounded. `tiny`: a group whose largest magnitude is below it counts
    as zero. `strict`: without any guess, entries count as not in the codebook.
    """

    type: Type
    reach: int
    step: float
    tiny: float
    all_again: bool = False
    strict: bool = False


@dataclass(slots=True)
class Fit:
    """scale [G], not negative; flip [G]: the signs of the group are to be turned; entry int16
    [E, G]; used [G]: false for groups that count as zero."""

    scale: F32
    flip: _Mask
    entry: _Ints
    used: _Mask


class _Groups:
    """Groups under search: x and weight as columns [E * n, G]."""

    def __init__(self, book: Codebook, x: F32, weight: F32) -> None:
        self.book, self.x, self.weight = book, x, weight
        self.levels = 2 * book.codes.T.astype(np.float32) + 1
        n = book.codes.shape[1]
        # [n, E, G], so that a mask over entries picks columns
        self.parts = x.reshape(-1, n, x.shape[1]).transpose(1, 0, 2)
        self.roots = np.sqrt(weight).reshape(self.parts.shape[1], n, -1).transpose(1, 0, 2)
        self.wx = weight * x

    def look_up(self, inverse: F32, scale: F32) -> tuple[_Ints, _Mask]:
        """Entries [E, G] of x on the inverse scales [G], and which were rounded onto the grid."""
        rounded = nearest(np.float32(0.5) * (inverse * self.parts - np.float32(1)))
        codes = np.clip(rounded, 0, self.book.levels - 1)
        tuples = self.book.number(codes)
        entry = self.book.entry[tuples]
        off = entry < 0
        if off.any():
            of = scale[np.nonzero(off)[1]]
            x, weight = self.parts[:, off], self.roots[:, off]
            entry[off] = nearest_entry(
                self.book, self.levels, tuples[off], x, weight, of, np.zeros_like(of)
            )
        return entry, ~off

    def sums(self, entry: _Ints) -> tuple[F32, F32]:
        """Sums of w x q and w q q over each group [G], q = 2 code + 1."""
        q = (2 * self.book.codes[entry].astype(np.float32) + 1).transpose(0, 2, 1)
        q = q.reshape(self.x.shape)
        return (self.wx * q).sum(axis=0), (self.weight * q * q).sum(axis=0)


def fit_entries(x: F32, weight: F32, search: GridSearch, largest: F32 | None = None) -> Fit:
    """The best scale and entries of groups x [size, G] (magnitudes; a negative one is a sign that
    its type cannot store). `largest` [G] replaces the greatest value in the guesses."""
    book = codebook(search.type)
    top = np.float32(2 * book.levels - 1)
    peak = x.max(axis=0) if largest is None else largest
    used = (peak >= np.float32(search.tiny)) if search.tiny else peak != 0
    peak = np.where(used, peak, np.float32(1)).astype(np.float32)
    groups = _Groups(book, x, weight)
    scale = peak / top
    best = np.zeros_like(scale)
    entry = np.zeros(groups.parts.shape[1:], np.int16)
    on_grid = np.full(entry.shape, not search.strict)
    for k in range(-search.reach, search.reach + 1):
        inverse = (top + np.float32(k) * np.float32(search.step)) / peak
        tried, on = groups.look_up(inverse, np.float32(1) / inverse)
        sum_qx, sum_qq = groups.sums(tried)
        better = (sum_qq > 0) & (sum_qx * sum_qx > best * sum_qq)
        scale = np.where(better, ratio(sum_qx, sum_qq, better), scale)
        best = np.where(better, scale * sum_qx, best)
        entry = np.where(better, tried, entry)
        on_grid = np.where(better, on, on_grid)
    _refine(groups, search, scale, entry, on_grid)
    flip = scale < 0
    scale = np.where(used, np.abs(scale), np.float32(0)).astype(np.float32)
    entry[:, ~used] = 0
    return Fit(scale, flip, entry, used)


def _refine(groups: _Groups, search: GridSearch, scale: F32, entry: _Ints, on_grid: _Mask) -> None:
    """Look entries up again on the scale found, and fit the scale to them; in place."""
    again = (scale > 0) & (True if search.all_again and not search.strict else ~on_grid.all(axis=0))
    positive = np.where(again, scale, np.float32(1)).astype(np.float32)
    fresh, _ = groups.look_up(np.float32(1) / positive, positive)
    change = again & (np.True_ if search.all_again else ~on_grid)
    np.copyto(entry, fresh, where=change)
    sum_qx, sum_qq = groups.sums(entry)
    fitted = again & (sum_qq > 0)
    np.copyto(scale, ratio(sum_qx, sum_qq, fitted), where=fitted)
