"""`Trainer`: the same curve on every device, one plan, arrays in and out."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import ModuleType

import numpy as np
import pytest

from tests.conftest import REPO
from wggml import Context, Tensor, WggmlError, ops
from wggml.core.optimizer import AdamW
from wggml.errors import ShapeError, UnsupportedOpError, UsageError
from wggml.train import Trainer


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = REPO / "examples" / "train_digits.py"
    spec = importlib.util.spec_from_file_location("train_digits", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digits_trainer(example: ModuleType, device: str) -> Trainer:
    return Trainer(
        example.net, example.first_weights(0), sample=(64,), batch=example.BATCH, device=device,
        optimizer=AdamW(alpha=2e-3, weight_decay=1e-3),
    )  # fmt: skip


def learn(example: ModuleType, trainer: Trainer) -> tuple[list[float], float]:
    (x, digits), test = example.load_digits()
    losses = example.train_epoch(trainer, x, digits, np.random.default_rng(0))
    return losses, trainer.accuracy(*test)


def test_devices_learn_along_one_curve(example: ModuleType, adapter_name: str) -> None:
    pytest.importorskip("sklearn")
    with digits_trainer(example, "cpu") as on_cpu:
        want, accuracy = learn(example, on_cpu)
        trained = on_cpu.weights()
    with digits_trainer(example, adapter_name) as trainer:
        got, accuracy_too = learn(example, trainer)
        assert trainer.splits_of_a_step == 1, trainer.describe()
        for name, a in trainer.weights().items():
            np.testing.assert_allclose(a, trained[name], atol=2e-4, err_msg=name)
    assert want[-1] < 0.4 * want[0]
    np.testing.assert_allclose(got, want, rtol=2e-4)
    assert abs(accuracy_too - accuracy) <= 1 / 360


def test_weights_come_back_and_training_can_start_again(example: ModuleType) -> None:
    rng = np.random.default_rng(3)
    x, labels = rng.standard_normal((32, 64)), rng.integers(0, 10, 32)
    with digits_trainer(example, "cpu") as trainer:
        start = trainer.weights()
        for name, a in example.first_weights(0).items():
            np.testing.assert_array_equal(start[name], a)
        first = [trainer.step(x, labels) for _ in range(5)]
        assert first == sorted(first, reverse=True)
        trainer.set_weights(start)
        assert trainer.n_steps == 0
        assert [trainer.step(x, labels) for _ in range(5)] == first
        # 70 samples are two batches and a part of one
        many = np.tile(x, (3, 1))[:70]
        np.testing.assert_array_equal(trainer.predict(many)[:32], trainer.predict(x))
        assert trainer.predict(many).shape == (70, 10)


def linear(ctx: Context, w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return ops.mul_mat(ctx, w["w"], x)


def test_what_does_not_fit_is_refused() -> None:
    w = {"w": np.ones((3, 2))}
    with Trainer(linear, w, sample=(2,), batch=4, device="cpu") as t:
        with pytest.raises(ShapeError, match=r"shape \[4, 2\], got \[4, 3\]"):
            t.step(np.ones((4, 3)), [0, 0, 0, 0])
        with pytest.raises(ShapeError, match="takes 4 labels"):
            t.step(np.ones((4, 2)), [0])
        with pytest.raises(UsageError, match="label 3 is no class; classes are 0 to 2"):
            t.step(np.ones((4, 2)), [0, 1, 2, 3])
        with pytest.raises(ShapeError, match="'w' has shape"):
            t.set_weights({"w": np.ones((2, 3))})
        with pytest.raises(ShapeError, match=r"trains \['w'\]"):
            t.set_weights({"v": np.ones((3, 2))})


def test_models_that_cannot_be_trained_are_refused() -> None:
    def summed(ctx: Context, w: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return ops.sum(ctx, linear(ctx, w, x))

    def in_place(ctx: Context, w: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return ops.scale(ctx, linear(ctx, w, x), 2.0, inplace=True)

    for model, error in ((summed, ShapeError), (in_place, UnsupportedOpError)):
        with pytest.raises(error):
            Trainer(model, {"w": np.ones((3, 2))}, sample=(2,), batch=4, device="cpu")


def test_missing_digits_are_named(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "find_spec", lambda name: None)
    with pytest.raises(WggmlError, match=r"pip install 'wggml\[train\]'"):
        example.load_digits()
