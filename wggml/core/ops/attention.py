"""Softmax, rotary positions and attention."""

from __future__ import annotations

from dataclasses import dataclass

from wggml.core.context import Context
from wggml.core.opcodes import Op, RopeMode
from wggml.core.ops._make import make, make_like, pack, require
from wggml.core.tensor import Tensor
from wggml.core.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeParams:
    """Parameters of `rope`: `n_dims` rotated values a head, position frequencies
    freq_base^(-2i/n_dims) * freq_scale, YaRN blending by `ext_factor`, `beta_*`, and the scale
    `attn_factor` of sine and cosine. `sections` only for the multi-position modes."""

    n_dims: int
    mode: int = RopeMode.NORMAL
    n_ctx_orig: int = 0
    freq_base: float = 10000.0
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    sections: tuple[int, int, int, int] = (0, 0, 0, 0)


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
            and a.ne[2] % mask.ne[2] == 0 and a.ne[3] % mask.ne[3] == 0
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


def rope(
    ctx: Context,
    a: Tensor,
    positions: Tensor,
    params: RopeParams,
    *,
    freq_factors: Tensor | None = None,
    inplace: bool = False,
) -> Tensor:
    """Rotary position embedding.

    a: ne [head, n_head, n_tokens, ...]; positions: I32 ne [n_tokens] (4 * n_tokens in MROPE
    modes); freq_factors: F32, at least n_dims/2 divisors of the frequencies.
    """
    op = Op.ROPE
    per_token = 4 if params.mode & RopeMode.MROPE else 1
    ok = positions.type == Type.I32 and positions.n_elements == positions.ne[0]
    require(ok, op, "positions must be an I32 vector", positions)
    require(
        a.ne[2] * per_token == positions.ne[0], op, f"{per_token} position(s) a token", a, positions
    )
    if freq_factors is not None:
        ok = freq_factors.type == Type.F32 and freq_factors.ne[0] >= params.n_dims // 2
        require(ok, op, f"freq_factors must be F32, at least {params.n_dims // 2}", freq_factors)
    p = params
    sections = p.sections if per_token == 4 else (0, 0, 0, 0)
    packed = pack(
        0, p.n_dims, int(p.mode), 0, p.n_ctx_orig, float(p.freq_base), float(p.freq_scale),
        float(p.ext_factor), float(p.attn_factor), float(p.beta_fast), float(p.beta_slow),
        *sections, 0,
    )  # fmt: skip
    return make_like(ctx, op, [a, positions, freq_factors], a, packed, inplace=inplace)


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
) -> Tensor:
    """softmax(q k^T * scale + mask) v in one op, grouped heads included.

    q: ne [dk, n_q, n_head, n_seq]; k: [dk, n_kv, n_head_kv, n_seq]; v: [dv, n_kv, n_head_kv,
    n_seq] (not transposed); mask: F16 [n_kv, >= n_q, ...]. Result: F32 [dv, n_head, n_q, n_seq].
    """
    op = Op.FLASH_ATTN_EXT
    ok = k.ne[0] == q.ne[0] and q.ne[2] % k.ne[2] == 0 and q.ne[3] % k.ne[3] == 0
    require(ok, op, "k must fit q: equal ne[0], ne[2] and ne[3] dividing", q, k)
    ok = v.ne[1] == k.ne[1] and q.ne[3] == k.ne[3] and q.ne[3] == v.ne[3]
    require(ok, op, "v must have as many positions as k, and all one ne[3]", k, v)
    if mask is not None:
        ok = (
            mask.type == Type.F16 and mask.is_contiguous()
            and q.ne[2] % mask.ne[2] == 0 and q.ne[3] % mask.ne[3] == 0
        )  # fmt: skip
        require(ok, op, "the mask must be contiguous F16 that repeats to the heads", q, mask)
    require(max_bias <= 0.0 or mask is not None, op, "max_bias needs a mask", q)
    srcs: list[Tensor | None] = [q, k, v, mask]
    if sinks is not None:
        ok = sinks.type == Type.F32 and sinks.ne[0] == q.ne[2]
        require(ok, op, "sinks must be F32 with one value per head", q, sinks)
        srcs.append(sinks)
    params = pack(float(scale), float(max_bias), float(logit_softcap))
    return make(ctx, op, srcs, Type.F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3]), params)
