"""Samplers on distributions small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wggml.errors import UsageError
from wggml.runtime.sampling import Sampler, SamplingParams

PROBS = np.array([0.1, 0.5, 0.1, 0.3])
LOGITS = np.log(PROBS).astype(np.float32)


def off(**kw: float) -> SamplingParams:
    values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0, **kw}
    return SamplingParams(**values)  # type: ignore[arg-type]


def test_everything_off_keeps_the_distribution():
    ids, probs = Sampler(off()).candidates(LOGITS)
    assert ids.tolist() == [1, 3, 0, 2]
    np.testing.assert_allclose(probs, [0.5, 0.3, 0.1, 0.1], rtol=1e-6)


@pytest.mark.parametrize(
    ("kw", "kept"),
    [
        ({"top_k": 2}, [1, 3]),
        ({"top_k": 3}, [1, 3, 0]),  # the smaller id wins the tie
        ({"top_k": 99}, [1, 3, 0, 2]),
        ({"top_k": -1}, [1, 3, 0, 2]),
        ({"top_p": 0.5}, [1]),
        ({"top_p": 0.6}, [1, 3]),
        ({"top_p": 0.0}, [1]),
        ({"min_p": 0.5}, [1, 3]),
        ({"min_p": 1.0}, [1]),
    ],
)
def test_filters(kw: dict[str, float], kept: list[int]):
    assert Sampler(off(**kw)).candidates(LOGITS)[0].tolist() == kept


def test_temperature_zero_is_the_largest_logit_and_the_lowest_id_on_a_tie():
    assert Sampler(off(temperature=0.0)).sample(np.array([1, 3, 3, 2], np.float32)) == 1
    assert Sampler(off(temperature=-1.0)).sample(LOGITS) == 1


def test_a_seed_repeats_and_draws_follow_the_distribution():
    a = Sampler(off(seed=7))
    b = Sampler(off(seed=7))
    draws = [a.sample(LOGITS) for _ in range(2000)]
    assert draws == [b.sample(LOGITS) for _ in range(2000)]
    np.testing.assert_allclose(np.bincount(draws) / 2000, PROBS, atol=0.04)


def test_high_temperature_flattens():
    _, probs = Sampler(off(temperature=100.0)).candidates(LOGITS)
    np.testing.assert_allclose(probs, 0.25, atol=0.01)


@pytest.mark.parametrize(
    "kw", [{"top_p": -0.1}, {"min_p": 2.0}, {"temperature": float("nan")}, {"seed": -3}]
)
def test_values_that_mean_nothing_are_refused(kw: dict[str, float]):
    with pytest.raises(UsageError, match=next(iter(kw))):
        Sampler(off(**kw))
