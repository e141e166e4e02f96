"""Matrix products, in f32 through BLAS.

Weights of other types are dequantised: from the cache where it holds them, else in tiles of rows
that fit the processor's second-level cache, for one vector block by block. Activations stay f32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, Array, readable
from wggml.backends.cpu.blockwise import BlockDots, can_split
from wggml.backends.cpu.ops._impl import OpImpl, check_index
from wggml.backends.cpu.weights import Matrix, WeightCache, is_constant, padding
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

# f32 values of a tile. One vector: stay in the second-level cache. Many: amortise the packing
# that a matrix product does first.
TILE_ONE = 65536
TILE_MANY = 262144
# So many vectors are multiplied one by one: a matrix product first packs the weights, which takes
# as long as reading them several times (596 us for 4 vectors and 1536 x 576, one by one 244).
FEW = 4


def _why_not(node: Tensor) -> str | None:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    for t in (a, b):
        if not readable(t.type):
            return f"an operand of type {TRAITS[t.type].name}"
        if TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return f"a {TRAITS[t.type].name} operand whose rows have gaps"
    if node.type != Type.F32:
        return f"a result of type {TRAITS[node.type].name}"
    return None


def is_blas_ready(a: F32) -> bool:
    """True when BLAS can take the last two dimensions as they lie."""
    inner = a.strides[-1] == 4 or a.shape[-1] == 1
    return inner and (a.ndim < 2 or a.shape[-2] == 1 or a.strides[-2] >= 4 * a.shape[-1])


def blas_ready(c: Compiler, a: F32) -> F32:
    """`a` itself if BLAS can take its last two dimensions, else a contiguous copy."""
    if is_blas_ready(a):
        return a
    out: F32 = c.scratch(a.shape)
    c.emit(np.copyto, out, a)
    return out


def emit_products(c: Compiler, a: F32, b: F32, d: F32) -> None:
    """d[.., n, m] = b[.., n, :] . a[.., m, :] for stacks of matrices; the leading dimensions of
    `b` and `d` are multiples of those of `a`, neighbours share one of `a`."""
    (a3, a2, m, k), (b3, b2, n, _) = a.shape, b.shape
    r3, r2 = b3 // a3, b2 // a2
    if n == 1 and r3 == 1:  # the vectors that share a matrix become the rows of one product
        x, y = b.reshape(a3, a2, r2, k), d.reshape(a3, a2, r2, m)
        c.emit(np.matmul, blas_ready(c, x), a.swapaxes(-1, -2), y)
        return
    x = b.reshape(a3, r3, a2, r2, n, k)
    y = d.reshape(a3, r3, a2, r2, n, m)
    w = a.reshape(a3, 1, a2, 1, m, k).swapaxes(-1, -2)
    c.emit(np.matmul, x, w, y)


def emit_weight_product(c: Compiler, w: Matrix, x: F32, y: F32) -> None:
    """y[n, m] = x[n, k] . w[m, k]: the cached rows by BLAS, the others tile by tile."""
    n, m = x.shape[0], w.rows.shape[0]
    if w.type == Type.F32:
        _emit_dense(c, _f32_rows(w), x, y)
        return
    done = w.n_cached
    if w.cached is not None:
        _emit_dense(c, w.cached, x, y[:, :done])
    if done < m and n == 1 and can_split(w.type) and x.strides[-1] == y.strides[-1] == 4:
        c.emit(BlockDots(c, w, done, x[0], y[0, done:]).run)
    elif done < m:
        step = max(1, (TILE_ONE if n == 1 else TILE_MANY) // w.k)
        tile: F32 = c.scratch((min(step, m - done), w.k))
        for at in range(done, m, step):
            part = tile[: min(step, m - at)]
            c.emit(w.fill, at, part)
            _emit_dense(c, part, x, y[:, at : at + len(part)])


def _f32_rows(w: Matrix) -> F32:
    rows: F32 = w.rows.view(np.float32)
    return rows


def _emit_dense(c: Compiler, w: F32, x: F32, y: F32) -> None:
    n = x.shape[0]
    if n <= FEW and w.flags.c_contiguous and (n == 1 or x.strides[1] == y.strides[1] == 4):
        for i in range(n):
            c.emit(np.dot, w, x[i], y[i])  # sgemv with the least set-up; it copies rows with gaps
    else:
        c.emit(np.matmul, x, w.T, y)


def _mul_mat(c: Compiler, node: Tensor) -> None:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    d = c.out(node)
    x = c.load(b)
    if _emit_part_of_stack(c, node, x, d):
        return
    if a.ne[2] == 1 and a.ne[3] == 1 and a.is_contiguous_rows():
        c.array(a)
        w = c.weights.matrix(a)
        flat = _as_rows(c, x)
        emit_weight_product(c, w, flat, d.reshape(len(flat), a.ne[1]))
        return
    if is_constant(a) and a.type != Type.F32 and a.is_contiguous_rows():
        c.array(a)
        for i3 in range(d.shape[0]):
            for i2 in range(d.shape[1]):
                w = c.weights.matrix(a, i3 * a.ne[3] // b.ne[3], i2 * a.ne[2] // b.ne[2])
                emit_weight_product(c, w, blas_ready(c, x[i3, i2]), d[i3, i2])
        return
    emit_products(c, blas_ready(c, c.load(a)), blas_ready(c, x), d)


def _stackable(node: Tensor) -> bool:
    a, b = node.src[0], node.src[1]
    return (
        a is not None and b is not None and node.type == b.type == Type.F32 != a.type
        and is_constant(a) and a.ne[2:] == (1, 1) and a.is_contiguous() and a.view_src is None
    )  # fmt: skip


def _emit_part_of_stack(c: Compiler, node: Tensor, x: F32, d: F32) -> bool:
    """Products of one operand with several cached weights: all at once if it is one vector.

    The first of the nodes computes into memory of the plan, each copies its part, since the places
    of later nodes may still be in use. Always asks for the weights to be kept below each other.
    """
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    nodes = [n for n in c.readers(b) if n.op == Op.MUL_MAT and n.src[1] is b and _stackable(n)]
    weights = [n.src[0] for n in nodes if n.src[0] is not None]
    alone = len(nodes) < 2 and not padding(a.ne[1], a.ne[0], c.weights.threads_from)
    if alone or node not in nodes:
        return False
    stack = c.weights.stacked(weights)
    if stack is None or b.n_elements != b.ne[0] or x.strides[-1] != 4:
        return False
    c.array(a)

    def make() -> F32:
        y: F32 = c.keep((len(stack),))
        c.emit(np.dot, stack, x.reshape(-1), y)
        return y

    y: F32 = c.shared(("stack", id(b)), b, make)
    at = sum(w.ne[1] for w in weights[: nodes.index(node)])
    c.emit(np.copyto, d.reshape(-1), y[at : at + a.ne[1]])
    return True


def _as_rows(c: Compiler, x: F32) -> F32:
    """[i3, i2, i1, k] as a matrix of rows, by a contiguous copy if need be."""
    x = blas_ready(c, x)
    if x.shape[0] == 1 and x.shape[1] == 1:
        rows: F32 = x[0, 0]
    else:
        if not x.flags.c_contiguous:
            packed: F32 = c.scratch(x.shape)
            c.emit(np.copyto, packed, x)
            x = packed
        rows = x.reshape(-1, x.shape[-1])
    return rows


# ---- a matrix chosen per row --------------------------------------------------------------------


def _mul_mat_id_why_not(node: Tensor) -> str | None:
    ids = node.src[2]
    if ids is None or ids.type != Type.I32:
        return "ids must be I32"
    return _why_not(node)


class _Experts:
    """One MUL_MAT_ID node: which matrices are needed is known only when it runs."""

    def __init__(self, c: Compiler, node: Tensor) -> None:
        a, b, ids = node.src
        assert a is not None and b is not None and ids is not None
        self.node = node
        self.experts = a
        self.weights: WeightCache = c.weights
        self.y = c.out(node)[0]  # [token, slot, m]
        self.x = blas_ready(c, c.load(b))[0]  # [token, slot or 1, k]
        self.ids: Array = c.array(ids)[0, 0]  # [token, slot]
        c.array(a)
        n_pairs = self.ids.size
        k, m = a.ne[0], a.ne[1]
        self.rows_in: F32 = c.scratch((n_pairs, k))
        self.rows_out: F32 = c.scratch((n_pairs, m))
        self.tile: F32 = c.scratch((min(m, max(1, TILE_MANY // k)), k))

    def run(self) -> None:
        check_index(self.ids, self.experts.ne[2], self.node)
        slots_in = self.x.shape[1]
        for e in np.unique(self.ids):
            token, slot = np.nonzero(self.ids == e)
            n = len(token)
            x, y = self.rows_in[:n], self.rows_out[:n]
            x[...] = self.x[token, slot % slots_in]
            self._product(self.weights.matrix(self.experts, 0, int(e)), x, y)
            self.y[token, slot] = y

    def _product(self, w: Matrix, x: F32, y: F32) -> None:
        done, m = w.n_cached, w.rows.shape[0]
        if w.cached is not None:
            np.matmul(x, w.cached.T, y[:, :done])
        elif w.type == Type.F32:
            np.matmul(x, _f32_rows(w).T, y)
            return
        for at in range(done, m, len(self.tile)):
            part = self.tile[: m - at]
            w.fill(at, part)
            np.matmul(x, part.T, y[:, at : at + len(part)])


def _mul_mat_id(c: Compiler, node: Tensor) -> None:
    c.emit(_Experts(c, node).run)


# ---- outer products -----------------------------------------------------------------------------


def _out_prod(c: Compiler, node: Tensor) -> None:
    """d[i1, i0] = sum over k of a[k, i0] * b[k, i1], matrices of `a` shared by neighbours."""
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    x, y, d = c.load(a), c.load(b), c.out(node)
    (a3, a2), (b3, b2) = x.shape[:2], y.shape[:2]
    left = y.reshape(a3, b3 // a3, a2, b2 // a2, *y.shape[2:]).swapaxes(-1, -2)
    right = x.reshape(a3, 1, a2, 1, *x.shape[2:])
    c.emit(np.matmul, left, right, d.reshape(*left.shape[:4], *d.shape[2:]))


OPS: dict[Op, OpImpl] = {
    Op.MUL_MAT: OpImpl(_mul_mat, _why_not),
    Op.MUL_MAT_ID: OpImpl(_mul_mat_id, _mul_mat_id_why_not),
    Op.OUT_PROD: OpImpl(_out_prod, _why_not),
}
