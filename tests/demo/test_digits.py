"""Digits: data, drawings, and a net that learns to read both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.demo.strokes import DIGITS
from wggml.demo.digits_data import augment, from_drawing
from wggml.demo.digits_engine import JOB, DigitsEngine
from wggml.demo.engine import Engine

pytest.importorskip("sklearn", reason="the digits come with scikit-learn")


def test_drawings_fill_their_frame():
    small = [[(0.40 + 0.02 * x, 0.3 + 0.02 * y) for x, y in s] for s in DIGITS[0]]
    np.testing.assert_array_equal(from_drawing(DIGITS[0]), from_drawing(small))
    pixels = from_drawing(DIGITS[0]).reshape(8, 8)
    assert pixels.min() == -1 and pixels[3:5, 3:5].max() == -1  # the hole
    assert pixels[0].max() > 0 and pixels[7].max() > 0  # top and bottom are reached
    assert (from_drawing([]) == -1).all()
    assert from_drawing([[(0.5, 0.5)]]).max() > -1  # a dot


def test_augment_stays_a_digit():
    rng = np.random.default_rng(0)
    pixels = from_drawing(DIGITS[3])
    many = augment(np.tile(pixels, (100, 1)), rng)
    assert many.shape == (100, 64) and many.min() >= -1 and many.max() <= 1
    assert len(np.unique(many.round(3), axis=0)) == 100
    far = np.abs(many.mean(axis=0) - pixels).mean()
    assert far < 0.25


@pytest.mark.parametrize("device", ["cpu", "lavapipe"])
def test_learns_and_reads_drawings(device: str):
    from tests.conftest import find_adapter

    if find_adapter(device) is None:
        pytest.skip(f"no {device} adapter here")
    engine = Engine()
    digits = DigitsEngine(engine, device)
    try:
        digits._classify(DIGITS[1])
        job = digits._train()
        while digits.state.steps < 1500:
            next(job)
        digits._measure()
        job.close()  # type: ignore[attr-defined]
        assert digits.state.accuracy >= 0.95
        assert not digits.state.running
        right = 0
        for digit, strokes in DIGITS.items():
            digits._classify(strokes)
            assert digits.state.probs is not None
            assert digits.state.probs.sum() == pytest.approx(1.0, abs=1e-5)
            right += int(digits.state.probs.argmax()) == digit
        assert right >= 9
        assert np.mean(digits.state.losses[-20:]) < 0.3 * digits.state.losses[0]
        digits._reset()
        assert digits.state.steps == 0 and not digits.state.losses
        assert not engine.is_running(JOB)
    finally:
        digits._close()
