"""Attention in one op: scores, softmax and weighted sum through stacked products.

Prompts go through in tiles of queries, all heads at once. Columns that the mask hides from a whole
tile are left out, of the conversion of K and V too; which those are is known only when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import (
    F32,
    Array,
    read_into,
    readable,
    reduce_max,
    reduce_sum,
    repeat_views,
)
from wggml.backends.cpu.mirrors import mirror_of
from wggml.backends.cpu.ops._masks import LOWEST, TINY, alibi_slopes, load_mask, shared_columns
from wggml.backends.cpu.ops.matmul import is_blas_ready
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

SCORES = 2**20  # f32 scores a tile of queries may fill: 4 MiB
TILE_ROWS = 128  # queries a tile: few enough that a causal mask hides columns from whole tiles


def why_not(node: Tensor) -> str | None:
    """Reason in words, or None."""
    for t in node.src:
        if t is not None and not readable(t.type):
            return f"an operand of type {TRAITS[t.type].name}"
        if t is not None and TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return f"a {TRAITS[t.type].name} operand whose rows have gaps"
    return None if node.type == Type.F32 else f"a result of type {TRAITS[node.type].name}"


def compile(c: Compiler, node: Tensor) -> None:
    """One token of one sequence takes a shorter way, unless it needs the seldom-used parts."""
    q, k, v = node.src[:3]
    assert q is not None and k is not None and v is not None
    single = q.ne[1] == q.ne[3] == 1 and k.ne[2] == v.ne[2]
    usual = node.param_f32(1) == 0.0 and (len(node.src) < 5 or node.src[4] is None)
    c.emit((_OneQuery if single and usual else _Flash)(c, node).run)


class _Operand:
    """K or V, [b, kv head, n_kv, d], read as f32 over the columns in use: a window if it is f32 or
    the cache has a mirror, else converted into scratch that has the operand's own order in memory.
    """

    def __init__(self, c: Compiler, t: Tensor, *, is_k: bool) -> None:
        self.type = t.type
        self.array: Array = c.array(t)
        self.mirror = mirror_of(t, c.weights, transposed=is_k)
        if self.mirror is not None:
            assert self.mirror.values is not None
            self.array = self.mirror.values[None, :, : t.ne[1]]
        self.direct = self.mirror is not None or (t.type == Type.F32 and is_blas_ready(self.array))
        if self.direct:
            return
        # heads of one position usually lie side by side: then positions come first
        self.by_position = t.nb[1] >= t.nb[2]
        self.source = self.array.swapaxes(1, 2) if self.by_position else self.array
        self.length = t.ne[0]
        self.buffer: F32 = c.scratch((t.n_elements,))

    def values(self, lo: int, hi: int) -> F32:
        """[b, kv head, hi - lo, d]"""
        if self.mirror is not None:
            self.mirror.upto(hi)
        if self.direct:
            return self.array[:, :, lo:hi]
        part = self.source[:, lo:hi] if self.by_position else self.source[:, :, lo:hi]
        b, m, n, _ = part.shape
        out = self.buffer[: b * m * n * self.length].reshape(b, m, n, self.length)
        read_into(part, self.type, out)
        return out.swapaxes(1, 2) if self.by_position else out


class _Flash:
    """Any FLASH_ATTN_EXT node."""

    def __init__(self, c: Compiler, node: Tensor) -> None:
        q, k, v = node.src[:3]
        mask, sinks = ([*node.src[3:5], None, None])[:2]
        assert q is not None and k is not None and v is not None
        scale, self.cap = np.float32(node.param_f32(0)), np.float32(node.param_f32(2))
        if self.cap:
            scale /= self.cap
        self.q: F32 = c.scratch((q.ne[3], q.ne[2], q.ne[1], q.ne[0]))
        c.emit(np.multiply, c.load(q), scale, self.q)  # fewer values than the scores
        self.k, self.v = _Operand(c, k, is_k=True), _Operand(c, v, is_k=False)
        self.out: F32 = c.out(node).swapaxes(1, 2)  # [b, head, n, dv], in memory [b, n, head, dv]
        batch, heads, n, _ = self.q.shape
        self.n, self.n_kv = n, k.ne[1]
        self.tile = max(1, min(n, TILE_ROWS, SCORES // max(1, batch * heads * self.n_kv)))
        self.scores: F32 = c.scratch((batch * heads * self.tile * self.n_kv,))
        self.peak: F32 = c.scratch((batch * heads * self.tile,))
        self.total: F32 = c.scratch((batch * heads * self.tile,))
        self.slopes = alibi_slopes(heads, node.param_f32(1))
        self.sloped: F32 = c.scratch((0 if self.slopes is None else self.tile * self.n_kv,))
        self.sinks = None if sinks is None else c.load(sinks).reshape(1, -1, 1, 1)
        self.bias = None if mask is None else load_mask(c, mask)[:, :, :n]
        self.columns = None
        if mask is not None and self.bias is not None:
            self.columns = shared_columns(c, mask, self.bias, n, self.tile)

    def run(self) -> None:
        tiles = -(-self.n // self.tile)
        spans = [(0, self.n_kv, True)] * tiles if self.columns is None else self.columns.spans
        lo = min((s[0] for s in spans if s[1]), default=0)
        hi = max(s[1] for s in spans)
        k, v = self.k.values(lo, hi), self.v.values(lo, hi)
        for i, (first, last, plain) in enumerate(spans):
            rows = slice(i * self.tile, min((i + 1) * self.tile, self.n))
            out = self.out[:, :, rows]
            if first == last:  # sees nothing
                out[...] = 0
                continue
            seen = slice(first - lo, last - lo)
            self._tile(rows, k[:, :, seen], v[:, :, seen], out, first, plain)

    def _tile(self, rows: slice, k: F32, v: F32, out: F32, first: int, plain: bool) -> None:
        q = self.q[:, :, rows]
        batch, heads, n, _ = q.shape
        width = k.shape[2]
        size = batch * heads * n
        s = self.scores[: size * width].reshape(batch, heads, n, width)
        peak = self.peak[:size].reshape(batch, heads, n, 1)
        total = self.total[:size].reshape(batch, heads, n, 1)
        stacked_product(k.swapaxes(-1, -2), q, s)
        if self.cap:
            np.tanh(s, s)
            np.multiply(s, self.cap, s)
        if not plain:
            self._add_mask(s, rows, first)
        reduce_max(s, -1, None, peak, True, LOWEST)
        if self.sinks is not None:
            np.maximum(peak, self.sinks, out=peak)
        np.subtract(s, peak, s)
        np.exp(s, s)
        reduce_sum(s, -1, None, total, True)
        if self.sinks is not None:
            np.subtract(self.sinks, peak, peak)
            np.exp(peak, peak)
            np.add(total, peak, total)
        np.maximum(total, TINY, out=total)
        stacked_product(v, s, out)
        np.divide(out, total, out)  # dv values a row, not n_kv

    def _add_mask(self, s: F32, rows: slice, first: int) -> None:
        assert self.bias is not None
        bias = self.bias[:, :, rows, first : first + s.shape[3]]
        if self.slopes is None:
            shape, small = repeat_views(s.shape, bias)
            wide = s.reshape(shape)
            np.add(wide, small, wide)
            return
        t = self.sloped[: s.shape[2] * s.shape[3]].reshape(s.shape[2:])
        for b in range(s.shape[0]):
            for h in range(s.shape[1]):
                part = bias[b % bias.shape[0], h % bias.shape[1]]
                np.multiply(part, self.slopes[h], t)
                np.add(s[b, h], t, s[b, h])


class _OneQuery:
    """One query of one sequence, without ALiBi and sinks: what generating a token needs.

    Its steps are those of `_Flash._tile`; what can be sliced and shaped beforehand is. For 60
    columns of SmolLM2's heads the general way takes 59 us, this one 26.
    """

    def __init__(self, c: Compiler, node: Tensor) -> None:
        q, k, v = node.src[:3]
        mask = node.src[3] if len(node.src) > 3 else None
        assert q is not None and k is not None and v is not None
        scale, self.cap = np.float32(node.param_f32(0)), np.float32(node.param_f32(2))
        if self.cap:
            scale /= self.cap
        heads, share = q.ne[2], q.ne[2] // k.ne[2]
        loaded = c.load(q)
        scaled: F32 = c.scratch(loaded.shape)
        c.emit(np.multiply, loaded, scale, scaled)
        self.q = scaled.reshape(k.ne[2], share, q.ne[0])
        self.k, self.v = _Operand(c, k, is_k=True), _Operand(c, v, is_k=False)
        self.out: F32 = c.out(node).reshape(k.ne[2], share, v.ne[0])
        self.n_kv = k.ne[1]
        self.scores: F32 = c.scratch((heads * self.n_kv,))
        self.peak: F32 = c.scratch((k.ne[2], share, 1))
        self.total: F32 = c.scratch((k.ne[2], share, 1))
        self.bias = None
        self.columns = None
        if mask is not None:
            bias = load_mask(c, mask)[:, :, :1]
            self.columns = shared_columns(c, mask, bias, 1, 1)
            per_head = np.broadcast_to(bias, (1, bias.shape[1], 1, self.n_kv))
            self.bias = [per_head[0, h % bias.shape[1], 0] for h in range(heads)]
            self.one_bias = bias.shape[1] == 1

    def run(self) -> None:
        plain, lo, hi = True, 0, self.n_kv
        if self.columns is not None:
            lo, hi, plain = self.columns.spans[0]
        k, v, out = self.k.values(lo, hi)[0], self.v.values(lo, hi)[0], self.out
        heads, share = out.shape[:2]
        s = self.scores[: heads * share * (hi - lo)].reshape(heads, share, hi - lo)
        np.matmul(self.q, k.swapaxes(1, 2), s)
        if self.cap:
            np.tanh(s, s)
            np.multiply(s, self.cap, s)
        if not plain:
            self._add_mask(s, lo, hi)
        reduce_max(s, 2, None, self.peak, True, LOWEST)
        np.subtract(s, self.peak, s)
        np.exp(s, s)
        reduce_sum(s, 2, None, self.total, True)
        np.maximum(self.total, TINY, out=self.total)
        np.matmul(s, v, out)
        np.divide(out, self.total, out)

    def _add_mask(self, s: F32, lo: int, hi: int) -> None:
        assert self.bias is not None
        if self.one_bias:
            np.add(s, self.bias[0][lo:hi], s)
            return
        for h, row in enumerate(s.reshape(-1, hi - lo)):
            np.add(row, self.bias[h][lo:hi], row)


def stacked_product(a: F32, b: F32, d: F32) -> None:
    """d[.., n, m] = b[.., n, k] . a[.., k, m]: neighbouring stacks of `b` share one of `a`."""
    a3, a2 = a.shape[:2]
    b3, b2, n = b.shape[:3]
    if b3 == a3 and n == 1:  # vectors that share a matrix become the rows of one product
        np.matmul(b.reshape(a3, a2, b2 // a2, -1), a, d.reshape(a3, a2, b2 // a2, -1))
    elif b3 == a3 and b2 == a2:
        np.matmul(b, a, d)
    else:
        stacks = (a3, b3 // a3, a2, b2 // a2)
        np.matmul(
            b.reshape(*stacks, *b.shape[2:]),
            a.reshape(a3, 1, a2, 1, *a.shape[2:]),
            d.reshape(*stacks, *d.shape[2:]),
        )
