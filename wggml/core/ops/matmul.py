"""Matrix products."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import make, require
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Rows of `b` times rows of `a`: result[n, m] = sum over k of a[k, m] * b[k, n].

    a: ne [k, m, p, q], any type; b: ne [k, n, P, Q] with P, Q multiples of p, q.
    Result: F32, ne [m, n, P, Q].
    """
    ok = a.ne[0] == b.ne[0] and b.ne[2] % a.ne[2] == 0 and b.ne[3] % a.ne[3] == 0
    require(ok, Op.MUL_MAT, "ne[0] must agree and ne[2], ne[3] of b be multiples of a's", a, b)
    require(not a.is_transposed(), Op.MUL_MAT, "the first operand must not be transposed", a, b)
    return make(ctx, Op.MUL_MAT, [a, b], Type.F32, (a.ne[1], b.ne[1], b.ne[2], b.ne[3]))


def mul_mat_id(ctx: Context, experts: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """`mul_mat` with a matrix chosen per row.

    experts: ne [k, m, n_expert]; b: ne [k, n_used or 1, n_tokens]; ids: I32 ne [n_used, n_tokens].
    Result: F32, ne [m, n_used, n_tokens].
    """
    op = Op.MUL_MAT_ID
    require(ids.type == Type.I32, op, "ids must be I32", experts, b, ids)
    require(experts.ne[3] == 1 and b.ne[3] == 1, op, "operands have at most 3 sizes", experts, b)
    ok = (
        ids.ne[2] == 1 and ids.ne[3] == 1 and ids.ne[1] == b.ne[2]
        and experts.ne[0] == b.ne[0] and ids.ne[0] % b.ne[1] == 0
    )  # fmt: skip
    require(ok, op, "ids must be [n_used, n_tokens] for b [k, n_used or 1, n_tokens]", b, ids)
    require(not experts.is_transposed(), op, "experts must not be transposed", experts)
    ne = (experts.ne[1], ids.ne[0], b.ne[2], 1)
    return make(ctx, op, [experts, b, ids], Type.F32, ne)
