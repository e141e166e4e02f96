"""Elementwise ops: arithmetic with broadcasting, unary functions, gated units, scaling."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import GluOp, Op, UnaryOp
from wggml.core.ops._make import make, make_like, pack, require
from wggml.core.tensor import Tensor


def _binary(ctx: Context, op: Op, a: Tensor, b: Tensor, inplace: bool) -> Tensor:
    require(b.can_repeat_to(a), op, "the second operand must repeat to the first", a, b)
    return make_like(ctx, op, [a, b], a, inplace=inplace)


def add(ctx: Context, a: Tensor, b: Tensor, *, inplace: bool = False) -> Tensor:
    """a + b; every size of `a` is a multiple of `b`'s, and `b` repeats."""
    return _binary(ctx, Op.ADD, a, b, inplace)


def sub(ctx: Context, a: Tensor, b: Tensor, *, inplace: bool = False) -> Tensor:
    """a - b, `b` repeats to `a`."""
    return _binary(ctx, Op.SUB, a, b, inplace)


def mul(ctx: Context, a: Tensor, b: Tensor, *, inplace: bool = False) -> Tensor:
    """a * b elementwise, `b` repeats to `a`."""
    return _binary(ctx, Op.MUL, a, b, inplace)


def div(ctx: Context, a: Tensor, b: Tensor, *, inplace: bool = False) -> Tensor:
    """a / b, `b` repeats to `a`."""
    return _binary(ctx, Op.DIV, a, b, inplace)


def _simple(ctx: Context, op: Op, a: Tensor, inplace: bool) -> Tensor:
    return make_like(ctx, op, [a], a, inplace=inplace)


def sqr(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """a squared."""
    return _simple(ctx, Op.SQR, a, inplace)


def sqrt(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Square root."""
    return _simple(ctx, Op.SQRT, a, inplace)


def log(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Natural logarithm."""
    return _simple(ctx, Op.LOG, a, inplace)


def sin(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Sine of radians."""
    return _simple(ctx, Op.SIN, a, inplace)


def cos(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Cosine of radians."""
    return _simple(ctx, Op.COS, a, inplace)


def scale(ctx: Context, a: Tensor, s: float, *, inplace: bool = False) -> Tensor:
    """a * s."""
    return scale_bias(ctx, a, s, 0.0, inplace=inplace)


def scale_bias(ctx: Context, a: Tensor, s: float, b: float, *, inplace: bool = False) -> Tensor:
    """a * s + b."""
    return make_like(ctx, Op.SCALE, [a], a, pack(float(s), float(b)), inplace=inplace)


def clamp(ctx: Context, a: Tensor, lo: float, hi: float) -> Tensor:
    """Values limited to [lo, hi], in place (a view of `a`), as ggml defines it."""
    return make_like(ctx, Op.CLAMP, [a], a, pack(float(lo), float(hi)), inplace=True)


def unary(ctx: Context, a: Tensor, op: UnaryOp, *, inplace: bool = False) -> Tensor:
    """Apply a `UnaryOp`; rows of `a` must be contiguous."""
    require(a.is_contiguous_rows(), Op.UNARY, "rows must be contiguous", a)
    return make_like(ctx, Op.UNARY, [a], a, pack(int(op)), inplace=inplace)


def silu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return unary(ctx, a, UnaryOp.SILU, inplace=inplace)


def gelu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Tanh approximation of GELU."""
    return unary(ctx, a, UnaryOp.GELU, inplace=inplace)


def relu(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return unary(ctx, a, UnaryOp.RELU, inplace=inplace)


def tanh(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """Hyperbolic tangent."""
    return unary(ctx, a, UnaryOp.TANH, inplace=inplace)


def sigmoid(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """1 / (1 + exp(-x))."""
    return unary(ctx, a, UnaryOp.SIGMOID, inplace=inplace)


def glu(ctx: Context, a: Tensor, op: GluOp, *, swapped: bool = False) -> Tensor:
    """Gated unit over the halves of each row: act(first) * second; `swapped` exchanges them.

    Shape: ne[0] halves.
    """
    require(a.is_contiguous(1), Op.GLU, "the operand must be contiguous from dimension 1 on", a)
    ne = (a.ne[0] // 2, a.ne[1], a.ne[2], a.ne[3])
    return make(ctx, Op.GLU, [a, None], a.type, ne, pack(int(op), int(swapped)))


def glu_split(ctx: Context, gate: Tensor, up: Tensor, op: GluOp) -> Tensor:
    """Gated unit act(gate) * up of two tensors of one shape and type."""
    same = gate.same_shape(up) and gate.type == up.type
    require(same, Op.GLU, "gate and up must have one shape and type", gate, up)
    require(
        gate.is_contiguous(1) and up.is_contiguous(1),
        Op.GLU, "operands must be contiguous from dimension 1 on", gate, up,
    )  # fmt: skip
    return make(ctx, Op.GLU, [gate, up], gate.type, gate.ne, pack(int(op), 0))
