"""Matrix products and triangular systems."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op, OpHint, Prec
from wggml.core.ops._make import divides, make, pack, require, require_contiguous, require_type
from wggml.core.tensor import NO_PARAMS, Tensor
from wggml.core.types import Type


def _params(prec: Prec, hint: OpHint, src1_prec: Prec) -> bytes:
    if prec or hint or src1_prec:
        return pack(int(prec), int(hint), 0, int(src1_prec))
    return NO_PARAMS


def mul_mat(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    *,
    prec: Prec = Prec.UNDEFINED,
    src1_prec: Prec = Prec.UNDEFINED,
    hint: OpHint = OpHint.NONE,
) -> Tensor:
    """Rows of `b` times rows of `a`: result[n, m] = sum over k of a[k, m] * b[k, n].

    a: ne [k, m, p, q], any type; b: ne [k, n, P, Q] with P, Q multiples of p, q.
    Result: F32, ne [m, n, P, Q]. `prec` asks for a precision of sums, `src1_prec` of `b`'s values.
    """
    ok = a.ne[0] == b.ne[0] and divides(a.ne[2], b.ne[2]) and divides(a.ne[3], b.ne[3])
    require(ok, Op.MUL_MAT, "ne[0] must agree and ne[2], ne[3] of b be multiples of a's", a, b)
    require(not a.is_transposed(), Op.MUL_MAT, "the first operand must not be transposed", a, b)
    ne = (a.ne[1], b.ne[1], b.ne[2], b.ne[3])
    return make(ctx, Op.MUL_MAT, [a, b], Type.F32, ne, _params(prec, hint, src1_prec))


def mul_mat_id(
    ctx: Context,
    experts: Tensor,
    b: Tensor,
    ids: Tensor,
    *,
    prec: Prec = Prec.UNDEFINED,
    src1_prec: Prec = Prec.UNDEFINED,
) -> Tensor:
    """`mul_mat` with a matrix chosen per row.

    experts: ne [k, m, n_expert]; b: ne [k, n_used or 1, n_tokens]; ids: I32 ne [n_used, n_tokens].
    Result: F32, ne [m, n_used, n_tokens].
    """
    op = Op.MUL_MAT_ID
    require(ids.type == Type.I32, op, "ids must be I32", experts, b, ids)
    require(experts.ne[3] == 1 and b.ne[3] == 1, op, "operands have at most 3 sizes", experts, b)
    ok = (
        ids.ne[2] == 1 and ids.ne[3] == 1 and ids.ne[1] == b.ne[2]
        and experts.ne[0] == b.ne[0] and divides(b.ne[1], ids.ne[0])
    )  # fmt: skip
    require(ok, op, "ids must be [n_used, n_tokens] for b [k, n_used or 1, n_tokens]", b, ids)
    require(not experts.is_transposed(), op, "experts must not be transposed", experts)
    ne = (experts.ne[1], ids.ne[0], b.ne[2], 1)
    params = _params(prec, OpHint.NONE, src1_prec)
    return make(ctx, op, [experts, b, ids], Type.F32, ne, params)


def out_prod(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Sum of outer products: result[m, n] = sum over k of a[m, k] * b[n, k].

    a: ne [m, k, p, q]; b: ne [n, k, P, Q] with P, Q multiples of p, q. Result: F32, ne
    [m, n, P, Q].
    """
    ok = a.ne[1] == b.ne[1] and divides(a.ne[2], b.ne[2]) and divides(a.ne[3], b.ne[3])
    require(ok, Op.OUT_PROD, "ne[1] must agree and ne[2], ne[3] of b be multiples of a's", a, b)
    require(not a.is_transposed(), Op.OUT_PROD, "the first operand must not be transposed", a, b)
    return make(ctx, Op.OUT_PROD, [a, b], Type.F32, (a.ne[0], b.ne[0], b.ne[2], b.ne[3]))


def solve_tri(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """X with A X = B for lower triangular A, the diagonal included.

    a: F32, ne [n, n, p, q]; b: F32, ne [m, n, p, q], row i of B in b's row i. Result: as b.
    ggml's other variants (upper, from the right, unit diagonal) do not exist there either.
    """
    op = Op.SOLVE_TRI
    require_type(op, (Type.F32,), a=a, b=b)
    require(a.ne[0] == a.ne[1], op, "the matrices of a must be square", a)
    require(a.ne[1:] == b.ne[1:], op, "ne[1], ne[2], ne[3] must agree", a, b)
    require_contiguous(op, a=a, b=b)
    return make(ctx, op, [a, b], Type.F32, b.ne)
