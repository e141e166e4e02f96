"""Gradients of small problems against finite differences of what a backend computes forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.backward import build_backward_expand, graph_reset
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Backend, BufferUsage
from wggml.testing.capture import op_display_name
from wggml.testing.gradient_cases import CASES, Problem
from wggml.testing.opdata import is_real

STEP = 2.0**-6  # of finite differences, on values of order 1
# A difference over five points errs by STEP^4 / 30 times the fifth derivative (some 1e-8), and by
# float32 sums (some 1e-6 / STEP). F16 on the way rounds to 2^-11, so its steps are larger.
TOLERANCE = 2e-4
FIVE_POINTS = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
F16_STEP, F16_TOLERANCE = 2.0**-3, 2e-2
FLAT = 0.01  # no slope above this: the case shows nothing

Values = npt.NDArray[np.float64]


@dataclass(slots=True)
class Built:
    """A problem with a loss, the graph of the loss and the one with the gradients behind it."""

    problem: Problem
    loss: Tensor
    forward: Graph
    graph: Graph

    def ops(self) -> set[str]:
        """Display names of the ops that the gradient runs through."""
        return {op_display_name(t) for t in self.forward.nodes
                if t in self.graph.grads and t.op != Op.NONE}  # fmt: skip


def build(case: Callable[[Problem], Tensor]) -> Built:
    """The loss is the result's values summed with random weights."""
    p = Problem()
    out = case(p)
    loss = ops.sum(p.ctx, ops.mul(p.ctx, out, p.constant(*out.ne))).set_loss()
    forward, graph = Graph(), Graph()
    forward.build_forward_expand(loss)
    graph.build_forward_expand(loss)
    build_backward_expand(p.ctx, graph)
    return Built(p, loss, forward, graph)


@dataclass(frozen=True, slots=True)
class Slope:
    """The verdict on one problem: `error` is the largest difference between a gradient and the
    slope, relative to slopes above 1; `reason` says why it failed or is not supported."""

    name: str
    status: str
    error: float = 0.0
    tolerance: float = TOLERANCE
    reason: str = ""


def check_slope(name: str, backend: Backend) -> Slope:
    """Compare the gradients of `CASES[name]` with differences of its loss, both by `backend`."""
    built = build(CASES[name])
    buffers = alloc_ctx_tensors(
        built.problem.ctx, backend.buffer_type(), BufferUsage.COMPUTE
    )  # each tensor in memory of its own, so that nothing is overwritten
    try:
        for node in built.graph.nodes:
            if is_real(node) and not backend.supports_op(node):
                why = backend.device.why_not(node) or "not supported"
                return Slope(name, "unsupported", reason=f"{node.op.name}: {why}")
        return _judge(name, built, backend)
    finally:
        for b in buffers:
            b.free()


def _judge(name: str, built: Built, backend: Backend) -> Slope:
    for t, values in built.problem.values.items():
        t.set(values)
    graph_reset(built.graph)
    _loss(built.graph, built.loss, backend)
    grads = {t: built.graph.grads[t] for t in built.problem.params}
    found = {t: g.numpy().reshape(-1).astype(np.float64) for t, g in grads.items()}
    f16 = any(t.type == Type.F16 for t in built.graph.nodes)
    step, tolerance = (F16_STEP, F16_TOLERANCE) if f16 else (STEP, TOLERANCE)
    worst = 0.0
    for t, got in found.items():
        if grads[t].ne != t.ne:
            reason = f"{t.name}: gradient of ne {list(grads[t].ne)} for a tensor of {list(t.ne)}"
            return Slope(name, "fail", float("inf"), tolerance, reason)
        want = _numeric(built, t, backend, step)
        if not np.abs(want).max() > FLAT:
            return Slope(name, "fail", 0.0, tolerance, f"{t.name}: flat, so it shows nothing")
        errors = np.abs(got - want) / np.maximum(1.0, np.abs(want))
        at = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        worst = max(worst, float(errors[at]))
        if not errors[at] < tolerance:
            reason = f"{t.name}[{at}]: gradient {got[at]:.6g}, slope {want[at]:.6g}"
            return Slope(name, "fail", float(errors[at]), tolerance, reason)
    return Slope(name, "pass", worst, tolerance)


def _loss(graph: Graph, loss: Tensor, backend: Backend) -> float:
    backend.graph_compute(graph)
    backend.synchronize()
    return float(loss.numpy().reshape(-1)[0])


def _numeric(built: Built, t: Tensor, backend: Backend, step: float) -> Values:
    values = built.problem.values[t]
    slope = np.zeros(values.size)
    for i in range(values.size):
        for k, weight in FIVE_POINTS.items():
            moved = values.copy().reshape(-1)
            moved[i] += k * step
            t.set(moved)
            slope[i] += weight * _loss(built.forward, built.loss, backend) / step
    t.set(values)
    return slope
