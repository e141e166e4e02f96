"""Shared steps of op constructors."""

from __future__ import annotations

import struct

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.tensor import NO_PARAMS, Shape4, Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import ShapeError

INT32_MAX = 2**31 - 1


def pack(*values: int | float) -> bytes:
    """op_params of up to 16 int32 or float32 (a Python float is stored as its float32 bits).

    Raises `ShapeError` for a value that 32 bits do not hold.
    """
    fmt = "<" + "".join("f" if isinstance(v, float) else "i" for v in values)
    try:
        return struct.pack(fmt, *values).ljust(64, b"\0")
    except (struct.error, OverflowError):
        raise ShapeError(
            f"op parameters {list(values)} do not fit 16 int32 or float32 values; "
            "offsets, strides and sizes stored as parameters must be under 2^31"
        ) from None


def describe(t: Tensor) -> str:
    """Name (or op), type and shape of an operand, for messages."""
    unnamed = "an unnamed tensor" if t.op == Op.NONE else f"an unnamed {t.op.name}"
    return f"{repr(t.name) if t.name else unnamed} (type {t.type.name}, ne {list(t.ne)})"


def require(ok: bool, op: Op, rule: str, *tensors: Tensor | None) -> None:
    """Raise `ShapeError` that names the op, the rule and the operands unless `ok`."""
    if not ok:
        operands = ", ".join(describe(t) for t in tensors if t is not None)
        raise ShapeError(f"{op.name}: {rule}; got {operands or 'no operands'}")


def require_type(op: Op, types: tuple[Type, ...], **tensors: Tensor) -> None:
    """Every named operand must be of one of `types`."""
    for name, t in tensors.items():
        if t.type not in types:
            allowed = " or ".join(x.name for x in types)
            require(False, op, f"{name} must be {allowed}", t)


def require_contiguous(op: Op, **tensors: Tensor) -> None:
    """Every named operand must be contiguous."""
    for name, t in tensors.items():
        if not t.is_contiguous():
            require(False, op, f"{name} must be contiguous, its strides are {list(t.nb)}", t)


def require_shape(op: Op, ne: Shape4, **tensors: Tensor) -> None:
    """Every named operand must have the shape `ne`."""
    for name, t in tensors.items():
        if t.ne != ne:
            require(False, op, f"{name} must have ne {list(ne)}", t)


def require_positive(op: Op, name: str, *values: int) -> None:
    """Sizes, strides and counts that must be at least 1."""
    if min(values) < 1:
        raise ShapeError(f"{op.name}: {name} must be at least 1; got {list(values)}")


def divides(part: int, whole: int) -> bool:
    """True when `whole` is a multiple of `part`; 0 divides only 0."""
    return whole % part == 0 if part else whole == 0


def is_scalar(t: Tensor) -> bool:
    return t.ne == (1, 1, 1, 1)


def is_vector(t: Tensor) -> bool:
    return t.ne[1:] == (1, 1, 1)


def is_matrix(t: Tensor) -> bool:
    return t.ne[2] == 1 and t.ne[3] == 1


def is_padded_1d(t: Tensor) -> bool:
    """True when rows lie at one distance throughout, with or without a gap after each."""
    ne, nb = t.ne, t.nb
    return nb[0] == TRAITS[t.type].type_size and nb[2] == nb[1] * ne[1] and nb[3] == nb[2] * ne[2]


def make(
    ctx: Context,
    op: Op,
    srcs: list[Tensor | None],
    type_: Type,
    ne: Shape4,
    params: bytes = NO_PARAMS,
) -> Tensor:
    """A fresh contiguous result of `op`."""
    t = ctx.new_tensor(type_, ne)
    t.op = op
    t.src = srcs
    t.op_params = params
    return t


def make_like(
    ctx: Context,
    op: Op,
    srcs: list[Tensor | None],
    a: Tensor,
    params: bytes = NO_PARAMS,
    *,
    inplace: bool = False,
) -> Tensor:
    """A result of `op` with the type and shape of `a`; `inplace` makes it a view of `a`."""
    if not inplace:
        return make(ctx, op, srcs, a.type, a.ne, params)
    t = ctx.view_tensor(a)
    t.op = op
    t.src = srcs
    t.op_params = params
    return t
