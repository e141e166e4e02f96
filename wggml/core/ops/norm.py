"""Normalisation over rows."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import make_like, pack
from wggml.core.tensor import Tensor


def norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over ne[0]."""
    return make_like(ctx, Op.NORM, [a], a, pack(float(eps)), inplace=inplace)


def rms_norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over ne[0]."""
    return make_like(ctx, Op.RMS_NORM, [a], a, pack(float(eps)), inplace=inplace)


def l2_norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """x / max(sqrt(sum(x^2)), eps) over ne[0]."""
    return make_like(ctx, Op.L2_NORM, [a], a, pack(float(eps)), inplace=inplace)
