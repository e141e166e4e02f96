"""Cases with answers that are nowhere degenerate, for convolutions, pooling and recurrent layers.

A case builds its result in a laboratory on any backend; leafs with equal seeds are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from wgpu_lab import Lab, rng, values

from wggml.core import ops
from wggml.core.opcodes import PoolOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type

Build = Callable[[Lab], Tensor]
F16, BF16, F32 = Type.F16, Type.BF16, Type.F32


def leaf(lab: Lab, ne: tuple[int, ...], seed: int, type_: Type = F32) -> Tensor:
    """Standard normal values; `ne` innermost first."""
    return lab.tensor(values(ne[::-1], seed), type_)


def positive(lab: Lab, ne: tuple[int, ...], seed: int) -> Tensor:
    return lab.tensor(np.abs(values(ne[::-1], seed)) + 0.1)


def fraction(lab: Lab, ne: tuple[int, ...], seed: int) -> Tensor:
    """Values between 0.3 and 1, as decays are."""
    return lab.tensor(rng(seed).uniform(0.3, 1.0, ne[::-1]).astype(np.float32))


def units(lab: Lab, ne: tuple[int, ...], seed: int) -> Tensor:
    """Rows of length 1."""
    v = values(ne[::-1], seed)
    return lab.tensor(v / np.linalg.norm(v, axis=-1, keepdims=True))


def channels_inside(
    lab: Lab, ne: tuple[int, int, int, int], seed: int, type_: Type = F32
) -> Tensor:
    """[w, h, c, n] with channels innermost in memory."""
    w, h, c, n = ne
    return ops.permute(lab.ctx, leaf(lab, (c, w, h, n), seed, type_), 2, 0, 1, 3)


# ---- convolutions -------------------------------------------------------------------------------

PADDED: dict[str, Any] = {"stride": (2, 1), "padding": (1, 3), "dilation": (1, 2)}
FAR: dict[str, Any] = {"stride": (3, 2), "padding": (5, 4), "dilation": (2, 3)}
DEEP: dict[str, Any] = {"stride": (2, 1, 1), "padding": (1, 0, 2), "dilation": (1, 2, 1)}


def _conv_2d(kernel: tuple[int, ...], x: tuple[int, ...], wt: Type, xt: Type, **how: Any) -> Build:
    return lambda lab: ops.conv_2d_direct(
        lab.ctx, leaf(lab, kernel, 1, wt), leaf(lab, x, 2, xt), **how
    )


def _conv_2d_inside(lab: Lab) -> Tensor:
    kernel = channels_inside(lab, (3, 2, 5, 6), 1, F16)
    return ops.conv_2d_direct(lab.ctx, kernel, channels_inside(lab, (9, 8, 5, 2), 2), **PADDED)


def _depthwise_inside(lab: Lab, type_: Type, channels: int) -> Tensor:
    kernel = ops.permute(lab.ctx, leaf(lab, (channels, 3, 2), 1, type_), 3, 0, 1, 2)
    x = channels_inside(lab, (9, 8, channels, 2), 2, type_)
    return ops.conv_2d_dw_direct(lab.ctx, kernel, x, **PADDED)


def _conv_3d(wt: Type) -> Build:
    return lambda lab: ops.conv_3d_direct(
        lab.ctx, leaf(lab, (3, 2, 2, 3 * 5), 1, wt), leaf(lab, (7, 6, 5, 3 * 2), 2), 3, 2, 5, **DEEP
    )


def _im2col(type_: Type, kernel: tuple[int, ...], **how: Any) -> Build:
    return lambda lab: ops.im2col(
        lab.ctx, leaf(lab, kernel, 1), leaf(lab, (11, 9, 3, 2), 2), type_=type_, **how
    )


def _im2col_1d(type_: Type) -> Build:
    return lambda lab: ops.im2col(
        lab.ctx, leaf(lab, (4, 3), 1), leaf(lab, (21, 3, 2), 2), stride=(2, 0), padding=(3, 0),
        dilation=(2, 0), is_2d=False, type_=type_,
    )  # fmt: skip


def _im2col_view(lab: Lab) -> Tensor:
    x = channels_inside(lab, (11, 9, 3, 2), 2)
    return ops.im2col(lab.ctx, leaf(lab, (3, 2, 3), 1), x, type_=F16, **PADDED)


def _im2col_3d(type_: Type) -> Build:
    return lambda lab: ops.im2col_3d(
        lab.ctx, leaf(lab, (3, 2, 2, 3), 1), leaf(lab, (7, 6, 5, 3 * 2), 2), 3, type_=type_, **DEEP
    )


def _im2col_back(lab: Lab, how: dict[str, Any]) -> Tensor:
    kernel, image = leaf(lab, (3, 2, 4, 5), 1), (11, 9, 4, 2)
    shape = ops.im2col(lab.ctx, kernel, leaf(lab, image, 2), type_=F32, **how).ne
    return ops.im2col_back(lab.ctx, leaf(lab, shape, 3), kernel, image, **how)


def _im2col_back_1d(lab: Lab) -> Tensor:
    how: dict[str, Any] = {"stride": (2, 0), "padding": (3, 0), "dilation": (2, 0), "is_2d": False}
    kernel, signal = leaf(lab, (4, 3), 1), (21, 3, 2)
    shape = ops.im2col(lab.ctx, kernel, leaf(lab, signal, 2), type_=F32, **how).ne
    return ops.im2col_back(lab.ctx, leaf(lab, shape, 3), kernel, (*signal, 1), **how)


def _col2im(type_: Type, k: int, stride: int, crop: int, t: int = 6) -> Build:
    return lambda lab: ops.col2im_1d(lab.ctx, leaf(lab, (k * 3, t), 1, type_), stride, 3, crop)


CONVOLUTIONS: dict[str, Build] = {
    "conv_2d": _conv_2d((3, 2, 5, 6), (9, 8, 5, 2), F32, F32, **PADDED),
    "conv_2d far": _conv_2d((3, 2, 5, 7), (9, 8, 5, 2), F32, F32, **FAR),
    "conv_2d 1x1": _conv_2d((1, 1, 8, 9), (70, 3, 8, 3), F32, F32),
    "conv_2d few outputs": _conv_2d((3, 3, 2, 3), (9, 8, 2, 2), F32, F32, **PADDED),
    "conv_2d f16 kernel": _conv_2d((3, 3, 5, 5), (9, 8, 5, 2), F16, F32, **PADDED),
    "conv_2d bf16 kernel": _conv_2d((3, 3, 5, 5), (9, 8, 5, 2), BF16, F32, **PADDED),
    "conv_2d f16": _conv_2d((3, 3, 5, 5), (9, 9, 5, 2), F16, F16, **PADDED),
    "conv_2d channels inside": _conv_2d_inside,
    "conv_2d_dw": lambda lab: ops.conv_2d_dw_direct(
        lab.ctx, leaf(lab, (3, 2, 1, 5), 1), leaf(lab, (9, 8, 5, 2), 2), **PADDED
    ),
    "conv_2d_dw f16": lambda lab: ops.conv_2d_dw_direct(
        lab.ctx, leaf(lab, (3, 2, 1, 5), 1, F16), leaf(lab, (8, 7, 5, 2), 2, F16)
    ),
    "conv_2d_dw channels inside": lambda lab: _depthwise_inside(lab, F32, 5),
    "conv_2d_dw channels inside, f16 pairs": lambda lab: _depthwise_inside(lab, F16, 6),
    "conv_2d_dw channels inside, f16 odd": lambda lab: _depthwise_inside(lab, F16, 5),
    "conv_3d": _conv_3d(F32),
    "conv_3d f16 kernel": _conv_3d(F16),
    "conv_transpose_1d": lambda lab: ops.conv_transpose_1d(
        lab.ctx, leaf(lab, (5, 4, 3), 1), leaf(lab, (13, 3), 2), 2
    ),
    "conv_transpose_1d f16 kernel, gaps": lambda lab: ops.conv_transpose_1d(
        lab.ctx, leaf(lab, (2, 4, 3), 1, F16), leaf(lab, (13, 3), 2), 3
    ),
    "conv_transpose_2d": lambda lab: ops.conv_transpose_2d_p0(
        lab.ctx, leaf(lab, (3, 2, 4, 5), 1, F16), leaf(lab, (7, 6, 5, 2), 2), 2
    ),
    "conv_transpose_2d gaps": lambda lab: ops.conv_transpose_2d_p0(
        lab.ctx, leaf(lab, (2, 2, 4, 5), 1), leaf(lab, (7, 6, 5, 2), 2), 3
    ),
    "im2col f32": _im2col(F32, (3, 2, 3), **PADDED),
    "im2col f16 pairs": _im2col(F16, (3, 2, 3), **PADDED),
    "im2col f16 odd rows": _im2col(F16, (3, 3, 3), **FAR),
    "im2col bf16": _im2col(BF16, (3, 3, 3), **PADDED),
    "im2col 1d": _im2col_1d(F32),
    "im2col 1d f16": _im2col_1d(F16),
    "im2col channels inside": _im2col_view,
    "im2col_3d": _im2col_3d(F32),
    "im2col_3d f16": _im2col_3d(F16),
    "im2col_back": lambda lab: _im2col_back(lab, PADDED),
    "im2col_back far": lambda lab: _im2col_back(lab, FAR),
    "im2col_back 1d": _im2col_back_1d,
    "col2im_1d": _col2im(F32, 5, 2, 1),
    "col2im_1d f16 odd": _col2im(F16, 5, 2, 1),
    "col2im_1d f16 pairs": _col2im(F16, 4, 3, 0, 7),
    "col2im_1d bf16 gaps": _col2im(BF16, 2, 3, 0),
}

# ---- pooling ------------------------------------------------------------------------------------


def _pool_1d(kind: PoolOp, type_: Type = F32) -> Build:
    return lambda lab: ops.pool_1d(lab.ctx, leaf(lab, (23, 3, 2), 1, type_), kind, 4, 3, 2)


def _pool_2d(kind: PoolOp, type_: Type = F32) -> Build:
    return lambda lab: ops.pool_2d(
        lab.ctx, leaf(lab, (13, 11, 3, 2), 1, type_), kind, (3, 2), (2, 3), (2, 1)
    )


def _pool_back(kind: PoolOp, stride: tuple[int, int], ties: bool = False) -> Build:
    def build(lab: Lab) -> Tensor:
        x = values((2, 3, 11, 13), 1)
        image = lab.tensor(np.round(x) if ties else x)
        how: dict[str, Any] = {"kernel": (3, 2), "stride": stride, "padding": (1, 1)}
        shape = ops.pool_2d(lab.ctx, image, kind, **how).ne
        return ops.pool_2d_back(lab.ctx, leaf(lab, shape, 2), image, kind, **how)

    return build


POOLING: dict[str, Build] = {
    "pool_1d max": _pool_1d(PoolOp.MAX),
    "pool_1d avg": _pool_1d(PoolOp.AVG),
    "pool_1d f16": _pool_1d(PoolOp.AVG, F16),
    "pool_2d max": _pool_2d(PoolOp.MAX),
    "pool_2d avg": _pool_2d(PoolOp.AVG),
    "pool_2d f16": _pool_2d(PoolOp.MAX, F16),
    "pool_2d_back max": _pool_back(PoolOp.MAX, (1, 1)),
    "pool_2d_back max, ties": _pool_back(PoolOp.MAX, (1, 2), ties=True),
    "pool_2d_back avg": _pool_back(PoolOp.AVG, (2, 1)),
    "pool_2d_back gaps": _pool_back(PoolOp.MAX, (4, 3)),
}

# ---- recurrent ----------------------------------------------------------------------------------


def _scan(
    d_state: int, dim: int, heads: int, groups: int, *, each: bool = False, tokens: int = 11,
    n_seq: int = 2, slots: int = 1, odd: bool = False,
) -> Build:  # fmt: skip
    """`odd` starts x, b and c in the middle of a vec4."""

    def build(lab: Lab) -> Tensor:
        ctx = lab.ctx
        s = leaf(lab, (d_state, dim, heads, n_seq + 2), 1)
        joined = leaf(lab, (dim * heads + 2 * groups * d_state + odd, tokens, n_seq), 2)

        def cut(begin: int, ne: tuple[int, int]) -> Tensor:
            nb = (ne[0] * 4, joined.nb[1], joined.nb[2])
            return ops.view(ctx, joined, (*ne, tokens, n_seq), nb, 4 * (begin + odd))

        x = cut(0, (dim, heads))
        b = cut(dim * heads, (d_state, groups))
        c = cut(dim * heads + groups * d_state, (d_state, groups))
        dt = leaf(lab, (heads, tokens, n_seq), 3)
        a = lab.tensor(-np.abs(values((heads, d_state if each else 1), 4)) - 0.05)
        ids = lab.tensor(np.array([2, 1][:n_seq], np.int32), Type.I32)
        return ops.ssm_scan(ctx, s, x, dt, a, b, c, ids, slots)

    return build


def _wkv6(size: int, heads: int = 3, tokens: int = 5, n_seq: int = 2) -> Build:
    def build(lab: Lab) -> Tensor:
        ne = (size, heads, tokens * n_seq)
        k, v, r = (leaf(lab, ne, i) for i in range(3))
        state = leaf(lab, (size * size * heads, n_seq), 5)
        tf = leaf(lab, (size, heads), 3)
        return ops.rwkv_wkv6(lab.ctx, k, v, r, tf, fraction(lab, ne, 4), state)

    return build


def _wkv7(size: int, heads: int = 3, tokens: int = 5, n_seq: int = 2) -> Build:
    def build(lab: Lab) -> Tensor:
        ne = (size, heads, tokens * n_seq)
        r, v = leaf(lab, ne, 0), leaf(lab, ne, 1)
        k, a, b = (units(lab, ne, i) for i in (2, 3, 4))
        state = leaf(lab, (size * size * heads, n_seq), 5)
        return ops.rwkv_wkv7(lab.ctx, r, fraction(lab, ne, 6), k, v, a, b, state)

    return build


def _gla(size: int, heads: int = 3, tokens: int = 5, n_seq: int = 2) -> Build:
    def build(lab: Lab) -> Tensor:
        ne = (size, heads, tokens * n_seq)
        k, v, q = (leaf(lab, ne, i) for i in range(3))
        state = leaf(lab, (size * size * heads, n_seq), 5)
        return ops.gated_linear_attn(lab.ctx, k, v, q, fraction(lab, ne, 4), state, 0.3)

    return build


def _delta(
    size: int, *, heads: int = 4, key_heads: int = 4, key_seqs: int = 2, by_key: bool = False,
    slots: int = 1, tokens: int = 5, permuted: bool = False,
) -> Build:  # fmt: skip
    def build(lab: Lab) -> Tensor:
        n_seq = 2

        def rows(n: int, seqs: int, seed: int, unit: bool) -> Tensor:
            make = units if unit else leaf
            if not permuted:
                return make(lab, (size, n, tokens, seqs), seed)
            return ops.permute(lab.ctx, make(lab, (size, tokens, n, seqs), seed), 0, 2, 1, 3)

        q, k = rows(key_heads, key_seqs, 1, True), rows(key_heads, key_seqs, 2, True)
        v = rows(heads, n_seq, 3, False)
        g = lab.tensor(-np.abs(values((n_seq, tokens, heads, size if by_key else 1), 4)))
        beta = fraction(lab, (1, heads, tokens, n_seq), 5)
        state = leaf(lab, (size, size, heads, n_seq), 6)
        return ops.gated_delta_net(lab.ctx, q, k, v, g, beta, state, slots)

    return build


def _solve(n: int, columns: int) -> Build:
    def build(lab: Lab) -> Tensor:
        a = np.tril(values((2, 3, n, n), 1)) / np.sqrt(n) + 2 * np.eye(n, dtype=np.float32)
        return ops.solve_tri(lab.ctx, lab.tensor(a), leaf(lab, (columns, n, 3, 2), 2))

    return build


RECURRENT: dict[str, Build] = {
    "ssm_conv": lambda lab: ops.ssm_conv(lab.ctx, leaf(lab, (13, 37, 2), 1), leaf(lab, (4, 37), 2)),
    "ssm_scan mamba 1": _scan(16, 1, 24, 1, each=True),
    "ssm_scan mamba 2": _scan(32, 8, 6, 2),
    "ssm_scan large state": _scan(128, 16, 2, 1),
    "ssm_scan slots": _scan(16, 4, 6, 3, slots=3),
    "ssm_scan no quads": _scan(6, 3, 4, 2),
    "ssm_scan odd places": _scan(32, 8, 4, 1, odd=True),
    "ssm_scan one token": _scan(64, 8, 4, 1, tokens=1, n_seq=1),
    **{f"rwkv_wkv6 {n}": _wkv6(n) for n in (5, 16, 64)},
    **{f"rwkv_wkv7 {n}": _wkv7(n) for n in (5, 16, 64)},
    **{f"gated_linear_attn {n}": _gla(n) for n in (5, 16, 64)},
    **{f"gated_delta_net {n}": _delta(n) for n in (6, 8, 16, 128)},
    "gated_delta_net by key": _delta(32, by_key=True),
    "gated_delta_net shared keys": _delta(32, key_heads=2, key_seqs=1),
    "gated_delta_net permuted": _delta(16, permuted=True, by_key=True, slots=3),
    "solve_tri": _solve(37, 9),
    "solve_tri one column": _solve(70, 1),
}


# ---- DeepSeek -----------------------------------------------------------------------------------


def _indexer(
    type_: Type, d: int, heads: int, n_kv: int, masks: int = 1, odd: bool = False
) -> Build:
    def build(lab: Lab) -> Tensor:
        n_q, n_s = 3, 2
        q = leaf(lab, (d + odd, heads, n_q, n_s), 1)
        if odd:
            q = ops.view(lab.ctx, q, (d, heads, n_q, n_s), q.nb[1:], 4)
        mask = np.where(rng(4).random((masks, 1, n_q, n_kv)) < 0.2, -np.inf, values((n_kv,), 5))
        return ops.lightning_indexer(
            lab.ctx, q, leaf(lab, (d, 1, n_kv, n_s), 2, type_), leaf(lab, (heads, n_q, 1, n_s), 3),
            lab.tensor(mask, F16),
        )  # fmt: skip

    return build


def _post(mixed: bool) -> Build:
    return lambda lab: ops.dsv4_hc_post(
        lab.ctx, leaf(lab, (67, 5), 1), leaf(lab, (67, 3, 5), 2), leaf(lab, (3, 5), 3),
        leaf(lab, (3, 3, 5), 4) if mixed else None,
    )  # fmt: skip


DEEPSEEK: dict[str, Build] = {
    "lightning_indexer f32": _indexer(F32, 64, 11, 70),
    "lightning_indexer f16": _indexer(F16, 128, 3, 129, masks=2),
    "lightning_indexer q8_0, odd places": _indexer(Type.Q8_0, 64, 9, 33, odd=True),
    "lightning_indexer q4_K": _indexer(Type.Q4_K, 256, 4, 33),
    "dsv4_hc_comb": lambda lab: ops.dsv4_hc_comb(
        lab.ctx, leaf(lab, (24, 71), 1), leaf(lab, (3,), 2), leaf(lab, (24,), 3), 1e-3, 5
    ),
    "dsv4_hc_comb one round": lambda lab: ops.dsv4_hc_comb(
        lab.ctx, leaf(lab, (24, 9), 1), leaf(lab, (3,), 2), leaf(lab, (24,), 3), 0.2, 1
    ),
    "dsv4_hc_pre": lambda lab: ops.dsv4_hc_pre(
        lab.ctx, leaf(lab, (67, 3, 5), 1), leaf(lab, (3, 5), 2)
    ),
    "dsv4_hc_pre gated": lambda lab: ops.dsv4_hc_pre_gated(
        lab.ctx, leaf(lab, (67, 3, 5), 1), leaf(lab, (67, 3, 5), 2), 0.7
    ),
    "dsv4_hc_post": _post(True),
    "dsv4_hc_post unmixed": _post(False),
}

CASES: dict[str, Build] = {**CONVOLUTIONS, **POOLING, **RECURRENT, **DEEPSEEK}
