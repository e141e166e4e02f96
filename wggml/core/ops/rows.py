"""Reading and writing rows by index."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import divides, is_matrix, is_vector, make, require
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def get_rows(ctx: Context, a: Tensor, ids: Tensor) -> Tensor:
    """Rows of `a` (any type) in the order of `ids` (I32).

    a: ne [n, rows, p, q]; ids: ne [r, p, q]. Result: F32 (I32 for I32 input), ne [n, r, p, q].
    """
    op = Op.GET_ROWS
    ok = a.ne[2] == ids.ne[1] and a.ne[3] == ids.ne[2] and ids.ne[3] == 1
    require(ok, op, "ids must be [r, ne2, ne3] for rows [n, rows, ne2, ne3]", a, ids)
    require(ids.type == Type.I32, op, "ids must be I32", a, ids)
    out = Type.I32 if a.type == Type.I32 else Type.F32
    return make(ctx, op, [a, ids], out, (a.ne[0], ids.ne[0], ids.ne[1], ids.ne[2]))


def get_rows_back(ctx: Context, grad: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    """Gradient of `get_rows`: rows of `grad` added up at the indices they were read from.

    grad: ne [n, r]; ids: I32 ne [r]; like: ne [n, rows], only its shape counts. Result: F32, ne
    [n, rows].
    """
    op = Op.GET_ROWS_BACK
    ok = is_matrix(grad) and is_vector(ids) and ids.type == Type.I32
    require(ok, op, "grad must be a matrix and ids an I32 vector", grad, ids)
    require(is_matrix(like) and like.ne[0] == grad.ne[0], op, "row lengths must agree", grad, like)
    return make(ctx, op, [grad, ids], Type.F32, (like.ne[0], like.ne[1], 1, 1))


def set_rows(ctx: Context, a: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Write `rows` (F32 or F16) into `a` (any type) at the indices `ids` (I64 or I32).

    a: ne [n, N, p, q]; rows: ne [n, r, P, Q]; ids: ne [r, x, y] with P % x == 0, Q % y == 0.
    The result is a view of `a`.
    """
    op = Op.SET_ROWS
    ok = (
        a.ne[0] == rows.ne[0] and a.ne[2] == rows.ne[2] and a.ne[3] == rows.ne[3]
        and rows.ne[1] == ids.ne[0] and divides(ids.ne[1], rows.ne[2])
        and divides(ids.ne[2], rows.ne[3]) and ids.ne[3] == 1
    )  # fmt: skip
    require(ok, op, "shapes must be a [n, N, p, q], rows [n, r, p, q], ids [r, ...]", a, rows, ids)
    require(rows.type in (Type.F32, Type.F16), op, "rows must be F32 or F16", rows)
    require(ids.type in (Type.I64, Type.I32), op, "ids must be I64 or I32", ids)
    contiguous = a.is_contiguous_rows() and rows.is_contiguous_rows()
    require(contiguous, op, "rows must be contiguous", a, rows)
    t = ctx.view_tensor(a)
    t.op = op
    t.src = [rows, ids, a]
    return t
