"""Optimiser steps against their formulas, and a small net that learns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.backward import build_backward_expand, graph_reset
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.optimizer import (
    SGD,
    AdamW,
    build_adamw_steps,
    build_sgd_steps,
    new_moments,
    params_of,
)
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError
from wggml.hal.interface import Backend, BufferUsage
from wggml.hal.registry import default_registry
from wggml.sched import Sched


@pytest.fixture
def backend() -> Iterator[Backend]:
    b = default_registry().cpu().init_backend()
    yield b
    b.close()


class Fit:
    """Least squares of one matrix by an optimiser: w x should be y."""

    def __init__(self) -> None:
        self.kept, self.ctx = Context(name="kept"), Context(name="graph")
        self.w = self.kept.new_tensor(Type.F32, (3, 2), name="w").set_param()
        self.x = self.kept.new_tensor(Type.F32, (3, 8), name="x")
        self.y = self.kept.new_tensor(Type.F32, (2, 8), name="y")
        error = ops.sub(self.ctx, ops.mul_mat(self.ctx, self.w, self.x), self.y)
        self.loss = ops.sum(self.ctx, ops.sqr(self.ctx, error)).set_loss().set_output()
        self.graph = Graph()
        self.graph.build_forward_expand(self.loss)
        build_backward_expand(self.ctx, self.graph)
        self.params: Tensor | None = None
        rng = np.random.default_rng(5)
        self.values = {t: rng.normal(size=t.ne[1::-1]) for t in (self.w, self.x, self.y)}

    def start(self, backend: Backend) -> Sched:
        accs = list(self.graph.grad_accs.values())
        alloc_ctx_tensors([*self.kept, *accs], backend.buffer_type(), BufferUsage.COMPUTE)
        for t, v in self.values.items():
            t.set(v)
        graph_reset(self.graph)
        sched = Sched([backend])
        sched.alloc_graph(self.graph)
        return sched

    def gradient(self, w: np.ndarray) -> np.ndarray:
        x, y = self.values[self.x], self.values[self.y]
        return np.asarray(2 * (x @ w.T - y).T @ x)


def test_adamw_steps_follow_the_formula(backend: Backend) -> None:
    fit = Fit()
    settings = AdamW(alpha=0.05, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1)
    params = fit.kept.new_tensor(Type.F32, (7,), name="params")
    moments = new_moments(fit.kept, fit.graph)
    (step,) = build_adamw_steps(fit.ctx, fit.graph, params, moments)
    assert (step.name, step.view_src) == ("AdamW step for w", fit.w)
    assert [t.name for t in moments[fit.w]] == ["AdamW m for w", "AdamW v for w"]
    sched = fit.start(backend)
    w = fit.values[fit.w].copy()
    m, v = np.zeros_like(w), np.zeros_like(w)
    for k in range(1, 6):
        params.set(settings.values(k))
        sched.graph_compute(fit.graph)
        g = fit.gradient(w)
        m = 0.8 * m + 0.2 * g
        v = 0.9 * v + 0.1 * g * g
        root = np.sqrt(v / (1 - 0.9**k)) + 1e-3
        w = w * (1 - 0.05 * 0.1) - 0.05 * (m / (1 - 0.8**k)) / root
        np.testing.assert_allclose(fit.w.numpy(), w, rtol=2e-5, atol=1e-6)
    assert moments[fit.w][0].numpy().any()
    graph_reset(fit.graph)
    assert not any(t.numpy().any() for t in moments[fit.w])
    sched.close()


def test_sgd_steps_follow_the_formula(backend: Backend) -> None:
    fit = Fit()
    settings = SGD(alpha=0.01, weight_decay=0.2)
    params = fit.kept.new_tensor(Type.F32, (2,), name="params")
    (step,) = build_sgd_steps(fit.ctx, fit.graph, params)
    assert (step.name, step.view_src) == ("SGD step for w", fit.w)
    sched = fit.start(backend)
    params.set(settings.values())
    w = fit.values[fit.w].copy()
    losses = []
    for _ in range(20):
        sched.graph_compute(fit.graph)
        losses.append(float(fit.loss.numpy()[0]))
        w = w * (1 - 0.01 * 0.2) - 0.01 * fit.gradient(w)
        np.testing.assert_allclose(fit.w.numpy(), w, rtol=2e-5, atol=1e-6)
    assert losses == sorted(losses, reverse=True)
    sched.close()


def test_only_parameters_that_the_loss_depends_on_are_stepped() -> None:
    fit = Fit()
    idle = fit.kept.new_tensor(Type.F32, (3,), name="idle").set_param()
    fit.graph.build_forward_expand(ops.sqr(fit.ctx, idle))
    assert params_of(fit.graph) == [fit.w]


def test_missing_moments_and_a_zeroth_step_are_refused() -> None:
    fit = Fit()
    params = fit.kept.new_tensor(Type.F32, (7,))
    with pytest.raises(ShapeError, match="'w' has no moments"):
        build_adamw_steps(fit.ctx, fit.graph, params, {})
    with pytest.raises(ShapeError, match="count from 1"):
        AdamW().values(0)


def test_steps_need_their_number_of_settings() -> None:
    fit = Fit()
    with pytest.raises(ShapeError, match="OPT_STEP_SGD: params must have 2 values"):
        build_sgd_steps(fit.ctx, fit.graph, fit.kept.new_tensor(Type.F32, (7,)))


def test_a_net_learns_exclusive_or(backend: Backend) -> None:
    """Two layers, cross entropy, AdamW: not solvable without gradients of both layers."""
    kept, ctx = Context(), Context()
    x, labels = kept.new_tensor(Type.F32, (2, 4)), kept.new_tensor(Type.F32, (2, 4))
    shapes = {"w1": (2, 8), "b1": (8,), "w2": (8, 2), "b2": (2,)}
    w = {k: kept.new_tensor(Type.F32, ne, name=k).set_param() for k, ne in shapes.items()}
    hidden = ops.tanh(ctx, ops.add(ctx, ops.mul_mat(ctx, w["w1"], x), w["b1"]))
    logits = ops.add(ctx, ops.mul_mat(ctx, w["w2"], hidden), w["b2"]).set_output()
    loss = ops.cross_entropy_loss(ctx, logits, labels).set_loss().set_output()
    graph = Graph()
    graph.build_forward_expand(loss)
    build_backward_expand(ctx, graph)
    params = kept.new_tensor(Type.F32, (7,))
    assert len(build_adamw_steps(ctx, graph, params, new_moments(kept, graph))) == 4
    accs = list(graph.grad_accs.values())
    alloc_ctx_tensors([*kept, *accs], backend.buffer_type(), BufferUsage.COMPUTE)
    rng = np.random.default_rng(1)
    for t in w.values():
        t.set(rng.normal(size=t.ne[::-1]))
    truth = np.array([0, 1, 1, 0])
    x.set(np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], np.float32))
    labels.set(np.eye(2, dtype=np.float32)[truth])
    graph_reset(graph)
    sched = Sched([backend])
    sched.alloc_graph(graph)
    losses = []
    for k in range(1, 151):
        params.set(AdamW(alpha=0.05).values(k))
        sched.graph_compute(graph)
        losses.append(float(loss.numpy()[0]))
    assert losses[-1] < 0.02 < 0.4 < losses[0]
    assert (logits.numpy().argmax(-1) == truth).all()
    sched.close()
