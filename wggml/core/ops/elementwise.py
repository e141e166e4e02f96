"""Arithmetic with broadcasting, element functions with an op of their own, scaling."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import (
    is_padded_1d,
    is_scalar,
    make,
    make_like,
    pack,
    require,
    require_contiguous,
    require_type,
)
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

Strides3 = tuple[int, int, int]


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


def add_cast(ctx: Context, a: Tensor, b: Tensor, type_: Type) -> Tensor:
    """a + b stored as `type_`: `a` is quantised, F16 or BF16; rows of `b` repeat to `a`'s."""
    op = Op.ADD
    ok = a.ne[0] == b.ne[0] and b.can_repeat_to(a)
    require(ok, op, "rows of the second operand must repeat to the first's", a, b)
    ok = TRAITS[a.type].is_quantized or a.type in (Type.F16, Type.BF16)
    require(ok, op, "a sum in another type needs a quantised, F16 or BF16 first operand", a)
    return make(ctx, op, [a, b], type_, a.ne)


def add_id(ctx: Context, a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """a[:, i, j] + b[:, ids[i, j]]: a bias chosen per row.

    a: ne [n, n_used, n_tokens]; b: ne [n, n_expert]; ids: I32 ne [n_used, n_tokens].
    """
    op = Op.ADD_ID
    require(a.ne[0] == b.ne[0], op, "ne[0] must agree", a, b)
    ok = a.ne[1] == ids.ne[0] and a.ne[2] == ids.ne[1]
    require(ok, op, "ids must be [n_used, n_tokens] for a [n, n_used, n_tokens]", a, ids)
    require_type(op, (Type.I32,), ids=ids)
    return make_like(ctx, op, [a, b, ids], a)


def add1(ctx: Context, a: Tensor, b: Tensor, *, inplace: bool = False) -> Tensor:
    """a + b with a `b` of one element; rows of `a` must lie at one distance."""
    op = Op.ADD1
    require(is_scalar(b), op, "the second operand must have one element", a, b)
    require(is_padded_1d(a), op, f"rows must lie at one distance, strides are {list(a.nb)}", a)
    return make_like(ctx, op, [a, b], a, inplace=inplace)


def _region(op: Op, a: Tensor, b: Tensor, nb: Strides3, offset: int) -> None:
    """A block shaped as `b` with those strides must lie inside `a`."""
    size = TRAITS[b.type].type_size
    ends = zip(b.ne, (size, *nb), strict=True)
    end = offset + size + sum((n - 1) * stride for n, stride in ends)
    inside = b.n_elements <= a.n_elements and offset >= 0 and (b.is_empty() or end <= a.nbytes)
    rule = f"a block of b's shape, strides {list(nb)} and offset {offset} must lie inside a"
    require(inside, op, rule, a, b)


def acc(
    ctx: Context, a: Tensor, b: Tensor, nb: Strides3, offset: int, *, inplace: bool = False
) -> Tensor:
    """A copy of `a` (F32, contiguous) with `b` (F32) added to a block of it.

    `nb` are the block's strides of dimensions 1, 2, 3 and `offset` its start, in bytes of `a`.
    """
    op = Op.ACC
    require_type(op, (Type.F32,), a=a, b=b)
    require_contiguous(op, a=a)
    _region(op, a, b, nb, offset)
    return make_like(ctx, op, [a, b], a, pack(*nb, offset, int(inplace)), inplace=inplace)


def set(
    ctx: Context, a: Tensor, b: Tensor, nb: Strides3, offset: int, *, inplace: bool = False
) -> Tensor:
    """A copy of `a` with `b` written over a block of it; see `acc` for `nb` and `offset`.

    The types agree; `offset` is under 2^30.
    """
    op = Op.SET
    require(a.type == b.type, op, "types must agree", a, b)
    _region(op, a, b, nb, offset)
    require(offset < 2**30, op, f"the offset {offset} must be under 2^30", a)
    return make_like(ctx, op, [a, b], a, pack(*nb, offset, int(inplace)), inplace=inplace)


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
    """a * s + b; rows of `a` must lie at one distance."""
    rule = f"rows must lie at one distance, strides are {list(a.nb)}"
    require(is_padded_1d(a), Op.SCALE, rule, a)
    return make_like(ctx, Op.SCALE, [a], a, pack(float(s), float(b)), inplace=inplace)


def clamp(ctx: Context, a: Tensor, lo: float, hi: float, *, inplace: bool = False) -> Tensor:
    """Values limited to [lo, hi]."""
    return make_like(ctx, Op.CLAMP, [a], a, pack(float(lo), float(hi)), inplace=inplace)


def leaky_relu(ctx: Context, a: Tensor, slope: float, *, inplace: bool = False) -> Tensor:
    """x where it is positive, else x * slope."""
    return make_like(ctx, Op.LEAKY_RELU, [a], a, pack(float(slope)), inplace=inplace)


def silu_back(ctx: Context, grad: Tensor, x: Tensor) -> Tensor:
    """Gradient of `silu` at `x`: grad * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    require(grad.same_shape(x), Op.SILU_BACK, "both must have one shape", grad, x)
    return make_like(ctx, Op.SILU_BACK, [grad, x], grad)
