"""Recurrent and linear attention, state space models, and DeepSeek's index and mixing ops.

Ops with a state append the new state to the output, so a result is one block of memory that the
caller cuts with `view`.
"""

from __future__ import annotations

from math import isqrt

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import (
    divides,
    is_matrix,
    is_vector,
    make,
    pack,
    require,
    require_contiguous,
    require_positive,
    require_shape,
    require_type,
)
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type


def ssm_conv(ctx: Context, x: Tensor, kernel: Tensor) -> Tensor:
    """Causal depthwise convolution: each channel with its own `kernel` row.

    x: ne [d_conv - 1 + n_t, d_inner, n_s]; kernel: [d_conv, d_inner]. Result: F32 [d_inner, n_t,
    n_s].
    """
    op = Op.SSM_CONV
    require(x.ne[3] == 1 and is_matrix(kernel), op, "x has 3 sizes, the kernel 2", x, kernel)
    d_conv, d_inner = kernel.ne[0], kernel.ne[1]
    n_t = x.ne[0] - d_conv + 1
    ok = x.ne[1] == d_inner and n_t >= 0
    require(ok, op, "x must be [d_conv - 1 + n_t, d_inner, n_s]", x, kernel)
    return make(ctx, op, [x, kernel], Type.F32, (d_inner, n_t, x.ne[2], 1))


def _dense_heads(op: Op, **tensors: Tensor) -> None:
    """Dimensions 0 and 1 must follow each other without gaps."""
    for name, t in tensors.items():
        ok = t.nb[0] == TRAITS[t.type].type_size and t.nb[1] == t.ne[0] * t.nb[0]
        require(ok, op, f"{name} must be contiguous in dimensions 0 and 1", t)


def ssm_scan(
    ctx: Context,
    s: Tensor,
    x: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    ids: Tensor,
    n_states: int = 1,
) -> Tensor:
    """Selective scan (Mamba), one state per head, with `ids` naming the sequence's state in `s`.

    s: ne [d_state, head_dim, n_head, n_rs]; x: [head_dim, n_head, n_t, n_s]; dt: [n_head, n_t,
    n_s]; a: [1 or d_state, n_head]; b, c: [d_state, n_group, n_t, n_s]; ids: I32 [n_s].
    Result: F32 vector: the output (as x), then `n_states` snapshots of the states of n_s
    sequences. More than one needs a scalar decay (`a` of ne[0] 1).
    """
    op = Op.SSM_SCAN
    require_positive(op, "n_states", n_states)
    require_contiguous(op, s=s, dt=dt, a=a)
    _dense_heads(op, x=x, b=b, c=c)
    require_type(op, (Type.I32,), ids=ids)
    d_state = s.ne[0]
    head_dim, n_head, n_t, n_s = x.ne
    require_shape(op, (n_head, n_t, n_s, 1), dt=dt)
    require(s.ne[1] == head_dim and s.ne[2] == n_head, op, "s and x must have the same heads", s, x)
    ok = b.same_shape(c) and b.ne[0] == d_state and b.ne[2] == n_t and b.ne[3] == n_s
    require(ok, op, "b and c must be [d_state, n_group, n_t, n_s]", s, x, b, c)
    require(is_vector(ids) and ids.ne[0] == n_s, op, "ids must have one entry a sequence", ids, x)
    ok = is_matrix(a) and a.ne[1] == n_head and a.ne[0] in (1, d_state)
    require(ok, op, "a must be [1 or d_state, n_head]", a, s, x)
    ok = a.ne[0] == 1 or n_states == 1
    require(ok, op, "more than one state needs an a with ne[0] = 1", a)
    n = x.n_elements + n_states * d_state * head_dim * n_head * n_s
    return make(ctx, op, [s, x, dt, a, b, c, ids], Type.F32, (n, 1, 1, 1), pack(n_states))


def _wkv(
    ctx: Context, op: Op, srcs: list[Tensor | None], state: Tensor, heads: dict[str, Tensor],
    params: bytes = bytes(64),
) -> Tensor:  # fmt: skip
    """Result of an op over heads [s, h, n_tokens] with a state of s * s * h a sequence."""
    require_contiguous(op, state=state, **heads)
    k = heads["k"]
    s, h, n_tokens = k.ne[:3]
    n_seqs = state.ne[1]
    for name, t in heads.items():
        require(t.ne[:3] == (s, h, n_tokens), op, f"{name} must be [s, heads, n_tokens]", t, k)
    ok = state.n_elements == s * s * h * n_seqs
    require(ok, op, "the state must be [s * s * heads, n_seqs]", state, k)
    return make(ctx, op, srcs, Type.F32, (s * h, n_tokens + s * n_seqs, 1, 1), params)


def rwkv_wkv6(
    ctx: Context, k: Tensor, v: Tensor, r: Tensor, tf: Tensor, td: Tensor, state: Tensor
) -> Tensor:
    """RWKV-6: keys, values, receptances and decays `td` ne [s, heads, n_tokens], bonus `tf`
    [s, heads], state [s * s * heads, n_seqs]. Result: F32 [s * heads, n_tokens + s * n_seqs]."""
    op = Op.RWKV_WKV6
    require_contiguous(op, tf=tf)
    heads = {"k": k, "v": v, "r": r, "td": td}
    return _wkv(ctx, op, [k, v, r, tf, td, state], state, heads)


def gated_linear_attn(
    ctx: Context, k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, scale: float
) -> Tensor:
    """Gated linear attention: all but the state ne [s, heads, n_tokens], state [s * s * heads,
    n_seqs]. Result: F32 [s * heads, n_tokens + s * n_seqs]."""
    heads = {"k": k, "v": v, "q": q, "g": g}
    srcs: list[Tensor | None] = [k, v, q, g, state]
    return _wkv(ctx, Op.GATED_LINEAR_ATTN, srcs, state, heads, pack(float(scale)))


def rwkv_wkv7(
    ctx: Context, r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor
) -> Tensor:
    """RWKV-7: all but the state ne [s, heads, n_tokens], state [s * s * heads, n_seqs]. Result:
    F32 [s * heads, n_tokens + s * n_seqs]."""
    heads = {"k": k, "r": r, "w": w, "v": v, "a": a, "b": b}
    return _wkv(ctx, Op.RWKV_WKV7, [r, w, k, v, a, b, state], state, heads)


def gated_delta_net(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor,
    n_states: int = 1,
) -> Tensor:
    """Gated delta rule; everything F32.

    v: ne [s, heads, n_tokens, n_seqs]; q, k: rows of s contiguous; g: [1 or s, heads, ...]; beta:
    [1, heads, ...]; state: [s, s, heads, n_seqs]. Result: [s * heads, n_tokens * n_seqs +
    n_states * s * n_seqs]: the output, then `n_states` snapshots of the state.
    """
    op = Op.GATED_DELTA_NET
    for name, t in (("q", q), ("k", k), ("v", v)):
        require(t.is_contiguous_rows(), op, f"rows of {name} must be contiguous", t)
    require_contiguous(op, g=g, beta=beta, state=state)
    require_type(op, (Type.F32,), q=q, k=k, v=v, g=g, beta=beta, state=state)
    s, heads, n_tokens, n_seqs = v.ne
    require(g.ne[0] in (1, s), op, "g must have ne[0] 1 or that of v", g, v)
    require(beta.ne[0] == 1, op, "beta must have ne[0] 1", beta)
    require_shape(op, (s, s, heads, n_seqs), state=state)
    require_positive(op, "n_states", n_states)
    ne = (s * heads, n_tokens * n_seqs + n_states * s * n_seqs, 1, 1)
    return make(ctx, op, [q, k, v, g, beta, state], Type.F32, ne, pack(n_states))


def lightning_indexer(ctx: Context, q: Tensor, k: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """Scores of key positions: sum over heads of weights * relu(q k), plus the mask.

    q: F32 [d, heads, n_q, n_s]; k: [d, 1, n_kv, n_s]; weights: F32 [heads, n_q, 1, n_s]; mask: F16
    [n_kv, n_q, 1, dividing n_s]. Result: F32 [n_kv, n_q, 1, n_s].
    """
    op = Op.LIGHTNING_INDEXER
    require_type(op, (Type.F32,), q=q, weights=weights)
    require_type(op, (Type.F16,), mask=mask)
    d, heads, n_q, n_s = q.ne
    n_kv = k.ne[2]
    require_shape(op, (d, 1, n_kv, n_s), k=k)
    require_shape(op, (heads, n_q, 1, n_s), weights=weights)
    ok = mask.ne[:3] == (n_kv, n_q, 1) and divides(mask.ne[3], n_s)
    require(ok, op, "the mask must be [n_kv, n_q, 1, m] with m dividing n_s", mask, q, k)
    return make(ctx, op, [q, k, weights, mask], Type.F32, (n_kv, n_q, 1, n_s))


# ---- hyper-connections --------------------------------------------------------------------------

HC = 4  # streams of the residual that ggml's op is made for


def dsv4_hc_comb(
    ctx: Context, mixes: Tensor, scale: Tensor, base: Tensor, eps: float, n_iter: int
) -> Tensor:
    """Doubly stochastic mixing matrices of 4 residual streams, by `n_iter` Sinkhorn steps.

    mixes: F32 [24, n_tokens] (hc * (hc + 2) with hc = 4); scale: F32, at least 3; base: F32 [24].
    Result: F32 [4, 4, n_tokens].
    """
    op = Op.DSV4_HC_COMB
    require_type(op, (Type.F32,), mixes=mixes, scale=scale, base=base)
    require_positive(op, "n_iter", n_iter)
    n = mixes.ne[0]
    hc = isqrt(n + 1) - 1
    ok = is_matrix(mixes) and hc == HC and hc * (hc + 2) == n
    require(ok, op, f"mixes must be [{HC * (HC + 2)}, n_tokens]", mixes)
    require(is_vector(scale) and scale.ne[0] >= 3, op, "scale must be a vector of 3", scale)
    require_shape(op, (n, 1, 1, 1), base=base)
    params = pack(float(eps), n_iter)
    return make(ctx, op, [mixes, scale, base], Type.F32, (hc, hc, mixes.ne[1], 1), params)


def dsv4_hc_pre(ctx: Context, x: Tensor, weights: Tensor) -> Tensor:
    """Streams of `x` (F32 [n_embd, hc, n_tokens]) summed with weights (F32 [hc, n_tokens]). Result:
    F32 [n_embd, n_tokens]."""
    op = Op.DSV4_HC_PRE
    require_type(op, (Type.F32,), x=x, weights=weights)
    require_shape(op, (x.ne[1], x.ne[2], 1, 1), weights=weights)
    return _hc_pre(ctx, x, weights, pack(1.0, 0))


def dsv4_hc_pre_gated(ctx: Context, x: Tensor, gate: Tensor, scale: float) -> Tensor:
    """Streams of `x` summed with weights scale * sigmoid(gate); gate: F32, the shape of `x`."""
    op = Op.DSV4_HC_PRE
    require_type(op, (Type.F32,), x=x, gate=gate)
    require_shape(op, (x.ne[0], x.ne[1], x.ne[2], 1), gate=gate)
    return _hc_pre(ctx, x, gate, pack(float(scale), 1))


def _hc_pre(ctx: Context, x: Tensor, weights: Tensor, params: bytes) -> Tensor:
    op = Op.DSV4_HC_PRE
    require(x.ne[1] > 0 and x.ne[3] == 1, op, "x must be [n_embd, hc, n_tokens]", x)
    return make(ctx, op, [x, weights], Type.F32, (x.ne[0], x.ne[2], 1, 1), params)


def dsv4_hc_post(
    ctx: Context, x: Tensor, residual: Tensor, post: Tensor, comb: Tensor | None
) -> Tensor:
    """New residual streams: x * post, plus the old ones mixed by `comb` (or as they are).

    x: [n_embd, n_tokens]; residual: [n_embd, hc, n_tokens]; post: [hc, n_tokens]; comb: [hc, hc,
    n_tokens]; all F32. Result: F32 [n_embd, hc, n_tokens].
    """
    op = Op.DSV4_HC_POST
    require_type(op, (Type.F32,), x=x, residual=residual, post=post)
    require(is_matrix(x), op, "x must be [n_embd, n_tokens]", x)
    n_embd, n_tokens = x.ne[0], x.ne[1]
    hc = residual.ne[1]
    require(hc > 0, op, "there must be a stream", residual)
    require_shape(op, (n_embd, hc, n_tokens, 1), residual=residual)
    require_shape(op, (hc, n_tokens, 1, 1), post=post)
    if comb is not None:
        require_type(op, (Type.F32,), comb=comb)
        require_shape(op, (hc, hc, n_tokens, 1), comb=comb)
    srcs: list[Tensor | None] = [x, residual, post, comb]
    return make(ctx, op, srcs, Type.F32, (n_embd, hc, n_tokens, 1))
