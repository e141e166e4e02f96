"""Gradients of single ops. In each the first source is the gradient that arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, reduce_sum, squeezed
from wggml.backends.cpu.functions import ONE, emit_sigmoid_denominator
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl, floats
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def _operands(c: Compiler, node: Tensor) -> tuple[F32, F32, F32]:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    return c.load(a), c.load(b), c.out(node)


def _silu_back(c: Compiler, node: Tensor) -> None:
    """dx = dy s (1 + x (1 - s)), s = sigmoid(x)"""
    dy, x, dx = squeezed(*_operands(c, node))
    s, t = c.scratch(x.shape), c.scratch(x.shape)
    emit_sigmoid_denominator(c, x, s)
    c.emit(np.divide, ONE, s, s)
    c.emit(np.subtract, ONE, s, t)
    c.emit(np.multiply, t, x, t)
    c.emit(np.add, t, ONE, t)
    c.emit(np.multiply, t, s, t)
    c.emit(np.multiply, t, dy, dx)


def _row_dots(c: Compiler, a: F32, b: F32) -> F32:
    dots: F32 = c.scratch((*a.shape[:-1], 1))
    product = c.scratch(a.shape)
    c.emit(np.multiply, a, b, product)
    c.emit(reduce_sum, product, -1, None, dots, True)
    return dots


def _rms_norm_back(c: Compiler, node: Tensor) -> None:
    """dx = (dz - x sum(x dz) / (sum(x^2) + n eps)) / sqrt(mean(x^2) + eps)"""
    dz, x, dx = _operands(c, node)
    n, eps = np.float32(x.shape[-1]), np.float32(node.param_f32(0))
    along, energy = _row_dots(c, x, dz), _row_dots(c, x, x)
    c.emit(np.add, energy, n * eps, energy)
    c.emit(np.divide, along, energy, along)
    t = c.scratch(x.shape)
    c.emit(np.multiply, x, along, t)
    c.emit(np.subtract, dz, t, t)
    c.emit(np.divide, energy, n, energy)
    c.emit(np.sqrt, energy, energy)
    c.emit(np.divide, t, energy, dx)


def _soft_max_back(c: Compiler, node: Tensor) -> None:
    """dx = scale y (dy - sum(y dy)), y the softmax"""
    dy, y, dx = _operands(c, node)
    dots, t = _row_dots(c, y, dy), c.scratch(y.shape)
    c.emit(np.subtract, dy, dots, t)
    c.emit(np.multiply, t, y, t)
    c.emit(np.multiply, t, np.float32(node.param_f32(0)), dx)


OPS: dict[Op, OpImpl] = {
    Op.SILU_BACK: OpImpl(_silu_back, floats),
    Op.RMS_NORM_BACK: OpImpl(_rms_norm_back, F32_ONLY),
    Op.SOFT_MAX_BACK: OpImpl(_soft_max_back, F32_ONLY),
}
