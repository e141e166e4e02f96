"""What the operators of `Tensor` mean, in terms of the op constructors.

Shapes read as NumPy's: `a @ b` of (m, k) and (k, n) is (m, n); ggml's `mul_mat` wants both
operands with k innermost, so `b` is transposed in memory first unless it came from `.T`.
"""

from __future__ import annotations

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import Op, UnaryOp
from wggml.core.tensor import Tensor
from wggml.errors import ShapeError


def _ctx(*tensors: Tensor) -> Context:
    for t in tensors:
        if t.ctx is not None:
            return t.ctx
    raise ShapeError("these tensors belong to no context; make them with Context.new_tensor")


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` as NumPy would: inner sizes must agree (`ShapeError`)."""
    ctx = _ctx(a, b)
    if b.op == Op.TRANSPOSE and b.src[0] is not None:
        weights = b.src[0]
    else:
        weights = ops.cont(ctx, ops.transpose(ctx, b))
    return ops.mul_mat(ctx, weights, a)


def add(a: Tensor, b: Tensor | float) -> Tensor:
    if isinstance(b, Tensor):
        return ops.add(_ctx(a, b), *_larger_first(a, b))
    return ops.scale_bias(_ctx(a), a, 1.0, float(b))


def sub(a: Tensor, b: Tensor | float) -> Tensor:
    if isinstance(b, Tensor):
        return ops.sub(_ctx(a, b), a, b)
    return ops.scale_bias(_ctx(a), a, 1.0, -float(b))


def mul(a: Tensor, b: Tensor | float) -> Tensor:
    if isinstance(b, Tensor):
        return ops.mul(_ctx(a, b), *_larger_first(a, b))
    return ops.scale(_ctx(a), a, float(b))


def div(a: Tensor, b: Tensor | float) -> Tensor:
    if isinstance(b, Tensor):
        return ops.div(_ctx(a, b), a, b)
    return ops.scale(_ctx(a), a, 1.0 / float(b))


def neg(a: Tensor) -> Tensor:
    return ops.unary(_ctx(a), a, UnaryOp.NEG)


def total(a: Tensor) -> Tensor:
    """The sum of all elements, in whatever order they lie."""
    return ops.sum_all(_ctx(a), a)


def transposed(a: Tensor) -> Tensor:
    return ops.transpose(_ctx(a), a)


def _larger_first(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """ggml broadcasts the second operand only; sums and products commute."""
    return (a, b) if b.can_repeat_to(a) else (b, a)
