"""State-space and linear-attention layers: a loop over tokens, all heads and sequences at once.

Their results hold the outputs of all tokens, followed by the states after the last one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl, check_index, floats, only
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def _operands(c: Compiler, node: Tensor, n: int) -> list[F32]:
    loaded = []
    for t in node.src[:n]:
        assert t is not None
        loaded.append(c.load(t))
    return loaded


def _split(y: F32, n: int) -> tuple[F32, F32]:
    """(outputs, states) of a flat result whose first `n` values are outputs."""
    flat = y.reshape(-1)
    return flat[:n], flat[n:]


def _ssm_conv(c: Compiler, node: Tensor) -> None:
    """y[s, t, i] = sum over k of x[s, i, t + k] w[i, k]"""
    x, w = _operands(c, node, 2)
    y = c.out(node)[0]
    x, w = x[0], w[0, 0]
    tokens, taps = y.shape[1], w.shape[1]
    part = c.scratch((len(x), x.shape[1], tokens))
    total = c.scratch(part.shape)
    for k in range(taps):
        target = total if k == 0 else part
        c.emit(np.multiply, x[:, :, k : k + tokens], w[None, :, k, None], target)
        if k:
            c.emit(np.add, total, part, total)
    c.emit(np.copyto, y, total.swapaxes(1, 2))


def _ssm_scan(c: Compiler, node: Tensor) -> None:
    """Mamba's selective scan; slot i of the states is the one i tokens before the end."""
    s, x, dt, a, b, cc = _operands(c, node, 6)
    ids_tensor = node.src[6]
    assert ids_tensor is not None
    ids = c.array(ids_tensor).reshape(-1)
    slots = node.param_i32(0)
    n_seq, tokens, heads, dim = x.shape
    groups = b.shape[2]
    flat_y, flat_s = _split(c.out(node), x.size)
    y = flat_y.reshape(n_seq, tokens, heads, dim)
    states = flat_s.reshape(slots, n_seq, heads, dim, s.shape[3])
    decay = a[0, 0]  # [head, state] or [head, 1]

    def run() -> None:
        check_index(ids, s.shape[0], node)
        state = s[ids]
        step = dt.reshape(n_seq, tokens, heads)
        # softplus, linear above 20 as ggml has it
        step = np.where(step > 20, step, np.log1p(np.exp(np.minimum(step, 20))))
        for t in range(tokens):
            per_head = step[:, t, :, None]
            kept = np.exp(per_head * decay[None])[:, :, None, :]
            into = np.repeat(b[:, t], heads // groups, axis=1)[:, :, None, :]
            out = np.repeat(cc[:, t], heads // groups, axis=1)
            state = state * kept + (x[:, t] * per_head)[..., None] * into
            y[:, t] = np.matmul(state, out[..., None])[..., 0]
            back = tokens - 1 - t
            if back < slots:
                states[back] = state

    c.emit(run)


def _ssm_scan_why_not(node: Tensor) -> str | None:
    ids = node.src[6]
    if ids is None or ids.type != Type.I32:
        return "ids must be I32"
    return only(Type.F32, Type.I32)(node)


def _per_sequence(x: F32, n_seq: int) -> F32:
    """[1, tokens of all sequences, head, size] -> [sequence, token, head, size]"""
    return x.reshape(n_seq, -1, *x.shape[2:])


def _gated_linear_attn(c: Compiler, node: Tensor) -> None:
    """S = diag(g) S + k v^T; y = scale q S"""
    k, v, q, g, s0 = _operands(c, node, 5)
    heads, size = k.shape[2:]
    n_seq = s0.size // (heads * size * size)
    flat_y, flat_s = _split(c.out(node), v.size)
    k, v, q, g = (_per_sequence(a, n_seq) for a in (k, v, q, g))
    y = flat_y.reshape(v.shape)
    final = flat_s.reshape(n_seq, heads, size, size)
    scale = np.float32(node.param_f32(0))

    def run() -> None:
        state = s0.reshape(final.shape)
        for t in range(k.shape[1]):
            state = state * g[:, t, :, :, None] + k[:, t, :, :, None] * v[:, t, :, None, :]
            y[:, t] = scale * np.matmul(q[:, t, :, None, :], state)[:, :, 0]
        final[...] = state

    c.emit(run)


def _rwkv_wkv6(c: Compiler, node: Tensor) -> None:
    """y = r (S + u k v^T); S = diag(decay) S + k v^T (RWKV-6)"""
    k, v, r, u, decay, s0 = _operands(c, node, 6)
    heads, size = k.shape[2:]
    n_seq = s0.size // (heads * size * size)
    flat_y, flat_s = _split(c.out(node), v.size)
    k, v, r, decay = (_per_sequence(a, n_seq) for a in (k, v, r, decay))
    y = flat_y.reshape(v.shape)
    final = flat_s.reshape(n_seq, heads, size, size)
    bonus = u.reshape(heads, size, 1)

    def run() -> None:
        state = s0.reshape(final.shape)
        for t in range(k.shape[1]):
            kv = k[:, t, :, :, None] * v[:, t, :, None, :]
            y[:, t] = np.matmul(r[:, t, :, None, :], state + bonus * kv)[:, :, 0]
            state = state * decay[:, t, :, :, None] + kv
        final[...] = state

    c.emit(run)


def _rwkv_wkv7(c: Compiler, node: Tensor) -> None:
    """S = S diag(w) + v k^T + (S a) b^T; y = S r (RWKV-7)"""
    r, w, k, v, a, b, s0 = _operands(c, node, 7)
    heads, size = k.shape[2:]
    n_seq = s0.size // (heads * size * size)
    flat_y, flat_s = _split(c.out(node), v.size)
    r, w, k, v, a, b = (_per_sequence(x, n_seq) for x in (r, w, k, v, a, b))
    y = flat_y.reshape(v.shape)
    final = flat_s.reshape(n_seq, heads, size, size)

    def run() -> None:
        state = s0.reshape(final.shape)
        for t in range(k.shape[1]):
            along = np.matmul(state, a[:, t, :, :, None])
            state = (
                state * w[:, t, :, None, :]
                + v[:, t, :, :, None] * k[:, t, :, None, :]
                + along * b[:, t, :, None, :]
            )
            y[:, t] = np.matmul(state, r[:, t, :, :, None])[..., 0]
        final[...] = state

    c.emit(run)


def _gated_delta_net(c: Compiler, node: Tensor) -> None:
    """S = exp(g) S; d = beta (v - S k); S += d k^T; y = S q / sqrt(size). The state is stored
    transposed, as [value, key]; g is one value a head or one a key channel."""
    q, k, v, g, beta, s0 = _operands(c, node, 6)
    n_seq, tokens, heads, size = v.shape
    slots = node.param_i32(0)
    flat_y, flat_s = _split(c.out(node), v.size)
    y = flat_y.reshape(v.shape)
    states = flat_s.reshape(-1, n_seq, heads, size, size)
    scale = np.float32(1 / math.sqrt(size))

    def spread(x: F32) -> F32:
        """To all sequences (neighbours share) and heads (taken in turn)."""
        return np.tile(np.repeat(x, n_seq // x.shape[0], axis=0), (1, 1, heads // x.shape[2], 1))

    def run() -> None:
        state = s0.reshape(n_seq, heads, size, size).copy()
        queries, keys, kept = spread(q), spread(k), np.exp(g)
        for t in range(tokens):
            state *= kept[:, t, :, None, :]
            key = keys[:, t, :, :, None]
            delta = (v[:, t, :, :, None] - np.matmul(state, key)) * beta[:, t, :, :, None]
            state += delta * key.swapaxes(2, 3)
            y[:, t] = np.matmul(state, queries[:, t, :, :, None])[..., 0] * scale
            back = tokens - 1 - t
            if back < slots:
                states[back] = state

    c.emit(run)


def _solve_tri(c: Compiler, node: Tensor) -> None:
    """X with A X = B, A lower triangular, by forward substitution."""
    a, b = _operands(c, node, 2)
    y = c.out(node)

    def run() -> None:
        for i in range(a.shape[2]):
            known = np.matmul(a[:, :, i : i + 1, :i], y[:, :, :i])[:, :, 0]
            y[:, :, i] = (b[:, :, i] - known) / a[:, :, i, i, None]

    c.emit(run)


# ---- hyper-connections and the indexer of DeepSeek V4 -------------------------------------------

STREAMS = 4


def _hc_comb(c: Compiler, node: Tensor) -> None:
    """Mixing matrices [token, source, target]: a softmax over targets, then op_params[1] rounds
    of normalising columns and rows (Sinkhorn)."""
    mixes, scale, base = _operands(c, node, 3)
    y = c.out(node)[0]
    eps, rounds = np.float32(node.param_f32(0)), node.param_i32(1)
    mix = mixes[0, 0][:, 2 * STREAMS :].reshape(-1, STREAMS, STREAMS)
    bias = base.reshape(-1)[2 * STREAMS :].reshape(STREAMS, STREAMS)

    def run() -> None:
        m = mix * scale.reshape(-1)[2] + bias
        m = np.exp(m - m.max(axis=2, keepdims=True))
        m = m / m.sum(axis=2, keepdims=True) + eps
        for i in range(rounds):
            if i:
                m = m / (m.sum(axis=2, keepdims=True) + eps)
            m = m / (m.sum(axis=1, keepdims=True) + eps)
        y[...] = m

    c.emit(run)


def _hc_pre(c: Compiler, node: Tensor) -> None:
    """y[t] = scale * sum over streams of x[t, stream] weight; gated: weight = sigmoid"""
    x, w = _operands(c, node, 2)
    y = c.out(node)[0, 0]
    scale = np.float32(node.param_f32(0))
    gated = bool(node.param_i32(1))

    def run() -> None:
        weights = 1 / (1 + np.exp(-w[0])) if gated else w[0, 0][:, :, None]
        np.multiply((x[0] * weights).sum(axis=1), scale, y)

    c.emit(run)


def _hc_post(c: Compiler, node: Tensor) -> None:
    """y[t, target] = x[t] post[t, target] + sum over sources of comb[t, source, target] r[source]
    (without comb each stream keeps its own residual)"""
    x, residual, post = _operands(c, node, 3)
    comb_tensor = node.src[3] if len(node.src) > 3 else None
    comb = None if comb_tensor is None else c.load(comb_tensor)[0]
    y = c.out(node)[0]

    def run() -> None:
        kept = residual[0] if comb is None else np.matmul(comb.swapaxes(1, 2), residual[0])
        np.add(x[0, 0][:, None, :] * post[0, 0][:, :, None], kept, y)

    c.emit(run)


def _lightning_indexer(c: Compiler, node: Tensor) -> None:
    """y[s, t, j] = sum over heads of relu(q[t, h] . k[j]) w[t, h] + mask[t, j]"""
    q, k, w, mask = _operands(c, node, 4)
    y = c.out(node)
    keys = k[:, :, 0]  # [stream, kv, n]

    def run() -> None:
        for s in range(len(q)):
            scores = np.matmul(q[s], keys[s].T)  # [token, head, kv]
            np.maximum(scores, 0, out=scores)
            weighted = np.matmul(w[s, 0][:, None, :], scores)[:, 0]
            np.add(weighted, mask[s % len(mask), 0], y[s, 0])

    c.emit(run)


OPS: dict[Op, OpImpl] = {
    Op.SSM_CONV: OpImpl(_ssm_conv, F32_ONLY),
    Op.SSM_SCAN: OpImpl(_ssm_scan, _ssm_scan_why_not),
    Op.GATED_LINEAR_ATTN: OpImpl(_gated_linear_attn, F32_ONLY),
    Op.RWKV_WKV6: OpImpl(_rwkv_wkv6, F32_ONLY),
    Op.RWKV_WKV7: OpImpl(_rwkv_wkv7, F32_ONLY),
    Op.GATED_DELTA_NET: OpImpl(_gated_delta_net, F32_ONLY),
    Op.SOLVE_TRI: OpImpl(_solve_tri, F32_ONLY),
    Op.DSV4_HC_COMB: OpImpl(_hc_comb, F32_ONLY),
    Op.DSV4_HC_PRE: OpImpl(_hc_pre, F32_ONLY),
    Op.DSV4_HC_POST: OpImpl(_hc_post, F32_ONLY),
    Op.LIGHTNING_INDEXER: OpImpl(_lightning_indexer, floats),
}
