"""Reductions, running sums and orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wggml.backends.cpu.arrays import F32, Array, accumulate_sum, reduce_sum
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def _sum(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = c.array(a), c.out(node).reshape(-1)
    # the values of a row are those that follow its first in memory: ggml does not look at nb[0]
    x = as_strided(x, strides=(*x.strides[:3], x.itemsize))
    # accumulated in f64 as ggml does: rows far apart in memory get no pairwise summation
    c.emit(lambda: y.__setitem__(0, reduce_sum(x, None, np.float64)))


def _sum_rows(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    c.emit(reduce_sum, c.load(a), -1, None, c.out(node), True)


def _mean(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    y = c.out(node)
    c.emit(reduce_sum, c.load(a), -1, None, y, True)
    c.emit(np.divide, y, np.float32(a.ne[0]), y)


def _cumsum(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    c.emit(accumulate_sum, c.load(a), -1, None, c.out(node))


def _to_i32(node: Tensor) -> str | None:
    a = node.src[0]
    ok = a is not None and a.type == Type.F32 and node.type == Type.I32
    return None if ok else "anything but F32 in and I32 out"


def _argmax(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = c.load(a)[0, 0], c.array(node).reshape(-1)
    last = a.ne[0] - 1
    # of equal values the last, as in ggml
    c.emit(lambda: np.copyto(y, last - x[:, ::-1].argmax(axis=-1), casting="unsafe"))


def _order(x: F32, descending: bool) -> Array:
    return np.argsort(-x if descending else x, axis=-1, kind="stable")


def _argsort(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y, descending = c.load(a), c.array(node), node.param_i32(0) == 1
    c.emit(lambda: np.copyto(y, _order(x, descending), casting="unsafe"))


def _top_k(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y, k = c.load(a), c.array(node), node.ne[0]
    c.emit(lambda: np.copyto(y, _order(x, True)[..., :k], casting="unsafe"))


def _count_equal(c: Compiler, node: Tensor) -> None:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    x, z, y = c.array(a), c.array(b), c.array(node).reshape(-1)
    c.emit(lambda: y.__setitem__(0, np.count_nonzero(x == z)))


def _count_equal_why_not(node: Tensor) -> str | None:
    a, b = node.src[0], node.src[1]
    ok = a is not None and b is not None and a.type == b.type == Type.I32 and node.type == Type.I64
    return None if ok else "anything but I32 in and I64 out"


OPS: dict[Op, OpImpl] = {
    Op.SUM: OpImpl(_sum, F32_ONLY),
    Op.SUM_ROWS: OpImpl(_sum_rows, F32_ONLY),
    Op.MEAN: OpImpl(_mean, F32_ONLY),
    Op.CUMSUM: OpImpl(_cumsum, F32_ONLY),
    Op.ARGMAX: OpImpl(_argmax, _to_i32),
    Op.ARGSORT: OpImpl(_argsort, _to_i32),
    Op.TOP_K: OpImpl(_top_k, _to_i32),
    Op.COUNT_EQUAL: OpImpl(_count_equal, _count_equal_why_not),
}
