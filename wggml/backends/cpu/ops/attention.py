"""Softmax, rotary positions and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, read_into, readable, reduce_max, reduce_sum, repeat_views
from wggml.backends.cpu.ops import _rope
from wggml.backends.cpu.ops._impl import OpImpl
from wggml.backends.cpu.ops.matmul import is_blas_ready
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

# Stand-ins that keep fully masked rows at 0: exp(-inf - LOWEST) is 0, and 0 / TINY is 0.
LOWEST = np.float32(-3e38)
TINY = np.float32(1e-37)
SCORES = 2**20  # f32 scores a tile of queries may fill: 4 MiB
TILE_ROWS = 128  # queries a tile: few enough that a causal mask hides columns from whole tiles


def alibi_slopes(n_head: int, max_bias: float) -> F32 | None:
    """Slope of the mask for each head (arXiv:2108.12409, with ggml's rule for head counts that
    are no power of two); None when `max_bias` is 0, where every slope is 1."""
    if max_bias <= 0.0:
        return None
    n = 1 << (n_head.bit_length() - 1)
    m0, m1 = 2.0 ** (-max_bias / n), 2.0 ** (-max_bias / 2.0 / n)
    slopes = [m0 ** (h + 1) if h < n else m1 ** (2 * (h - n) + 1) for h in range(n_head)]
    return np.array(slopes, np.float32)


def load_mask(c: Compiler, mask: Tensor) -> F32:
    """The mask as f32, converted once a run for all nodes that use it. It holds -inf, which a
    cast keeps at no extra cost."""
    if mask.type == Type.F32:
        return c.array(mask)

    def make() -> F32:
        values: F32 = c.keep((mask.ne[3], mask.ne[2], mask.ne[1], mask.ne[0]))
        if mask.type == Type.F16:
            c.emit(np.copyto, values, c.array(mask))
        else:
            c.emit_load(c.array(mask), mask.type, values)
        return values

    values: F32 = c.shared(("f32", id(mask)), mask, make)
    return values


def emit_softmax(c: Compiler, s: F32, masked: bool, sinks: F32 | None, y: F32) -> None:
    """y = softmax over the last axis; `sinks` (broadcasting to one value a row) take part in
    maximum and sum only. Rows that are -inf throughout become 0. `y` may be `s`."""
    peak: F32 = c.scratch((*s.shape[:-1], 1))
    total: F32 = c.scratch(peak.shape)
    c.emit(reduce_max, s, -1, None, peak, True)
    if sinks is not None:
        c.emit(np.maximum, peak, sinks, peak)
    if masked:
        c.emit(np.maximum, peak, LOWEST, peak)
    c.emit(np.subtract, s, peak, y)
    c.emit(np.exp, y, y)
    c.emit(reduce_sum, y, -1, None, total, True)
    if sinks is not None:
        c.emit(np.subtract, sinks, peak, peak)
        c.emit(np.exp, peak, peak)
        c.emit(np.add, total, peak, total)
    if masked:
        c.emit(np.maximum, total, TINY, total)
    c.emit(np.divide, y, total, y)


def _soft_max_why_not(node: Tensor) -> str | None:
    a, mask = node.src[0], node.src[1] if len(node.src) > 1 else None
    if a is None or a.type != Type.F32 or node.type != Type.F32:
        return "anything but F32"
    if mask is not None and mask.type not in (Type.F32, Type.F16):
        return f"a mask of type {TRAITS[mask.type].name}"
    return None


def _soft_max(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    mask, sinks = ([*node.src[1:3], None, None])[:2]
    assert a is not None
    x, y = c.load(a), c.out(node)
    scale, max_bias = np.float32(node.param_f32(0)), node.param_f32(1)
    sink = None if sinks is None else c.load(sinks).reshape(1, -1, 1, 1)
    if mask is None:
        if scale != 1:
            c.emit(np.multiply, x, scale, y)
            x = y
        emit_softmax(c, x, False, sink, y)
        return
    bias = load_mask(c, mask)[:, :, : x.shape[2]]
    slopes = alibi_slopes(a.ne[2], max_bias)
    c.emit(np.multiply, x, scale, y)
    if slopes is not None:
        emit_sloped(c, y, bias, slopes)
    else:
        shape, small = repeat_views(y.shape, bias)
        c.emit(np.add, y.reshape(shape), small, y.reshape(shape))
    emit_softmax(c, y, True, sink, y)


def emit_sloped(c: Compiler, s: F32, bias: F32, slopes: F32) -> None:
    """s[b, h] += slopes[h] * bias[b % .., h % ..]"""
    t: F32 = c.scratch(s.shape[2:])
    for b in range(s.shape[0]):
        for h in range(s.shape[1]):
            part = bias[b % bias.shape[0], h % bias.shape[1]]
            c.emit(np.multiply, part, slopes[h], t)
            c.emit(np.add, s[b, h], t, s[b, h])


# ---- attention in one op -------------------------------------------------------------------------


def _flash_why_not(node: Tensor) -> str | None:
    for t in node.src:
        if t is not None and not readable(t.type):
            return f"an operand of type {TRAITS[t.type].name}"
        if t is not None and TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return f"a {TRAITS[t.type].name} operand whose rows have gaps"
    return None if node.type == Type.F32 else f"a result of type {TRAITS[node.type].name}"


class _Columns:
    """Which columns of a mask matter, found once a run: for each tile of rows the first and one
    past the last that any row sees, and whether all between are plainly visible (bias 0)."""

    def __init__(self, bias: F32, rows: int, tile: int) -> None:
        self.tiles = [bias[:, :, at : min(at + tile, rows)] for at in range(0, rows, tile)]
        self.spans: list[tuple[int, int, bool]] = []

    def find(self) -> None:
        self.spans = [self._span(t) for t in self.tiles]

    @staticmethod
    def _span(bias: F32) -> tuple[int, int, bool]:
        seen = np.flatnonzero((bias > LOWEST).any(axis=(0, 1, 2)))
        if not len(seen):
            return (0, 0, False)
        lo, hi = int(seen[0]), int(seen[-1]) + 1
        return (lo, hi, not bias[..., lo:hi].any())


class _Flash:
    """One FLASH_ATTN_EXT node: scores, softmax and weighted sum through stacked products.

    Prompts go through in tiles of queries, all heads at once. Columns that the mask hides from a
    whole tile are left out, of the conversion of K and V too; that is known only when it runs.
    """

    def __init__(self, c: Compiler, node: Tensor) -> None:
        q, k, v = node.src[:3]
        mask, sinks = ([*node.src[3:5], None, None])[:2]
        assert q is not None and k is not None and v is not None
        self.scale, self.cap = np.float32(node.param_f32(0)), np.float32(node.param_f32(2))
        if self.cap:
            self.scale /= self.cap
        self.q: F32 = c.scratch(q_shape(q))
        c.emit(np.multiply, c.load(q), self.scale, self.q)
        self.k, self.v = _Operand(c, k), _Operand(c, v)
        self.out = c.out(node).swapaxes(1, 2)  # [b, head, n, dv], in memory [b, n, head, dv]
        batch, heads, n, _ = self.q.shape
        self.n, self.n_kv = n, k.ne[1]
        self.tile = max(1, min(n, TILE_ROWS, SCORES // max(1, batch * heads * self.n_kv)))
        self.scores: F32 = c.scratch((batch * heads * self.tile * self.n_kv,))
        self.peak: F32 = c.scratch((batch * heads * self.tile,))
        self.total: F32 = c.scratch((batch * heads * self.tile,))
        self.slopes = alibi_slopes(heads, node.param_f32(1))
        self.sinks = None if sinks is None else c.load(sinks).reshape(1, -1, 1, 1)
        self.bias: F32 | None = None
        self.columns: _Columns | None = None
        if mask is not None:
            self.bias = load_mask(c, mask)[:, :, :n]
            self.columns = self._shared_columns(c, mask, self.bias)
        if self.slopes is not None:
            self.sloped: F32 = c.scratch((self.tile * self.n_kv,))

    def _shared_columns(self, c: Compiler, mask: Tensor, bias: F32) -> _Columns:
        def make() -> _Columns:
            columns = _Columns(bias, self.n, self.tile)
            c.emit(columns.find)
            return columns

        found: _Columns = c.shared(("columns", id(mask), self.n, self.tile), mask, make)
        return found

    def run(self) -> None:
        spans = [(0, self.n_kv, True)] if self.columns is None else self.columns.spans
        lo, hi = min(s[0] for s in spans), max(s[1] for s in spans)
        k, v = self.k.values(lo, hi), self.v.values(lo, hi)
        for i, at in enumerate(range(0, self.n, self.tile)):
            first, last, plain = spans[i if self.columns is not None else 0]
            rows = slice(at, min(at + self.tile, self.n))
            out = self.out[:, :, rows]
            if first == last and self.sinks is None:
                out[...] = 0
                continue
            self._tile(
                rows,
                k[:, :, first - lo : last - lo],
                v[:, :, first - lo : last - lo],
                first,
                plain,
                out,
            )

    def _tile(self, rows: slice, k: F32, v: F32, first: int, plain: bool, out: F32) -> None:
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
            np.maximum(peak, self.sinks, peak)
        np.subtract(s, peak, s)
        np.exp(s, s)
        reduce_sum(s, -1, None, total, True)
        if self.sinks is not None:
            np.subtract(self.sinks, peak, peak)
            np.exp(peak, peak)
            np.add(total, peak, total)
        if not plain:
            np.maximum(total, TINY, total)
        stacked_product(v, s, out)
        # dividing the sums instead of the weights: dv values a row, not n_kv
        np.divide(out, total, out)

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


class _Operand:
    """K or V, read as f32 over the columns in use: a window if it is f32, else converted."""

    def __init__(self, c: Compiler, t: Tensor) -> None:
        self.type = t.type
        self.array = c.array(t)
        self.direct = t.type == Type.F32 and is_blas_ready(self.array)
        if not self.direct:
            self.buffer: F32 = c.scratch((t.n_elements,))
        self.length = t.ne[0]

    def values(self, lo: int, hi: int) -> F32:
        part = self.array[:, :, lo:hi]
        if self.direct:
            return part
        shape = (*part.shape[:3], self.length)
        out = self.buffer[: part.shape[0] * part.shape[1] * part.shape[2] * self.length]
        out = out.reshape(shape)
        read_into(part, self.type, out)
        return out


def q_shape(t: Tensor) -> tuple[int, int, int, int]:
    return (t.ne[3], t.ne[2], t.ne[1], t.ne[0])


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


def _flash(c: Compiler, node: Tensor) -> None:
    c.emit(_Flash(c, node).run)


OPS: dict[Op, OpImpl] = {
    Op.SOFT_MAX: OpImpl(_soft_max, _soft_max_why_not),
    Op.FLASH_ATTN_EXT: OpImpl(_flash, _flash_why_not),
    Op.ROPE: OpImpl(_rope.compile_forward, _rope.why_not),
    Op.ROPE_BACK: OpImpl(_rope.compile_back, _rope.why_not),
}
