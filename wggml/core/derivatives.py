"""Derivatives of unary functions, as nodes: the part of `gradients` that knows no graph."""

from __future__ import annotations

from collections.abc import Callable

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import GluOp, UnaryOp
from wggml.core.tensor import Tensor

# (context, x, f(x), gradient of f(x)) -> gradient of x
Derivative = Callable[[Context, Tensor, Tensor, Tensor], Tensor]

# The constants of ggml's gelu and gelu_quick.
SQRT_2_OVER_PI = 0.79788456080286535588
GELU_CUBIC = 0.044715
QUICK = 1.702


def within(ctx: Context, x: Tensor, lo: float, hi: float) -> Tensor:
    """1 where lo < x < hi, else 0; rows of `x` must lie at one distance."""
    above = ops.step(ctx, ops.scale_bias(ctx, x, 1.0, -lo))
    below = ops.step(ctx, ops.scale_bias(ctx, x, -1.0, hi))
    return ops.mul(ctx, above, below)


def _sigmoid(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    return ops.mul(ctx, grad, ops.mul(ctx, y, ops.scale_bias(ctx, y, -1.0, 1.0)))


def _tanh(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    return ops.mul(ctx, grad, ops.scale_bias(ctx, ops.sqr(ctx, y), -1.0, 1.0))


def _elu(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    # below 0 the slope exp(x) is y + 1; min(y, 0) + 1 is 1 above
    slope = ops.scale_bias(ctx, ops.clamp(ctx, y, -1.0, 0.0), 1.0, 1.0)
    return ops.mul(ctx, grad, slope)


def _gelu(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    # x/2 (1 + tanh u) is x s with s = sigmoid(2 u), u = c x (1 + k x^2); the slope is
    # s + x s (1 - s) 2 u' with x u' = c x (1 + 3 k x^2)
    c, k = SQRT_2_OVER_PI, GELU_CUBIC
    square = ops.sqr(ctx, x)
    s = ops.sigmoid(ctx, ops.mul(ctx, ops.scale_bias(ctx, square, 2 * c * k, 2 * c), x))
    x_du = ops.mul(ctx, ops.scale_bias(ctx, square, 6 * c * k, 2 * c), x)
    rest = ops.mul(ctx, ops.scale_bias(ctx, s, -1.0, 1.0), x_du)
    slope = ops.mul(ctx, s, ops.scale_bias(ctx, rest, 1.0, 1.0))
    return ops.mul(ctx, grad, slope)


def _gelu_quick(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    # x sigmoid(a x) = silu(a x) / a
    return ops.silu_back(ctx, grad, ops.scale(ctx, x, QUICK))


def _hardsigmoid(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    return ops.mul(ctx, grad, ops.scale(ctx, within(ctx, x, -3.0, 3.0), 1.0 / 6.0))


def _hardswish(ctx: Context, x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
    middle = ops.mul(ctx, within(ctx, x, -3.0, 3.0), ops.scale_bias(ctx, x, 1.0 / 3.0, 0.5))
    above = ops.step(ctx, ops.scale_bias(ctx, x, 1.0, -3.0))
    return ops.mul(ctx, grad, ops.add(ctx, middle, above))


UNARY: dict[UnaryOp, Derivative] = {
    UnaryOp.ABS: lambda ctx, x, y, g: ops.mul(ctx, ops.sgn(ctx, x), g),
    UnaryOp.NEG: lambda ctx, x, y, g: ops.neg(ctx, g),
    UnaryOp.RELU: lambda ctx, x, y, g: ops.mul(ctx, ops.step(ctx, x), g),
    UnaryOp.SILU: lambda ctx, x, y, g: ops.silu_back(ctx, g, x),
    UnaryOp.EXP: lambda ctx, x, y, g: ops.mul(ctx, y, g),
    UnaryOp.EXPM1: lambda ctx, x, y, g: ops.mul(ctx, g, ops.exp(ctx, x)),
    UnaryOp.SOFTPLUS: lambda ctx, x, y, g: ops.mul(ctx, g, ops.sigmoid(ctx, x)),
    UnaryOp.SIGMOID: _sigmoid,
    UnaryOp.TANH: _tanh,
    UnaryOp.ELU: _elu,
    UnaryOp.GELU: _gelu,
    UnaryOp.GELU_QUICK: _gelu_quick,
    UnaryOp.HARDSIGMOID: _hardsigmoid,
    UnaryOp.HARDSWISH: _hardswish,
}

# Piecewise constant: no gradient passes.
FLAT_UNARY = frozenset(
    {UnaryOp.SGN, UnaryOp.STEP, UnaryOp.FLOOR, UnaryOp.CEIL, UnaryOp.ROUND, UnaryOp.TRUNC}
)

# What gated units do to their gate. These derivatives must not use f(x), which is not at hand.
GLU_ACTS: dict[GluOp, UnaryOp] = {
    GluOp.REGLU: UnaryOp.RELU,
    GluOp.GEGLU: UnaryOp.GELU,
    GluOp.SWIGLU: UnaryOp.SILU,
    GluOp.GEGLU_QUICK: UnaryOp.GELU_QUICK,
}
