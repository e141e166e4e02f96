"""Rotary positions."""

from __future__ import annotations

from dataclasses import dataclass

from wggml.core.context import Context
from wggml.core.opcodes import Op, RopeMode
from wggml.core.ops._make import is_vector, make_like, pack, require
from wggml.core.tensor import Tensor
from wggml.core.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeParams:
    """Parameters of `rope`: `n_dims` rotated values a head, position frequencies
    freq_base^(-2i/n_dims) * freq_scale, YaRN blending by `ext_factor`, `beta_*`, and the scale
    `attn_factor` of sine and cosine. `sections` only for the multi-position modes: how many pairs
    take their position from each of the four rows. Rotation starts at element `offset` of a head
    (not in VISION mode)."""

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
    offset: int = 0

    @staticmethod
    def of(node: Tensor) -> RopeParams:
        """The parameters a ROPE or ROPE_BACK node was made with."""
        i, f = node.param_i32, node.param_f32
        return RopeParams(
            n_dims=i(1), mode=i(2), n_ctx_orig=i(4), freq_base=f(5), freq_scale=f(6),
            ext_factor=f(7), attn_factor=f(8), beta_fast=f(9), beta_slow=f(10),
            sections=(i(11), i(12), i(13), i(14)), offset=i(15),
        )  # fmt: skip


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
    modes, VISION and IMROPE included); freq_factors: F32, at least n_dims/2 divisors of the
    frequencies.
    """
    return _rope(ctx, Op.ROPE, a, positions, params, freq_factors, inplace)


def rope_back(
    ctx: Context,
    grad: Tensor,
    positions: Tensor,
    params: RopeParams,
    *,
    freq_factors: Tensor | None = None,
) -> Tensor:
    """Gradient of `rope`: the rotation by the opposite angles. Operands as in `rope`."""
    return _rope(ctx, Op.ROPE_BACK, grad, positions, params, freq_factors, False)


def _rope(
    ctx: Context,
    op: Op,
    a: Tensor,
    positions: Tensor,
    p: RopeParams,
    freq_factors: Tensor | None,
    inplace: bool,
) -> Tensor:
    require(p.mode & 1 == 0, op, f"mode {p.mode} is odd, which no longer exists", a)
    per_token = 4 if p.mode & RopeMode.MROPE else 1
    ok = positions.type == Type.I32 and is_vector(positions)
    require(ok, op, "positions must be an I32 vector", positions)
    ok = a.ne[2] * per_token == positions.ne[0]
    require(ok, op, f"there must be {per_token} position(s) a token", a, positions)
    if freq_factors is not None:
        ok = freq_factors.type == Type.F32 and freq_factors.ne[0] >= p.n_dims // 2
        require(ok, op, f"freq_factors must be F32, at least {p.n_dims // 2}", freq_factors)
    ok = p.offset == 0 or (p.offset > 0 and p.mode != RopeMode.VISION)
    require(ok, op, f"the offset {p.offset} must not be negative, and 0 in VISION mode", a)
    sections = p.sections if per_token == 4 else (0, 0, 0, 0)
    packed = pack(
        0, p.n_dims, int(p.mode), 0, p.n_ctx_orig, float(p.freq_base), float(p.freq_scale),
        float(p.ext_factor), float(p.attn_factor), float(p.beta_fast), float(p.beta_slow),
        *sections, p.offset,
    )  # fmt: skip
    return make_like(ctx, op, [a, positions, freq_factors], a, packed, inplace=inplace)
