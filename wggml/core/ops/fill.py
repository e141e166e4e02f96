"""Sequences, constants, triangles and diagonals."""

from __future__ import annotations

import numpy as np

from wggml.core.context import Context
from wggml.core.opcodes import Op, TriType
from wggml.core.ops._make import (
    make,
    make_like,
    pack,
    require,
    require_contiguous,
    require_positive,
    require_type,
)
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError


def arange(ctx: Context, start: float, stop: float, step: float = 1.0) -> Tensor:
    """start, start + step, ... below `stop`; F32, ne [ceil((stop - start) / step)]."""
    if not (stop > start and step > 0):
        raise ShapeError(
            f"ARANGE: stop must lie above start and step must be positive; got {start}, {stop}, "
            f"{step}"
        )
    # in float32, so that the count is ggml's where the quotient is nearly whole
    span = np.float32(stop) - np.float32(start)
    n = int(np.ceil(span / np.float32(step)))
    params = pack(float(start), float(stop), float(step))
    return make(ctx, Op.ARANGE, [], Type.F32, (n, 1, 1, 1), params)


def fill(ctx: Context, a: Tensor, value: float, *, inplace: bool = False) -> Tensor:
    """`value` everywhere, in the type (F32 or F16) and shape of `a`, which must be contiguous."""
    require_type(Op.FILL, (Type.F32, Type.F16), a=a)
    require_contiguous(Op.FILL, a=a)
    return make_like(ctx, Op.FILL, [a], a, pack(float(value)), inplace=inplace)


def tri(ctx: Context, a: Tensor, type_: TriType) -> Tensor:
    """One triangle of square F32 matrices, zero elsewhere."""
    require_type(Op.TRI, (Type.F32,), a=a)
    require_contiguous(Op.TRI, a=a)
    require(a.ne[0] == a.ne[1], Op.TRI, "matrices must be square", a)
    return make_like(ctx, Op.TRI, [a], a, pack(int(type_)))


def diag(ctx: Context, a: Tensor) -> Tensor:
    """Square matrices with the rows of `a` (ne [n, 1, p, q]) on their diagonals."""
    require(a.ne[1] == 1, Op.DIAG, "ne[1] must be 1", a)
    return make(ctx, Op.DIAG, [a], a.type, (a.ne[0], a.ne[0], a.ne[2], a.ne[3]))


def diag_mask_inf(ctx: Context, a: Tensor, n_past: int, *, inplace: bool = False) -> Tensor:
    """-inf where column > n_past + row."""
    return make_like(ctx, Op.DIAG_MASK_INF, [a], a, pack(n_past), inplace=inplace)


def diag_mask_zero(ctx: Context, a: Tensor, n_past: int, *, inplace: bool = False) -> Tensor:
    """0 where column > n_past + row."""
    return make_like(ctx, Op.DIAG_MASK_ZERO, [a], a, pack(n_past), inplace=inplace)


def timestep_embedding(
    ctx: Context, timesteps: Tensor, dim: int, max_period: int = 10000
) -> Tensor:
    """cos and sin of each timestep at dim/2 frequencies max_period^(-2i/dim).

    timesteps: ne [n]. Result: F32, ne [dim, n]; an odd `dim` leaves a zero at the end.
    """
    require_positive(Op.TIMESTEP_EMBEDDING, "dim and max_period", dim, max_period)
    ne = (dim, timesteps.ne[0], 1, 1)
    return make(ctx, Op.TIMESTEP_EMBEDDING, [timesteps], Type.F32, ne, pack(dim, max_period))
