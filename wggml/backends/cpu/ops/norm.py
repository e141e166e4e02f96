"""Normalisation over rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, overlap, reduce_sum
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl
from wggml.backends.cpu.ops.elementwise import emit_binary
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def emit_row_dots(c: Compiler, x: F32, out: F32) -> None:
    """out[..., 0] = sum over the last axis of x * x."""
    c.emit(np.einsum, "...i,...i->...", x, x, out=out[..., 0])


def _emit_rms(c: Compiler, x: F32, y: F32, eps: float) -> None:
    """y = x / sqrt(mean(x^2) + eps) by rows of the last axis."""
    n = x.shape[-1]
    if x.size == n and x.strides[-1] == 4:
        # one row: a BLAS dot and scalar arithmetic are 2 us, the general way 10
        row, result = x.reshape(-1), y.reshape(-1)

        def one_row() -> None:
            np.multiply(row, np.float32(1.0 / math.sqrt(row.dot(row) / n + eps)), result)

        c.emit(one_row)
        return
    scale: F32 = c.scratch((*x.shape[:-1], 1))
    emit_row_dots(c, x, scale)
    c.emit(np.divide, scale, np.float32(n), scale)
    c.emit(np.add, scale, np.float32(eps), scale)
    c.emit(np.sqrt, scale, scale)
    c.emit(np.reciprocal, scale, scale)
    c.emit(np.multiply, x, scale, y)  # rounded as ggml rounds it


def _rms_norm(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    _emit_rms(c, c.load(a), c.out(node), node.param_f32(0))


def fuse_rms_norm(c: Compiler, nodes: list[Tensor], i: int) -> int:
    """RMS_NORM and the MUL by a weight that follows: the normalised rows go straight to the
    product's memory, where they are multiplied in place."""
    norm = nodes[i]
    mul = nodes[i + 1] if i + 1 < len(nodes) else None
    a = norm.src[0]
    if mul is None or mul.op != Op.MUL or a is None or not c.single_use(norm):
        return 0
    left, right = mul.src[0], mul.src[1]
    if left is not norm or right is None or right is norm:
        return 0
    if {a.type, norm.type, right.type, mul.type} != {Type.F32}:
        return 0
    x, w, y = c.array(a), c.array(right), c.array(mul)
    if overlap(w, y):
        return 0
    _emit_rms(c, x, y, norm.param_f32(0))
    emit_binary(c, np.multiply, y, w, y)
    return 2


def _norm(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    n = x.shape[-1]
    centred, scale = c.scratch(x.shape), c.scratch((*x.shape[:-1], 1))
    c.emit(reduce_sum, x, -1, None, scale, True)
    c.emit(np.divide, scale, np.float32(n), scale)
    c.emit(np.subtract, x, scale, centred)
    emit_row_dots(c, centred, scale)
    c.emit(np.divide, scale, np.float32(n), scale)
    c.emit(np.add, scale, np.float32(node.param_f32(0)), scale)
    c.emit(np.sqrt, scale, scale)
    c.emit(np.divide, centred, scale, y)


def _l2_norm(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    scale: F32 = c.scratch((*x.shape[:-1], 1))
    emit_row_dots(c, x, scale)
    c.emit(np.sqrt, scale, scale)
    c.emit(np.maximum, scale, np.float32(node.param_f32(0)), out=scale)
    c.emit(np.divide, x, scale, y)


def _group_norm(c: Compiler, node: Tensor) -> None:
    """Groups of channels (dimension 2): mean and variance over ne0 * ne1 * channels of a group."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    groups, eps = node.param_i32(0), np.float32(node.param_f32(1))
    channels = node.ne[2]
    per_group = -(-channels // groups)
    centred = c.scratch(x.shape)
    for begin in range(0, channels, per_group):
        part = slice(begin, min(begin + per_group, channels))
        xs, cs, ys = x[:, part], centred[:, part], y[:, part]
        count = np.float32(xs[0].size)
        scale: F32 = c.scratch((xs.shape[0], 1, 1, 1))
        c.emit(reduce_sum, xs, (1, 2, 3), None, scale, True)
        c.emit(np.divide, scale, count, scale)
        c.emit(np.subtract, xs, scale, cs)
        c.emit(np.einsum, "abcd,abcd->a", cs, cs, out=scale[:, 0, 0, 0])
        c.emit(np.divide, scale, count, scale)
        c.emit(np.add, scale, eps, scale)
        c.emit(np.sqrt, scale, scale)
        c.emit(np.divide, cs, scale, ys)


OPS: dict[Op, OpImpl] = {
    Op.NORM: OpImpl(_norm, F32_ONLY),
    Op.RMS_NORM: OpImpl(_rms_norm, F32_ONLY),
    Op.L2_NORM: OpImpl(_l2_norm, F32_ONLY),
    Op.GROUP_NORM: OpImpl(_group_norm, F32_ONLY),
}
