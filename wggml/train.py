"""`Trainer`: fits a classifier by AdamW, on any device.

Forward, backward and optimiser nodes are one graph, planned once: a step writes the batch and
seven settings, runs the plan and reads one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.backward import build_backward_expand, graph_reset
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.optimizer import AdamW, build_adamw_steps, new_moments
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError, UsageError
from wggml.hal.interface import Buffer, BufferUsage, DeviceType
from wggml.hal.registry import Registry, default_registry
from wggml.sched import Sched

F32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer[Any]]

# Makes the logits, ne [classes, batch], of a batch from the trainable tensors by name.
Model = Callable[[Context, Mapping[str, Tensor], Tensor], Tensor]


class Trainer:
    """Trains `model` to tell classes apart: cross entropy, one AdamW step a batch.

    Args:
        model: builds logits of ne [classes, batch] out of a context, the weights by name and a
            batch of ne [*reversed(sample), batch], from ops that have gradients, none in place.
        weights: the arrays to start from; each becomes a trainable F32 tensor of that shape.
        sample: shape of one sample; batches are arrays [n, *sample].
        batch: samples a step.
        device: index or part of a name as `wggml devices` lists them; None takes the best real
            GPU, else NumPy. The CPU runs what the device does not.
        optimizer: settings of AdamW; may be replaced between steps.

    Raises `DeviceError` for a device that does not exist, `ShapeError` for a model whose logits do
    not fit, and what `build_backward_expand` raises.
    """

    def __init__(
        self,
        model: Model,
        weights: Mapping[str, npt.ArrayLike],
        *,
        sample: Sequence[int],
        batch: int,
        device: str | None = None,
        optimizer: AdamW | None = None,
        registry: Registry | None = None,
    ) -> None:
        reg = registry or default_registry()
        chosen = reg.best() if device is None else reg.find(device)
        self.devices = [chosen, *([reg.cpu()] if chosen.type is not DeviceType.CPU else [])]
        self.optimizer = optimizer or AdamW()
        self.sample, self.batch = tuple(sample), batch
        self.n_steps = 0
        self._buffers: list[Buffer] = []
        self._backends = [d.init_backend() for d in self.devices]
        # one for each graph, so that both stay planned
        self._training, self._predicting = Sched(self._backends), Sched(self._backends)
        start = {name: np.asarray(a, np.float32) for name, a in weights.items()}
        try:
            self._build(model, start)
            self.set_weights(start)
        except BaseException:
            self.close()
            raise

    def _build(self, model: Model, start: Mapping[str, F32]) -> None:
        kept, ctx = Context(name="kept by training"), Context(1 << 14, name="training")
        self._weights = {
            name: kept.new_tensor(Type.F32, a.shape[::-1] or (1,), name=name).set_param()
            for name, a in start.items()
        }
        x = kept.new_tensor(Type.F32, (*self.sample[::-1], self.batch), name="batch").set_input()
        self._forward, self._step = Graph(1 << 12), Graph(1 << 14)

        self._logits = _checked(model(ctx, self._weights, x), x).set_output()
        self._forward.build_forward_expand(self._logits)

        logits = model(ctx, self._weights, x)
        labels = kept.new_tensor(Type.F32, logits.ne, name="labels").set_input()
        self._loss = ops.cross_entropy_loss(ctx, logits, labels).set_loss().set_output()
        self._step.build_forward_expand(self._loss)
        build_backward_expand(ctx, self._step)
        settings = kept.new_tensor(Type.F32, (7,), name="AdamW settings").set_input()
        build_adamw_steps(ctx, self._step, settings, new_moments(kept, self._step))
        self._x, self._labels, self._settings = x, labels, settings

        self._buffers = alloc_ctx_tensors(
            [*kept, *self._step.grad_accs.values()],
            self.devices[0].buffer_type(), BufferUsage.COMPUTE,
        )  # fmt: skip
        self._training.alloc_graph(self._step)
        self._predicting.alloc_graph(self._forward)

    @property
    def classes(self) -> int:
        """How many classes the model tells apart."""
        return self._logits.ne[0]

    @property
    def splits_of_a_step(self) -> int:
        """Parts that a step is cut into; 1 when a single device runs all of it."""
        return self._training.n_splits

    def step(self, x: npt.ArrayLike, labels: npt.ArrayLike) -> float:
        """One AdamW step on samples x [batch, *sample] of classes `labels` [batch]; returns the
        mean loss of the batch as it was before the step. Raises `ShapeError` for other sizes and
        `UsageError` for a label that is no class."""
        classes = np.asarray(labels)
        if classes.shape != (self.batch,):
            raise ShapeError(f"a step takes {self.batch} labels, got shape {classes.shape}")
        self._x.set(self._samples(x, self.batch))
        self._labels.set(_one_hot(classes, self.classes))
        self._settings.set(self.optimizer.values(self.n_steps + 1))
        self._training.graph_compute(self._step)
        self.n_steps += 1
        return float(self._loss.numpy()[0])

    def predict(self, x: npt.ArrayLike) -> F32:
        """Logits [n, classes] of any number of samples x [n, *sample]."""
        samples = self._samples(x, None)
        out = np.empty((len(samples), self.classes), np.float32)
        for at in range(0, len(samples), self.batch):
            part = samples[at : at + self.batch]
            padded = np.zeros((self.batch, *self.sample), np.float32)
            padded[: len(part)] = part
            self._x.set(padded)
            self._predicting.graph_compute(self._forward)
            out[at : at + len(part)] = self._logits.numpy().reshape(self.batch, -1)[: len(part)]
        return out

    def accuracy(self, x: npt.ArrayLike, labels: npt.ArrayLike) -> float:
        """Share of samples x [n, *sample] whose largest logit is that of their label."""
        return float((self.predict(x).argmax(axis=1) == np.asarray(labels)).mean())

    def weights(self) -> dict[str, F32]:
        """Copies of the trained arrays by name, in the shapes they were given in."""
        return {name: t.numpy().reshape(self._shapes[name]) for name, t in self._weights.items()}

    def set_weights(self, weights: Mapping[str, npt.ArrayLike]) -> None:
        """Start again from these arrays: the optimiser forgets its moments and steps.

        Raises `ShapeError` when a name is missing or unknown, or a shape is another."""
        arrays = {name: np.asarray(a, np.float32) for name, a in weights.items()}
        if arrays.keys() != self._weights.keys():
            raise ShapeError(
                f"the model trains {sorted(self._weights)}, got arrays for {sorted(arrays)}"
            )
        for name, t in self._weights.items():
            shape = arrays[name].shape
            if (*shape[::-1], 1, 1, 1, 1)[:4] != t.ne:
                raise ShapeError(f"{name!r} has shape {list(t.ne[: t.n_dims][::-1])}, got {shape}")
            t.set(arrays[name])
        self._shapes = {name: a.shape for name, a in arrays.items()}
        graph_reset(self._step)
        self.n_steps = 0

    def describe(self) -> str:
        """What runs where in a step, as text."""
        return self._training.describe(2)

    def close(self) -> None:
        """Free all memory. Calling it twice is allowed."""
        for sched in (self._training, self._predicting):
            sched.close()
        for b in self._buffers:
            b.free()
        self._buffers = []
        for backend in self._backends:
            backend.close()
        self._backends = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _samples(self, x: npt.ArrayLike, n: int | None) -> F32:
        samples = np.asarray(x, np.float32)
        if samples.shape[1:] != self.sample or (n is not None and len(samples) != n):
            want = ["n" if n is None else n, *self.sample]
            raise ShapeError(f"samples must have shape {want}, got {list(samples.shape)}")
        return samples


def _checked(logits: Tensor, x: Tensor) -> Tensor:
    batch = x.ne[x.n_dims - 1] if x.n_dims else 1
    if logits.ne[1:] != (batch, 1, 1):
        raise ShapeError(
            f"the model made logits of ne {list(logits.ne)} from a batch of ne {list(x.ne)}; they "
            f"must be [classes, {batch}]"
        )
    return logits


def _one_hot(labels: Ints, classes: int) -> F32:
    bad = (labels < 0) | (labels >= classes)
    if bad.any():
        raise UsageError(f"label {labels[bad][0]} is no class; classes are 0 to {classes - 1}")
    return np.eye(classes, dtype=np.float32)[labels]
