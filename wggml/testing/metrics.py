"""How far a result is from its reference: the metrics of the operator golden data.

All of them take values as float64 arrays [i3, i2, i1, i0] and return one error, which passes when
it is at most the case's limit. Infinities (and +-FLT_MAX) must sit at the same places with the
same sign and are left out of sums; NaN never passes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

FLT_MAX = float(np.finfo(np.float32).max)
WORST = float("inf")


class Mismatch(Exception):
    """A difference that no number describes (NaN, an infinity in the wrong place, a shape)."""


def nmse(got: F64, ref: F64) -> float:
    """sum((got - ref)^2) / max(sum(ref^2), sum(got^2)); 0 when both are all zero."""
    numerator = float(np.square(got - ref).sum())
    if numerator == 0.0:
        return 0.0
    return numerator / max(float(np.square(ref).sum()), float(np.square(got).sum()))


def sorted_nmse(got: F64, ref: F64) -> float:
    """`nmse` of the sorted values: for results whose order is free."""
    return nmse(np.sort(got, axis=None), np.sort(ref, axis=None))


def index_set(got: F64, ref: F64) -> float:
    """0 when both hold the same integers, each as often, in any order."""
    if not (np.equal(got, np.rint(got)).all() and np.equal(ref, np.rint(ref)).all()):
        raise Mismatch("an index is no integer")
    same = np.array_equal(np.sort(got, axis=None), np.sort(ref, axis=None))
    return 0.0 if same else 1.0


def maxabs_both(got: F64, ref: F64) -> float:
    """The largest absolute value in either."""
    return max((float(np.abs(a).max()) for a in (got, ref) if a.size), default=0.0)


def topk_values_set(got: F64, ref: F64, source: F64) -> float:
    """Share of rows whose picked source values differ from the reference's as a multiset, or that
    pick an index twice. `source` is what the indices of each row point into."""
    rows = source.reshape(-1, source.shape[-1])
    picks, wanted = (a.reshape(len(rows), -1).astype(np.int64) for a in (got, ref))
    bad = 0
    for row, mine, theirs in zip(rows, picks, wanted, strict=True):
        if len(mine) and (mine.min() < 0 or mine.max() >= len(row)):
            raise Mismatch(f"index {int(mine.min())}..{int(mine.max())} outside 0..{len(row) - 1}")
        unique = len(np.unique(mine)) == len(mine)
        bad += not (unique and np.array_equal(np.sort(row[mine]), np.sort(row[theirs])))
    return bad / max(len(rows), 1)


METRICS: dict[str, Callable[[F64, F64], float]] = {
    "nmse": nmse,
    "sorted_nmse": sorted_nmse,
    "index_set": index_set,
    "maxabs_both": maxabs_both,
}


def compare(metric: str, got: F64, ref: F64, source: F64 | None = None) -> float:
    """The error of `got` under `metric`; raises `Mismatch` when it fails whatever the limit.

    `source` is needed by `topk_values_set` only.
    """
    if got.shape != ref.shape:
        raise Mismatch(f"shape {got.shape} is not the reference's {ref.shape}")
    if np.isnan(got).any():
        at = tuple(int(i) for i in np.argwhere(np.isnan(got))[0])
        raise Mismatch(f"{int(np.isnan(got).sum())} of {got.size} values are NaN, first at {at}")
    if metric == "topk_values_set":
        if source is None:
            raise Mismatch("topk_values_set needs the values the indices point into")
        return topk_values_set(got, ref, source)
    huge_got, huge_ref = np.abs(got) >= FLT_MAX, np.abs(ref) >= FLT_MAX
    if huge_got.any() or huge_ref.any():
        if not np.array_equal(np.sign(got) * huge_got, np.sign(ref) * huge_ref):
            raise Mismatch("infinities are not where the reference has them")
        got, ref = got[~huge_got], ref[~huge_ref]
    return METRICS[metric](got, ref)
