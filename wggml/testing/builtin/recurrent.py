"""Recurrent layers, linear attention, state spaces, DeepSeek's index and mixing ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.testing.builtin.limits import FUNCTIONS, SUMS
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each

F32, F16 = Type.F32, Type.F16
# keys of the index are kept in the types of a cache
KEYS = (F32, F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0)


def recipes() -> Iterator[Recipe]:
    yield from each(
        "SSM_CONV",
        _ssm_conv,
        max_err=SUMS,
        d_conv=[4, 3, 9],
        channels=[37, 1, 1024],
        tokens=[9, 1, 33],
        n_seq=[2, 1],
    )
    yield from each(
        "SSM_SCAN",
        _ssm_scan,
        max_err=FUNCTIONS,
        d_state=[16, 6, 128, 32],
        head_dim=[4, 1, 16, 8],
        n_head=[6, 12],
        n_group=[3, 1],
        tokens=[11, 1],
        n_seq=[2, 1],
        by_state=[False, True],
        n_states=1,
        offset=[0, 1],
    )
    yield from each(
        "SSM_SCAN",
        _ssm_scan,
        max_err=FUNCTIONS,
        d_state=16,
        head_dim=4,
        n_head=6,
        n_group=3,
        tokens=7,
        n_seq=2,
        by_state=False,
        n_states=[3, 7],
        offset=0,
    )
    for op, build in (("RWKV_WKV6", _wkv6), ("RWKV_WKV7", _wkv7), ("GATED_LINEAR_ATTN", _gla)):
        yield from each(
            op,
            build,
            max_err=SUMS,
            size=[16, 5, 64, 128],
            heads=[3, 1],
            tokens=[5, 1, 32],
            n_seq=[2, 1],
        )
    yield from each(
        "GATED_DELTA_NET",
        _delta,
        max_err=SUMS,
        size=[16, 6, 128, 32],
        heads=4,
        key_heads=[4, 2, 1],
        tokens=[5, 1, 32],
        n_seq=[2, 1],
        by_key=[False, True],
        n_states=[1, 3],
        permuted=[False, True],
    )
    for type_ in KEYS:
        yield from each(
            "LIGHTNING_INDEXER",
            _indexer,
            max_err=SUMS,
            type_k=type_,
            d=[128, 64],
            heads=[4, 1, 32],
            n_kv=[17, 1, 256],
            n_q=[3, 1],
            n_seq=[2, 1],
        )
    yield from each(
        "DSV4_HC_COMB", _hc_comb, max_err=FUNCTIONS, n_tokens=[3, 1, 257], n_iter=[4, 1, 20]
    )
    yield from each(
        "DSV4_HC_PRE",
        _hc_pre,
        max_err=FUNCTIONS,
        n_embd=[31, 1, 128],
        n_hc=[4, 1, 5],
        n_tokens=[17, 1],
        gated=[False, True],
    )
    yield from each(
        "DSV4_HC_POST",
        _hc_post,
        max_err=SUMS,
        n_embd=[31, 1, 128],
        n_hc=[4, 1, 5],
        n_tokens=[17, 1],
        identity=[False, True],
    )


def _units(m: Maker, ne: Shape) -> Tensor:
    """Rows of length 1."""
    v = m.rng.standard_normal(tuple(ne)[::-1])
    return m.array((v / np.linalg.norm(v, axis=-1, keepdims=True)).astype(np.float32))


# ---- state spaces -------------------------------------------------------------------------------


def _ssm_conv(m: Maker, d_conv: int, channels: int, tokens: int, n_seq: int) -> Tensor:
    x = m.leaf((d_conv - 1 + tokens, channels, n_seq))
    return ops.ssm_conv(m.ctx, x, m.leaf((d_conv, channels)))


def _ssm_scan(
    m: Maker, d_state: int, head_dim: int, n_head: int, n_group: int, tokens: int, n_seq: int,
    by_state: bool, n_states: int, offset: int,
) -> Tensor:  # fmt: skip
    """x, B and C are windows of one tensor, as in models; `offset` moves them off 16 bytes."""
    s = m.leaf((d_state, head_dim, n_head, n_seq + 2))
    wide = head_dim * n_head
    joined = m.leaf((wide + 2 * n_group * d_state + offset, tokens, n_seq))

    def cut(begin: int, a: int, b: int) -> Tensor:
        nb = (a * 4, joined.nb[1], joined.nb[2])
        return ops.view(m.ctx, joined, (a, b, tokens, n_seq), nb, 4 * (begin + offset))

    x = cut(0, head_dim, n_head)
    b, c = (cut(wide + i * n_group * d_state, d_state, n_group) for i in (0, 1))
    dt = m.leaf((n_head, tokens, n_seq))
    a = m.leaf((d_state if by_state else 1, n_head), lo=-1.5, hi=-0.05)
    ids = m.array(np.arange(n_seq, 0, -1, dtype=np.int32), Type.I32)
    return ops.ssm_scan(m.ctx, s, x, dt, a, b, c, ids, n_states)


# ---- linear attention ---------------------------------------------------------------------------


def _wkv6(m: Maker, size: int, heads: int, tokens: int, n_seq: int) -> Tensor:
    ne = (size, heads, tokens * n_seq)
    k, v, r = (m.leaf(ne) for _ in range(3))
    tf, td = m.leaf((size, heads)), m.leaf(ne, lo=0.3, hi=1.0)
    return ops.rwkv_wkv6(m.ctx, k, v, r, tf, td, m.leaf((size * size * heads, n_seq)))


def _wkv7(m: Maker, size: int, heads: int, tokens: int, n_seq: int) -> Tensor:
    ne = (size, heads, tokens * n_seq)
    r, v, w = m.leaf(ne), m.leaf(ne), m.leaf(ne, lo=0.3, hi=1.0)
    k, a, b = (_units(m, ne) for _ in range(3))
    return ops.rwkv_wkv7(m.ctx, r, w, k, v, a, b, m.leaf((size * size * heads, n_seq)))


def _gla(m: Maker, size: int, heads: int, tokens: int, n_seq: int) -> Tensor:
    ne = (size, heads, tokens * n_seq)
    k, v, q = (m.leaf(ne) for _ in range(3))
    g, state = m.leaf(ne, lo=0.3, hi=1.0), m.leaf((size * size * heads, n_seq))
    return ops.gated_linear_attn(m.ctx, k, v, q, g, state, 0.3)


def _delta(
    m: Maker, size: int, heads: int, key_heads: int, tokens: int, n_seq: int, by_key: bool,
    n_states: int, permuted: bool,
) -> Tensor:  # fmt: skip
    def keys() -> Tensor:
        if permuted:
            return ops.permute(m.ctx, _units(m, (size, tokens, key_heads, n_seq)), 0, 2, 1, 3)
        return _units(m, (size, key_heads, tokens, n_seq))

    q, k = keys(), keys()
    v = m.laid("permuted" if permuted else "dense", (size, heads, tokens, n_seq))
    g = m.leaf((size if by_key else 1, heads, tokens, n_seq), lo=-2.0, hi=0.0)
    beta = m.leaf((1, heads, tokens, n_seq), lo=0.3, hi=1.0)
    state = m.leaf((size, size, heads, n_seq))
    return ops.gated_delta_net(m.ctx, q, k, v, g, beta, state, n_states)


# ---- DeepSeek -----------------------------------------------------------------------------------


def _indexer(m: Maker, type_k: Type, d: int, heads: int, n_kv: int, n_q: int, n_seq: int) -> Tensor:
    assert d % TRAITS[type_k].blck_size == 0
    q, k = m.leaf((d, heads, n_q, n_seq)), m.leaf((d, 1, n_kv, n_seq), type_k)
    mask = m.rng.uniform(-1, 1, (n_seq, 1, n_q, n_kv))
    mask[..., 1::3] = -np.inf
    hidden = m.array(mask.astype(np.float32), F16)
    return ops.lightning_indexer(m.ctx, q, k, m.leaf((heads, n_q, 1, n_seq)), hidden)


def _hc_comb(m: Maker, n_tokens: int, n_iter: int) -> Tensor:
    mixes, scale, base = m.leaf((24, n_tokens)), m.leaf((3,), lo=0.5), m.leaf((24,))
    return ops.dsv4_hc_comb(m.ctx, mixes, scale, base, 1e-6, n_iter)


def _hc_pre(m: Maker, n_embd: int, n_hc: int, n_tokens: int, gated: bool) -> Tensor:
    x = m.leaf((n_embd, n_hc, n_tokens))
    if gated:
        return ops.dsv4_hc_pre_gated(m.ctx, x, m.leaf((n_embd, n_hc, n_tokens)), 1.5)
    return ops.dsv4_hc_pre(m.ctx, x, m.leaf((n_hc, n_tokens)))


def _hc_post(m: Maker, n_embd: int, n_hc: int, n_tokens: int, identity: bool) -> Tensor:
    x, residual = m.leaf((n_embd, n_tokens)), m.leaf((n_embd, n_hc, n_tokens))
    comb = None if identity else m.leaf((n_hc, n_hc, n_tokens))
    return ops.dsv4_hc_post(m.ctx, x, residual, m.leaf((n_hc, n_tokens)), comb)
