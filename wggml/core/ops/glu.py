"""Gated linear units (`Op.GLU`)."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import GluOp, Op
from wggml.core.ops._make import make, pack, require
from wggml.core.tensor import Tensor


def glu(ctx: Context, a: Tensor, op: GluOp, *, swapped: bool = False) -> Tensor:
    """Gated unit over the halves of each row: act(first) * second; `swapped` exchanges them.

    Shape: ne[0] halves.
    """
    return _glu(ctx, a, None, pack(int(op), int(swapped)))


def glu_split(ctx: Context, gate: Tensor, up: Tensor, op: GluOp) -> Tensor:
    """Gated unit act(gate) * up of two tensors of one shape and type."""
    return _glu(ctx, gate, up, pack(int(op), 0))


def swiglu_oai(
    ctx: Context, gate: Tensor, up: Tensor | None, *, alpha: float, limit: float
) -> Tensor:
    """g * sigmoid(alpha g) * (u + 1) with g at most `limit` and u within +-`limit`.

    Without `up`, gate and up are the halves of each row of `gate`.
    """
    return _glu(ctx, gate, up, pack(int(GluOp.SWIGLU_OAI), 0, float(alpha), float(limit)))


def swiglu_clamp(ctx: Context, gate: Tensor, up: Tensor | None, *, limit: float) -> Tensor:
    """silu(g) * u with g at most `limit` and u within +-`limit`; `up` as in `swiglu_oai`."""
    return _glu(ctx, gate, up, pack(int(GluOp.SWIGLU_CLAMP), 0, 0, float(limit)))


def _glu(ctx: Context, a: Tensor, b: Tensor | None, params: bytes) -> Tensor:
    require(a.is_contiguous(1), Op.GLU, "operands must be contiguous from dimension 1 on", a)
    if b is None:
        ne = (a.ne[0] // 2, a.ne[1], a.ne[2], a.ne[3])
        return make(ctx, Op.GLU, [a, None], a.type, ne, params)
    same = a.same_shape(b) and a.type == b.type
    require(same, Op.GLU, "gate and up must have one shape and type", a, b)
    require(b.is_contiguous(1), Op.GLU, "operands must be contiguous from dimension 1 on", b)
    return make(ctx, Op.GLU, [a, b], a.type, a.ne, params)
