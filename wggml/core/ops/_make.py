"""Shared steps of op constructors."""

from __future__ import annotations

import struct

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.tensor import NO_PARAMS, Shape4, Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError


def pack(*values: int | float) -> bytes:
    """op_params of up to 16 int32 or float32 (a Python float is stored as its float32 bits)."""
    fmt = "<" + "".join("f" if isinstance(v, float) else "i" for v in values)
    return struct.pack(fmt, *values).ljust(64, b"\0")


def describe(t: Tensor) -> str:
    return f"{t.name or t.op.name!r} (type {t.type.name}, ne {list(t.ne)})"


def require(ok: bool, op: Op, rule: str, *tensors: Tensor | None) -> None:
    """Raise `ShapeError` that names the op, the rule and the operands unless `ok`."""
    if not ok:
        operands = ", ".join(describe(t) for t in tensors if t is not None)
        raise ShapeError(f"{op.name}: {rule}; got {operands}")


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
