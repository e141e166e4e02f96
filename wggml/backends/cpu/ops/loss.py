"""Loss and optimiser steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, reduce_sum
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def _log_softmax(x: F32) -> F32:
    shifted = x - x.max(axis=-1, keepdims=True)
    result: F32 = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _cross_entropy(c: Compiler, node: Tensor) -> None:
    """-mean over rows of sum(labels * log softmax(logits))"""
    logits, labels = node.src[0], node.src[1]
    assert logits is not None and labels is not None
    x, p, y = c.load(logits), c.load(labels), c.out(node).reshape(-1)
    rows = logits.n_rows

    def run() -> None:
        y[0] = -reduce_sum(_log_softmax(x) * p, None) / rows

    c.emit(run)


def _cross_entropy_back(c: Compiler, node: Tensor) -> None:
    """(softmax(logits) - labels) * gradient / rows"""
    grad, logits, labels = node.src[:3]
    assert grad is not None and logits is not None and labels is not None
    g, x, p, y = c.load(grad).reshape(-1), c.load(logits), c.load(labels), c.out(node)
    rows = np.float32(logits.n_rows)
    c.emit(lambda: np.multiply(np.exp(_log_softmax(x)) - p, g[0] / rows, y))


def _adamw(c: Compiler, node: Tensor) -> None:
    """AdamW (arXiv:1711.05101); parameters: alpha, beta1, beta2, eps, weight decay and the bias
    corrections 1/(1-beta1^t), 1/(1-beta2^t). Updates weight and both momenta in place."""
    weight, grad, first, second, params = node.src[:5]
    assert weight is not None and grad is not None and params is not None
    assert first is not None and second is not None
    w, g, m, v = (c.array(t) for t in (weight, grad, first, second))
    settings = c.array(params).reshape(-1)

    def run() -> None:
        alpha, beta1, beta2, eps, decay, correct1, correct2 = settings
        m[...] = m * beta1 + g * (1 - beta1)
        v[...] = v * beta2 + g * g * (1 - beta2)
        step = alpha * (m * correct1) / (np.sqrt(v * correct2) + eps)
        w[...] = w * (1 - alpha * decay) - step

    c.emit(run)


def _sgd(c: Compiler, node: Tensor) -> None:
    """w = w (1 - alpha * weight decay) - alpha g, in place"""
    weight, grad, params = node.src[:3]
    assert weight is not None and grad is not None and params is not None
    w, g, settings = c.array(weight), c.array(grad), c.array(params).reshape(-1)

    def run() -> None:
        alpha, decay = settings
        w[...] = w * (1 - alpha * decay) - alpha * g

    c.emit(run)


OPS: dict[Op, OpImpl] = {
    Op.CROSS_ENTROPY_LOSS: OpImpl(_cross_entropy, F32_ONLY),
    Op.CROSS_ENTROPY_LOSS_BACK: OpImpl(_cross_entropy_back, F32_ONLY),
    Op.OPT_STEP_ADAMW: OpImpl(_adamw, F32_ONLY),
    Op.OPT_STEP_SGD: OpImpl(_sgd, F32_ONLY),
}
