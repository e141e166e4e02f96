"""Unary functions (`Op.UNARY`), named one by one."""

from __future__ import annotations

import numpy as np

from wggml.core.context import Context
from wggml.core.opcodes import Op, UnaryOp
from wggml.core.ops._make import make_like, pack, require
from wggml.core.tensor import Tensor


def unary(ctx: Context, a: Tensor, op: UnaryOp, *, inplace: bool = False) -> Tensor:
    """Apply a `UnaryOp`; rows of `a` must be contiguous. `xielu` has parameters of its own."""
    require(a.is_contiguous_rows(), Op.UNARY, "rows must be contiguous", a)
    return make_like(ctx, Op.UNARY, [a], a, pack(int(op)), inplace=inplace)


def abs(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Absolute value."""
    return unary(ctx, a, UnaryOp.ABS, inplace=inplace)


def sgn(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """-1, 0 or 1."""
    return unary(ctx, a, UnaryOp.SGN, inplace=inplace)


def neg(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """-x."""
    return unary(ctx, a, UnaryOp.NEG, inplace=inplace)


def step(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """1 where x > 0, else 0."""
    return unary(ctx, a, UnaryOp.STEP, inplace=inplace)


def tanh(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Hyperbolic tangent."""
    return unary(ctx, a, UnaryOp.TANH, inplace=inplace)


def elu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """x where it is positive, else exp(x) - 1."""
    return unary(ctx, a, UnaryOp.ELU, inplace=inplace)


def relu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return unary(ctx, a, UnaryOp.RELU, inplace=inplace)


def sigmoid(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """1 / (1 + exp(-x))."""
    return unary(ctx, a, UnaryOp.SIGMOID, inplace=inplace)


def gelu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Tanh approximation of GELU."""
    return unary(ctx, a, UnaryOp.GELU, inplace=inplace)


def gelu_erf(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """GELU by the error function."""
    return unary(ctx, a, UnaryOp.GELU_ERF, inplace=inplace)


def gelu_quick(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """x * sigmoid(1.702 x)."""
    return unary(ctx, a, UnaryOp.GELU_QUICK, inplace=inplace)


def silu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return unary(ctx, a, UnaryOp.SILU, inplace=inplace)


def hardswish(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """x * min(max((x + 3) / 6, 0), 1)."""
    return unary(ctx, a, UnaryOp.HARDSWISH, inplace=inplace)


def hardsigmoid(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """min(max((x + 3) / 6, 0), 1)."""
    return unary(ctx, a, UnaryOp.HARDSIGMOID, inplace=inplace)


def exp(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """e to the power x."""
    return unary(ctx, a, UnaryOp.EXP, inplace=inplace)


def expm1(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """exp(x) - 1, exact near 0."""
    return unary(ctx, a, UnaryOp.EXPM1, inplace=inplace)


def softplus(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """log(1 + exp(x))."""
    return unary(ctx, a, UnaryOp.SOFTPLUS, inplace=inplace)


def floor(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Largest integer not above x."""
    return unary(ctx, a, UnaryOp.FLOOR, inplace=inplace)


def ceil(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Smallest integer not below x."""
    return unary(ctx, a, UnaryOp.CEIL, inplace=inplace)


def round(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Nearest integer, halves away from zero."""
    return unary(ctx, a, UnaryOp.ROUND, inplace=inplace)


def trunc(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """The integer part of x."""
    return unary(ctx, a, UnaryOp.TRUNC, inplace=inplace)


def xielu(
    ctx: Context, a: Tensor, alpha_n: float, alpha_p: float, beta: float, eps: float
) -> Tensor:
    """xIELU: softplus(alpha_p) x^2 + beta x where x is positive, else
    (expm1(min(x, eps)) - x) (beta + softplus(alpha_n)) + beta x.

    The node stores the sums with softplus, not the alphas, in float32 arithmetic.
    """
    alpha_sum = np.float32(beta) + _softplus_f32(alpha_n)
    params = pack(
        int(UnaryOp.XIELU), float(alpha_sum), float(_softplus_f32(alpha_p)), float(beta), float(eps)
    )
    return make_like(ctx, Op.UNARY, [a], a, params)


def _softplus_f32(x: float) -> np.float32:
    """log(1 + exp(x)) in float32; above 20 it is x, as ggml cuts it."""
    v = np.float32(x)
    return v if v > 20 else np.log(np.float32(1) + np.exp(v))
