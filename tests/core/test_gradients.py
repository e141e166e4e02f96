"""Gradients against finite differences, on the NumPy backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tests.core.gradient_cases import CASES, Problem
from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import derivatives, gradients, ops
from wggml.core.backward import build_backward_expand, graph_reset
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Backend, BufferUsage
from wggml.hal.registry import default_registry
from wggml.testing.opdata import is_real

STEP = 2.0**-6  # of finite differences, on values of order 1
# A difference over five points errs by STEP^4 / 30 times the fifth derivative (some 1e-8), and by
# float32 sums (some 1e-6 / STEP). F16 on the way rounds to 2^-11, so its steps are larger.
TOLERANCE = 2e-4
FIVE_POINTS = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
F16_STEP, F16_TOLERANCE = 2.0**-3, 2e-2


@dataclass(slots=True)
class Built:
    problem: Problem
    loss: Tensor
    forward: Graph
    graph: Graph


def build(name: str) -> Built:
    p = Problem()
    out = CASES[name](p)
    weights = p.constant(*out.ne)
    loss = ops.sum(p.ctx, ops.mul(p.ctx, out, weights)).set_loss()
    forward, graph = Graph(), Graph()
    forward.build_forward_expand(loss)
    graph.build_forward_expand(loss)
    build_backward_expand(p.ctx, graph)
    return Built(p, loss, forward, graph)


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    b = default_registry().cpu().init_backend()
    yield b
    b.close()


def missing_kernels(graph: Graph, backend: Backend) -> list[str]:
    return sorted({t.op.name for t in graph.nodes if is_real(t) and not backend.supports_op(t)})


def place(built: Built, backend: Backend) -> None:
    """Every tensor in memory of its own, so that nothing is overwritten."""
    alloc_ctx_tensors(built.problem.ctx, backend.buffer_type(), BufferUsage.COMPUTE)
    for t, values in built.problem.values.items():
        t.set(values)
    graph_reset(built.graph)


def run(graph: Graph, loss: Tensor, backend: Backend) -> float:
    backend.graph_compute(graph)
    backend.synchronize()
    return float(loss.numpy().reshape(-1)[0])


def numeric(built: Built, t: Tensor, backend: Backend, step: float) -> np.ndarray:
    values = built.problem.values[t]
    slope = np.zeros(values.size)
    for i in range(values.size):
        for k, weight in FIVE_POINTS.items():
            moved = values.copy().reshape(-1)
            moved[i] += k * step
            t.set(moved)
            slope[i] += weight * run(built.forward, built.loss, backend) / step
    t.set(values)
    return slope


def check_slopes(name: str, backend: Backend) -> None:
    """Gradients of a case against differences of its loss, both computed by `backend`."""
    built = build(name)
    assert missing_kernels(built.graph, backend) == []
    place(built, backend)
    run(built.graph, built.loss, backend)
    grads = {t: built.graph.grads[t].numpy().reshape(-1) for t in built.problem.params}
    f16 = any(t.type == Type.F16 for t in built.graph.nodes)
    step, tolerance = (F16_STEP, F16_TOLERANCE) if f16 else (STEP, TOLERANCE)
    for t, got in grads.items():
        assert built.graph.grads[t].ne == t.ne
        want = numeric(built, t, backend, step)
        assert np.abs(want).max() > 0.01, "a flat case shows nothing"
        error = np.abs(got - want) / np.maximum(1.0, np.abs(want))
        assert error.max() < tolerance, (t.name, got, want)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_the_slope(name: str, backend: Backend) -> None:
    check_slopes(name, backend)


def test_every_rule_has_a_case() -> None:
    seen: set[Op] = set()
    unary, glu = set(), set()
    for name in CASES:
        built = build(name)
        through = [t for t in built.forward.nodes if t in built.graph.grads]
        seen |= {t.op for t in through}
        unary |= {t.unary_op for t in through if t.op == Op.UNARY}
        glu |= {t.glu_op for t in through if t.op == Op.GLU}
    assert seen >= set(gradients.RULES) - {Op.NONE}
    assert unary == set(derivatives.UNARY)
    assert glu == set(derivatives.GLU_ACTS)
