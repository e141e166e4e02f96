"""Reductions."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import make
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def sum_all(ctx: Context, a: Tensor) -> Tensor:
    """Sum of all elements, ne [1]."""
    return make(ctx, Op.SUM, [a], a.type, (1, 1, 1, 1))


def sum_rows(ctx: Context, a: Tensor) -> Tensor:
    """Sum over ne[0], which becomes 1."""
    return make(ctx, Op.SUM_ROWS, [a], a.type, (1, a.ne[1], a.ne[2], a.ne[3]))


def mean(ctx: Context, a: Tensor) -> Tensor:
    """Mean over ne[0], which becomes 1; F32."""
    return make(ctx, Op.MEAN, [a], Type.F32, (1, a.ne[1], a.ne[2], a.ne[3]))


def argmax(ctx: Context, a: Tensor) -> Tensor:
    """Index of the largest value of each row of a matrix; I32, ne [rows]."""
    return make(ctx, Op.ARGMAX, [a], Type.I32, (a.ne[1], 1, 1, 1))
