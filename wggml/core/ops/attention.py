"""Softmax and attention."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op, Prec
from wggml.core.ops._make import divides, make, make_like, pack, require
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def soft_max(
    ctx: Context,
    a: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    max_bias: float = 0.0,
    *,
    sinks: Tensor | None = None,
    inplace: bool = False,
) -> Tensor:
    """softmax(a * scale + mask * slope) over ne[0]; `max_bias` > 0 gives ALiBi slopes per head.

    mask: F16 or F32, ne [ne0, >= ne1, m2, m3] with m2, m3 dividing. sinks: F32, one per head.
    """
    op = Op.SOFT_MAX
    require(a.is_contiguous(), op, "the operand must be contiguous", a)
    if mask is not None:
        ok = (
            mask.type in (Type.F16, Type.F32) and mask.is_contiguous()
            and mask.ne[0] == a.ne[0] and mask.ne[1] >= a.ne[1]
            and divides(mask.ne[2], a.ne[2]) and divides(mask.ne[3], a.ne[3])
        )  # fmt: skip
        require(ok, op, "the mask must be contiguous F16/F32 that repeats to the rows", a, mask)
    require(max_bias <= 0.0 or mask is not None, op, "max_bias needs a mask", a)
    params = pack(float(scale), float(max_bias))
    srcs: list[Tensor | None] = [a, mask]
    if sinks is not None:
        ok = sinks.type == Type.F32 and sinks.ne[0] == a.ne[2]
        require(ok, op, "sinks must be F32 with one value per head", a, sinks)
        srcs.append(sinks)
    return make_like(ctx, op, srcs, a, params, inplace=inplace)


def soft_max_back(
    ctx: Context,
    grad: Tensor,
    y: Tensor,
    scale: float = 1.0,
    max_bias: float = 0.0,
    *,
    inplace: bool = False,
) -> Tensor:
    """Gradient of `soft_max` from its result `y`: scale * y * (grad - sum(grad * y)) per row."""
    op = Op.SOFT_MAX_BACK
    require(grad.same_shape(y), op, "both must have one shape", grad, y)
    params = pack(float(scale), float(max_bias))
    return make_like(ctx, op, [grad, y], grad, params, inplace=inplace)


def flash_attn_ext(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    *,
    max_bias: float = 0.0,
    logit_softcap: float = 0.0,
    sinks: Tensor | None = None,
    prec: Prec = Prec.UNDEFINED,
    n_kv_max: int = 0,
) -> Tensor:
    """softmax(q k^T * scale + mask) v in one op, grouped heads included.

    q: ne [dk, n_q, n_head, n_seq]; k: [dk, n_kv, n_head_kv, n_seq]; v: [dv, n_kv, n_head_kv,
    n_seq] (not transposed); mask: F16 [n_kv, >= n_q, ...]. Result: F32 [dv, n_head, n_q, n_seq].
    `prec` asks for a precision of sums. `n_kv_max` > 0 promises that no row of the mask has more
    finite entries, so that a backend may gather the positions in use.
    """
    op = Op.FLASH_ATTN_EXT
    ok = k.ne[0] == q.ne[0] and divides(k.ne[2], q.ne[2])
    require(ok, op, "k must fit q: equal ne[0] and ne[2] dividing", q, k)
    ok = v.ne[1] == k.ne[1] and q.ne[3] == k.ne[3] and q.ne[3] == v.ne[3]
    require(ok, op, "v must have as many positions as k, and all one ne[3]", q, k, v)
    if mask is not None:
        ok = (
            mask.type == Type.F16 and mask.is_contiguous()
            and divides(mask.ne[2], q.ne[2]) and divides(mask.ne[3], q.ne[3])
        )  # fmt: skip
        require(ok, op, "the mask must be contiguous F16 that repeats to the heads", q, mask)
    require(max_bias <= 0.0 or mask is not None, op, "max_bias needs a mask", q)
    require(n_kv_max >= 0, op, f"n_kv_max {n_kv_max} must not be negative", q)
    srcs: list[Tensor | None] = [q, k, v, mask]
    if sinks is not None:
        ok = sinks.type == Type.F32 and sinks.ne[0] == q.ne[2]
        require(ok, op, "sinks must be F32 with one value per head", q, sinks)
        srcs.append(sinks)
    params = pack(float(scale), float(max_bias), float(logit_softcap), int(prec), n_kv_max)
    return make(ctx, op, srcs, Type.F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3]), params)
