"""The metrics of the operator golden data."""

from __future__ import annotations

import numpy as np
import pytest

from wggml.testing.metrics import FLT_MAX, Mismatch, compare

INF = float("inf")


def values(*xs: float) -> np.ndarray:
    return np.array(xs, np.float64).reshape(1, 1, 1, -1)


def test_nmse_divides_by_the_larger_energy() -> None:
    assert compare("nmse", values(1, 2), values(1, 2)) == 0
    assert compare("nmse", values(1, 3), values(1, 2)) == pytest.approx(1 / 10)
    assert compare("nmse", values(1, 1), values(1, 2)) == pytest.approx(1 / 5)


def test_nmse_of_zeros() -> None:
    assert compare("nmse", values(0, 0), values(0, 0)) == 0
    assert compare("nmse", values(0, 0), values(0, 2)) == 1
    assert compare("nmse", values(), values()) == 0


def test_nan_never_passes() -> None:
    with pytest.raises(Mismatch, match="1 of 2 values are NaN"):
        compare("nmse", values(1, np.nan), values(1, np.nan))


@pytest.mark.parametrize("huge", [INF, FLT_MAX])
def test_infinities_must_coincide_and_are_left_out(huge: float) -> None:
    assert compare("nmse", values(huge, 1), values(INF, 1)) == 0
    assert compare("nmse", values(-huge, 1), values(-INF, 2)) == pytest.approx(1 / 4)
    for got, ref in [((huge, 1), (1, 1)), ((1, 1), (huge, 1)), ((huge, 1), (-INF, 1))]:
        with pytest.raises(Mismatch, match="infinities"):
            compare("nmse", values(*got), values(*ref))


def test_shapes_must_agree() -> None:
    with pytest.raises(Mismatch, match="shape"):
        compare("nmse", values(1), values(1, 2))


def test_sorted_nmse_ignores_the_order() -> None:
    assert compare("sorted_nmse", values(3, 1, 2), values(1, 2, 3)) == 0
    assert compare("sorted_nmse", values(3, 1, 1), values(1, 2, 3)) > 0


def test_index_set_wants_the_same_integers_equally_often() -> None:
    assert compare("index_set", values(2, 0, 1), values(0, 1, 2)) == 0
    assert compare("index_set", values(1, 1, 2), values(1, 2, 2)) == 1
    with pytest.raises(Mismatch, match="no integer"):
        compare("index_set", values(0.5), values(1))


def test_topk_values_set_compares_what_the_indices_pick() -> None:
    source = np.array([[5.0, 9.0, 9.0, 1.0], [4.0, 3.0, 2.0, 1.0]]).reshape(1, 1, 2, 4)

    def error(got: list[list[int]], ref: list[list[int]]) -> float:
        a, b = (np.array(x, np.float64).reshape(1, 1, 2, -1) for x in (got, ref))
        return compare("topk_values_set", a, b, source)

    assert error([[2, 0], [0, 1]], [[1, 0], [1, 0]]) == 0  # equal values are interchangeable
    assert error([[1, 1], [0, 1]], [[1, 2], [0, 1]]) == 0.5  # an index twice
    assert error([[1, 3], [0, 1]], [[1, 2], [0, 1]]) == 0.5
    with pytest.raises(Mismatch, match=r"outside 0\.\.3"):
        error([[4, 0], [0, 1]], [[1, 0], [0, 1]])


def test_maxabs_both_is_the_largest_magnitude_in_either() -> None:
    assert compare("maxabs_both", values(1e-3, 0), values(0, -2e-3)) == 2e-3
