"""Orders of rows."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op, SortOrder
from wggml.core.ops._make import INT32_MAX, make, pack, require
from wggml.core.ops.shape import view
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def argsort(ctx: Context, a: Tensor, order: SortOrder = SortOrder.ASC) -> Tensor:
    """Per row the indices that sort it; I32, the shape of `a`."""
    require(a.ne[0] <= INT32_MAX, Op.ARGSORT, "indices must fit int32", a)
    return make(ctx, Op.ARGSORT, [a], Type.I32, a.ne, pack(int(order)))


def argsort_top_k(ctx: Context, a: Tensor, k: int) -> Tensor:
    """Indices of the `k` largest values of each row, largest first: a view of an `argsort`."""
    require(0 < k <= a.ne[0], Op.ARGSORT, f"k = {k} must be from 1 to ne[0]", a)
    order = argsort(ctx, a, SortOrder.DESC)
    nb = order.nb
    return view(ctx, order, (k, a.ne[1], a.ne[2], a.ne[3]), (nb[1], nb[2], nb[3]))


def top_k(ctx: Context, a: Tensor, k: int) -> Tensor:
    """Indices of the `k` largest values of each row, in no order; I32, ne [k, ...]."""
    require(0 < k <= a.ne[0], Op.TOP_K, f"k = {k} must be from 1 to ne[0]", a)
    return make(ctx, Op.TOP_K, [a], Type.I32, (k, a.ne[1], a.ne[2], a.ne[3]))
