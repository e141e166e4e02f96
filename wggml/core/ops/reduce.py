"""Reductions and running sums."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import INT32_MAX, is_matrix, make, make_like, require, require_type
from wggml.core.ops.shape import cont
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def sum(ctx: Context, a: Tensor) -> Tensor:
    """ggml's SUM, ne [1]: the sum of all elements of a tensor whose rows are contiguous.

    Otherwise, as in ggml, the sum of other numbers: of each row the first element and the ne[0] - 1
    that follow it in memory, whatever nb[0] is. `sum_all` is right for every layout.
    """
    return make(ctx, Op.SUM, [a], a.type, (1, 1, 1, 1))


def sum_all(ctx: Context, a: Tensor) -> Tensor:
    """Sum of all elements, ne [1]; a tensor whose rows are not contiguous is copied first."""
    return sum(ctx, a if a.is_contiguous_rows() else cont(ctx, a))


def sum_rows(ctx: Context, a: Tensor) -> Tensor:
    """Sum over ne[0], which becomes 1."""
    return make(ctx, Op.SUM_ROWS, [a], a.type, (1, a.ne[1], a.ne[2], a.ne[3]))


def cumsum(ctx: Context, a: Tensor) -> Tensor:
    """Running sum along ne[0] of an F32 tensor."""
    require_type(Op.CUMSUM, (Type.F32,), a=a)
    return make_like(ctx, Op.CUMSUM, [a], a)


def mean(ctx: Context, a: Tensor) -> Tensor:
    """Mean over ne[0], which becomes 1; F32."""
    return make(ctx, Op.MEAN, [a], Type.F32, (1, a.ne[1], a.ne[2], a.ne[3]))


def argmax(ctx: Context, a: Tensor) -> Tensor:
    """Index of the largest value of each row of a matrix; I32, ne [rows]."""
    require(is_matrix(a), Op.ARGMAX, "the operand must be a matrix", a)
    require(a.ne[0] <= INT32_MAX, Op.ARGMAX, "indices must fit int32", a)
    return make(ctx, Op.ARGMAX, [a], Type.I32, (a.ne[1], 1, 1, 1))


def count_equal(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """How many elements of two tensors of one shape are equal; I64, ne [1]."""
    require(a.same_shape(b), Op.COUNT_EQUAL, "both must have one shape", a, b)
    return make(ctx, Op.COUNT_EQUAL, [a, b], Type.I64, (1, 1, 1, 1))
