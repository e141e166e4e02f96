"""`DigitsEngine`: a small net that learns digits while it classifies what is drawn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.optimizer import AdamW
from wggml.core.tensor import Tensor
from wggml.demo.digits_data import F32, Ints, Stroke, augment, from_drawing, load_digits
from wggml.demo.engine import Engine
from wggml.train import Trainer

JOB = "digits"
BATCH = 64
HIDDEN = 64
SHAPES = {"w1": (HIDDEN, 64), "b1": (HIDDEN,), "w2": (10, HIDDEN), "b2": (10,)}
TURN_SECONDS = 0.03
"""Steps are taken for this long before others have a turn."""
MEASURE_SECONDS = 0.6


def net(ctx: Context, w: Mapping[str, Tensor], pixels: Tensor) -> Tensor:
    """Two layers: pixels ne [64, batch] -> logits ne [10, batch]."""
    hidden = ops.gelu(ctx, ops.add(ctx, ops.mul_mat(ctx, w["w1"], pixels), w["b1"]))
    return ops.add(ctx, ops.mul_mat(ctx, w["w2"], hidden), w["b2"])


def first_weights(seed: int) -> dict[str, F32]:
    """Random matrices scaled by their inputs, zero biases."""
    rng = np.random.default_rng(seed)
    return {
        k: (rng.standard_normal(s) * (len(s) > 1) * np.sqrt(2 / s[-1])).astype(np.float32)
        for k, s in SHAPES.items()
    }


@dataclass(frozen=True, slots=True)
class DigitsState:
    """What the tab draws. losses: mean of each turn's steps. accuracies: (step, share right on the
    test set). weights: w1 as images, F32 [HIDDEN, 8, 8]. probs: of the drawing, F32 [10]."""

    device: str = ""
    running: bool = False
    steps: int = 0
    seconds: float = 0.0
    losses: tuple[float, ...] = ()
    accuracies: tuple[tuple[int, float], ...] = ()
    weights: F32 | None = None
    drawing: F32 | None = None
    probs: F32 | None = None
    version: int = 0

    @property
    def accuracy(self) -> float:
        return self.accuracies[-1][1] if self.accuracies else 0.0


class DigitsEngine:
    """Commands for the window, `state` to draw."""

    def __init__(self, engine: Engine, device: str) -> None:
        self.engine = engine
        self.device = device
        self.state = DigitsState()
        self.rate = 3e-3
        self._trainer: Trainer | None = None
        self._data: tuple[tuple[F32, Ints], tuple[F32, Ints]] | None = None
        self._rng = np.random.default_rng(1)
        self._seed = 0
        engine.on_close(self._close)

    def _publish(self, **changes: Any) -> None:
        self.state = replace(self.state, version=self.state.version + 1, **changes)
        self.engine.changes += 1

    # ---- commands of the window ---------------------------------------------------------------

    def start(self) -> None:
        """Train until stopped."""
        self.engine.post(JOB, lambda: self.engine.start_job(JOB, self._train()))

    def stop(self) -> None:
        """Stop training; what was learnt stays."""
        self.engine.post(JOB, lambda: self.engine.end_job(JOB))

    def reset(self) -> None:
        """Forget all that was learnt, with other random weights to begin from."""
        self.engine.post(JOB, self._reset)

    def classify(self, strokes: Sequence[Stroke]) -> None:
        """What digit is this drawing?"""
        kept = [tuple(s) for s in strokes]
        self.engine.post(JOB, lambda: self._classify(kept))

    # ---- the engine's thread --------------------------------------------------------------------

    def _ready(self) -> Trainer:
        if self._trainer is None:
            if self._data is None:
                self._data = load_digits()
            self._trainer = Trainer(
                net, first_weights(self._seed), sample=(64,), batch=BATCH, device=self.device
            )
            self._publish(device=self._trainer.devices[0].description)
            self._publish_weights()
        return self._trainer

    def _train(self) -> Iterator[None]:
        trainer = self._ready()
        assert self._data is not None
        (x, digits), _ = self._data
        before = self.state.seconds
        begin = measured = time.perf_counter()
        self._publish(running=True)
        try:
            while True:
                trainer.optimizer = AdamW(alpha=self.rate, weight_decay=1e-3)
                turn = time.perf_counter()
                losses: list[float] = []
                while not losses or time.perf_counter() - turn < TURN_SECONDS:
                    rows = self._rng.integers(0, len(x), BATCH)
                    losses.append(trainer.step(augment(x[rows], self._rng), digits[rows]))
                now = time.perf_counter()
                self._publish(
                    steps=trainer.n_steps, seconds=before + now - begin,
                    losses=(*self.state.losses, float(np.mean(losses))),
                )  # fmt: skip
                if now - measured > MEASURE_SECONDS:
                    measured = now
                    self._measure()
                yield
        finally:
            self._publish(running=False)

    def _measure(self) -> None:
        trainer = self._ready()
        assert self._data is not None
        share = trainer.accuracy(*self._data[1])
        self._publish(accuracies=(*self.state.accuracies, (trainer.n_steps, share)))
        self._publish_weights()
        if self.state.drawing is not None:
            self._publish(probs=self._probs(self.state.drawing))

    def _publish_weights(self) -> None:
        self._publish(weights=self._ready().weights()["w1"].reshape(HIDDEN, 8, 8))

    def _reset(self) -> None:
        running = self.engine.is_running(JOB)
        self.engine.end_job(JOB)
        self._seed += 1
        self._ready().set_weights(first_weights(self._seed))
        self._publish(steps=0, seconds=0.0, losses=(), accuracies=(), probs=None)
        self._publish_weights()
        if running:
            self.engine.start_job(JOB, self._train())

    def _classify(self, strokes: Sequence[Stroke]) -> None:
        if not strokes:
            self._publish(drawing=None, probs=None)
            return
        pixels = from_drawing(strokes)
        self._publish(drawing=pixels, probs=self._probs(pixels))

    def _probs(self, pixels: F32) -> F32:
        logits = self._ready().predict(pixels[None])[0]
        e = np.exp(logits - logits.max())
        out: F32 = e / e.sum()
        return out

    def _close(self) -> None:
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
