"""Normalisation over rows."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import make_like, pack, require, require_positive
from wggml.core.tensor import Tensor


def norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over ne[0]."""
    return make_like(ctx, Op.NORM, [a], a, pack(float(eps)), inplace=inplace)


def rms_norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over ne[0]."""
    return make_like(ctx, Op.RMS_NORM, [a], a, pack(float(eps)), inplace=inplace)


def rms_norm_back(ctx: Context, grad: Tensor, x: Tensor, eps: float) -> Tensor:
    """Gradient of `rms_norm` at `x` (one shape with `grad`)."""
    require(grad.same_shape(x), Op.RMS_NORM_BACK, "both must have one shape", grad, x)
    return make_like(ctx, Op.RMS_NORM_BACK, [grad, x], grad, pack(float(eps)))


def group_norm(
    ctx: Context, a: Tensor, n_groups: int, eps: float, *, inplace: bool = False
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over [ne0, ne1, channels of one group].

    a: ne [w, h, channels, n]; channels are split into `n_groups` runs of ceil(channels / n_groups).
    """
    require_positive(Op.GROUP_NORM, "n_groups", n_groups)
    params = pack(n_groups, float(eps))
    return make_like(ctx, Op.GROUP_NORM, [a], a, params, inplace=inplace)


def l2_norm(ctx: Context, a: Tensor, eps: float, *, inplace: bool = False) -> Tensor:
    """x / max(sqrt(sum(x^2)), eps) over ne[0]."""
    return make_like(ctx, Op.L2_NORM, [a], a, pack(float(eps)), inplace=inplace)
