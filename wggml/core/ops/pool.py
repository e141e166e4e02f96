"""Pooling over rows and images."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op, PoolOp
from wggml.core.ops._make import make, pack, require, require_positive
from wggml.core.tensor import Tensor
from wggml.core.types import Type

Pair = tuple[int, int]


def _out_size(n: int, kernel: int, stride: int, padding: float) -> int:
    """Positions of a window along a dimension; ggml computes it in floating point."""
    return int((n + 2 * padding - kernel) / stride + 1)


def pool_1d(
    ctx: Context, a: Tensor, op: PoolOp, kernel: int, stride: int, padding: int = 0
) -> Tensor:
    """Largest or mean value of windows along ne[0]; F32."""
    require_positive(Op.POOL_1D, "kernel and stride", kernel, stride)
    n = _out_size(a.ne[0], kernel, stride, padding)
    require(n > 0, Op.POOL_1D, f"no window of {kernel} fits", a)
    ne = (n, a.ne[1], a.ne[2], a.ne[3])
    return make(ctx, Op.POOL_1D, [a], Type.F32, ne, pack(int(op), kernel, stride, padding))


def pool_2d(
    ctx: Context,
    a: Tensor,
    op: PoolOp,
    kernel: Pair,
    stride: Pair,
    padding: tuple[float, float] = (0, 0),
) -> Tensor:
    """Largest or mean value of windows over ne[0] and ne[1]; F32.

    A padding of half an element counts for the size of the result; its whole part is stored.
    """
    require_positive(Op.POOL_2D, "kernel and stride", *kernel, *stride)
    w = _out_size(a.ne[0], kernel[0], stride[0], padding[0])
    h = _out_size(a.ne[1], kernel[1], stride[1], padding[1])
    require(w > 0 and h > 0, Op.POOL_2D, f"no window of {list(kernel)} fits", a)
    params = _params_2d(op, kernel, stride, padding)
    return make(ctx, Op.POOL_2D, [a], Type.F32, (w, h, a.ne[2], a.ne[3]), params)


def pool_2d_back(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    op: PoolOp,
    kernel: Pair,
    stride: Pair,
    padding: tuple[float, float] = (0, 0),
) -> Tensor:
    """Gradient of `pool_2d` at `x`; F32, the shape of `x`."""
    require_positive(Op.POOL_2D_BACK, "kernel and stride", *kernel, *stride)
    params = _params_2d(op, kernel, stride, padding)
    return make(ctx, Op.POOL_2D_BACK, [grad, x], Type.F32, x.ne, params)


def _params_2d(op: PoolOp, kernel: Pair, stride: Pair, padding: tuple[float, float]) -> bytes:
    return pack(int(op), *kernel, *stride, int(padding[0]), int(padding[1]))
