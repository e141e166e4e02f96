"""Resampling, windows of images, relative positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, Array
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

NEAREST, BILINEAR, BICUBIC = 0, 1, 2  # low byte of op_params[0]
ALIGN_CORNERS, ANTIALIAS = 1 << 8, 1 << 9  # flags in it

Weights = Callable[[int, int, np.float32, np.float32], F32]


def _factor(node: Tensor, source: Tensor, dim: int) -> np.float32:
    """Output size over input size along a dimension, as the mode defines it."""
    out, size = node.ne[dim], source.ne[dim]
    corners = node.param_i32(0) & ALIGN_CORNERS and dim < 2 and out > 1 and size > 1
    return np.float32(out - 1) / np.float32(size - 1) if corners else np.float32(out / size)


def _upscale(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    flags = node.param_i32(0)
    factors = [_factor(node, a, dim) for dim in range(4)]
    rows, columns, outer, batch = (
        (np.arange(node.ne[dim]).astype(np.float32) / factors[dim]).astype(np.int64)
        for dim in (1, 0, 2, 3)
    )
    if flags & 0xFF == NEAREST:
        index = np.ix_(batch, outer, rows, columns)
        c.emit(lambda: np.copyto(y, x[index]))
        return
    weights = _cubic if flags & 0xFF == BICUBIC else _linear
    if flags & 0xFF == BILINEAR and flags & ANTIALIAS:
        weights = _triangle
    offset = np.float32(0.0 if flags & ALIGN_CORNERS else 0.5)
    vertical = weights(node.ne[1], a.ne[1], factors[1], offset)
    horizontal = weights(node.ne[0], a.ne[0], factors[0], offset)
    planes = np.ix_(batch, outer)
    c.emit(lambda: np.matmul(vertical @ x[planes], horizontal.T, y))


def _positions(out: int, factor: np.float32, offset: np.float32) -> F32:
    """Where output pixels fall in the input, in f32 as the reference computes it."""
    return (np.arange(out, dtype=np.float32) + offset) / factor - offset


def _linear(out: int, size: int, factor: np.float32, offset: np.float32) -> F32:
    """Matrix [out, size] that interpolates between the two nearest inputs."""
    at = _positions(out, factor, offset)
    low = np.clip(np.floor(at).astype(np.int64), 0, size - 1)
    high = np.clip(np.floor(at).astype(np.int64) + 1, 0, size - 1)
    part = np.clip(at - low, 0, 1).astype(np.float32)
    matrix: F32 = np.zeros((out, size), np.float32)
    np.add.at(matrix, (np.arange(out), low), 1 - part)
    np.add.at(matrix, (np.arange(out), high), part)
    return matrix


def _cubic(out: int, size: int, factor: np.float32, offset: np.float32) -> F32:
    """Matrix [out, size] of cubic convolution with a = -0.75 (Keys 1981)."""
    a = -0.75
    at = _positions(out, factor, offset)
    base = np.floor(at).astype(np.int64)
    t = (at - base).astype(np.float32)

    def near(d: F32) -> F32:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: F32) -> F32:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    matrix: F32 = np.zeros((out, size), np.float32)
    for shift, weight in ((-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))):
        np.add.at(matrix, (np.arange(out), np.clip(base + shift, 0, size - 1)), weight)
    return matrix


def _triangle(out: int, size: int, factor: np.float32, offset: np.float32) -> F32:
    """Matrix [out, size] of a triangle filter as wide as an output pixel, at least one input."""
    support = np.maximum(np.float32(1), 1 / factor)
    centre = (np.arange(out, dtype=np.float32) + offset) / factor
    inputs = np.arange(size, dtype=np.float32)
    distance = np.abs(inputs[None, :] - centre[:, None] + offset) / support
    first = np.maximum((centre - support + offset).astype(np.int64), 0)
    last = np.minimum((centre + support + offset).astype(np.int64), size)
    seen = (inputs[None, :] >= first[:, None]) & (inputs[None, :] < last[:, None])
    matrix: F32 = np.where(seen, np.maximum(1 - distance, 0), 0).astype(np.float32)
    total = matrix.sum(axis=1, keepdims=True)
    matrix /= np.where(total > 0, total, np.float32(1))
    return matrix


def _win_part(c: Compiler, node: Tensor) -> None:
    """[1, y, x, c] -> [(py, px), w, w, c]: windows side by side, zeros beyond the edge."""
    a = node.src[0]
    assert a is not None
    across, down, w = (node.param_i32(i) for i in range(3))
    x, y = c.load(a)[0], c.out(node)
    padded: F32 = c.scratch((down * w, across * w, x.shape[2]))
    c.emit(padded.fill, np.float32(0))
    c.emit(np.copyto, padded[: x.shape[0], : x.shape[1]], x)
    windows = padded.reshape(down, w, across, w, -1).swapaxes(1, 2)
    c.emit(np.copyto, y.reshape(windows.shape), windows)


def _win_unpart(c: Compiler, node: Tensor) -> None:
    """The windows of WIN_PART put together again, without the padding."""
    a = node.src[0]
    assert a is not None
    w = node.param_i32(0)
    x, y = c.load(a), c.out(node)[0]
    down, across = -(-y.shape[0] // w), -(-y.shape[1] // w)
    whole: F32 = c.scratch((down * w, across * w, y.shape[2]))
    windows = x.reshape(down, across, w, w, -1).swapaxes(1, 2)
    c.emit(np.copyto, whole.reshape(windows.shape), windows)
    c.emit(np.copyto, y, whole[: y.shape[0], : y.shape[1]])


def _get_rel_pos(c: Compiler, node: Tensor) -> None:
    """y[i, j] = x[w - 1 - j + i]"""
    a = node.src[0]
    assert a is not None
    x, y = c.array(a)[0, 0], c.array(node)[0]
    w = node.ne[1]
    index: Array = (w - 1 - np.arange(w))[None, :] + np.arange(node.ne[2])[:, None]
    c.emit(lambda: np.copyto(y, x[index]))


def _rel_pos_why_not(node: Tensor) -> str | None:
    a = node.src[0]
    ok = a is not None and a.type == node.type and a.type in (Type.F16, Type.BF16, Type.F32)
    return None if ok else "anything but one float type in and out"


def _add_rel_pos(c: Compiler, node: Tensor) -> None:
    """y[r, i, j] = a[r, i, j] + wide[r, j] + high[r, i], r over all rows of `wide` and `high`"""
    a, wide, high = node.src
    assert a is not None and wide is not None and high is not None
    n = wide.ne[0]
    x, y = c.load(a), c.out(node)
    c.emit(np.copyto, y, x)
    grid = y.reshape(-1, n, n)
    c.emit(np.add, grid, c.load_contiguous(wide).reshape(-1, 1, n), grid)
    c.emit(np.add, grid, c.load_contiguous(high).reshape(-1, n, 1), grid)


OPS: dict[Op, OpImpl] = {
    Op.UPSCALE: OpImpl(_upscale, F32_ONLY),
    Op.WIN_PART: OpImpl(_win_part, F32_ONLY),
    Op.WIN_UNPART: OpImpl(_win_unpart, F32_ONLY),
    Op.GET_REL_POS: OpImpl(_get_rel_pos, _rel_pos_why_not),
    Op.ADD_REL_POS: OpImpl(_add_rel_pos, F32_ONLY),
}
