"""Convolutions and pooling, as windows on padded arrays and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wggml.backends.cpu.arrays import F32, reduce_max, reduce_sum
from wggml.backends.cpu.ops._impl import OpImpl, floats
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

FLT_MAX = float(np.finfo(np.float32).max)
POOL_MAX = 0  # op_params[0] of the pooling ops; 1 is the average


def _sources(node: Tensor) -> tuple[Tensor, Tensor]:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    return a, b


def emit_windows(
    c: Compiler,
    x: F32,
    out: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
    fill: float = 0.0,
) -> F32:
    """Windows [lead.., out.., kernel..] on `x` [lead.., spatial..], padded with `fill`.

    The sequences have one entry for each of the last dimensions of `x`, outermost first.
    """
    n = len(out)
    lead, spatial = x.shape[:-n], x.shape[-n:]
    reach = [(o - 1) * s + (k - 1) * d + 1
             for o, s, k, d in zip(out, stride, kernel, dilation, strict=True)]  # fmt: skip
    if any(pad) or any(r > m for r, m in zip(reach, spatial, strict=True)):
        size = [max(r, p + m) for r, p, m in zip(reach, pad, spatial, strict=True)]
        padded: F32 = c.scratch((*lead, *size))
        inside: tuple[Any, ...] = tuple(slice(p, p + m) for p, m in zip(pad, spatial, strict=True))
        c.emit(padded.fill, np.float32(fill))
        c.emit(np.copyto, padded[(..., *inside)], x)
        x = padded
    steps = x.strides[-n:]
    strides = (
        *x.strides[:-n],
        *(b * s for b, s in zip(steps, stride, strict=True)),
        *(b * d for b, d in zip(steps, dilation, strict=True)),
    )
    return as_strided(x, (*lead, *out, *kernel), strides)


def _params(node: Tensor, *at: int) -> list[int]:
    return [node.param_i32(i) for i in at]


# ---- unfolding -----------------------------------------------------------------------


def _geometry(node: Tensor) -> tuple[bool, list[int], list[int], list[int]]:
    """Two-dimensional or not; stride, padding and dilation as (y, x)."""
    if node.param_i32(6):
        return True, _params(node, 1, 0), _params(node, 3, 2), _params(node, 5, 4)
    return False, [1, node.param_i32(0)], [0, node.param_i32(2)], [1, node.param_i32(4)]


def _im2col(c: Compiler, node: Tensor) -> None:
    """[n, channel, y, x] -> [n, oy, ox, (channel, ky, kx)]; or, of a signal, [n, channel, x] ->
    [n, ox, (channel, kx)]."""
    kernel, image = _sources(node)
    flat, s, p, d = _geometry(node)
    x, y = c.load(image), c.out(node)
    if flat:
        size, k = y.shape[1:3], kernel.ne[1::-1]
    else:
        x, size, k = x[0][:, :, None], (1, y.shape[2]), (1, kernel.ne[0])
    windows = emit_windows(c, x, size, k, s, p, d).transpose(0, 2, 3, 1, 4, 5)
    c.emit(np.copyto, y.reshape(windows.shape), windows)


def _im2col_3d(c: Compiler, node: Tensor) -> None:
    """[(n, channel), z, y, x] -> [(n, oz), oy, ox, (channel, kz, ky, kx)]"""
    kernel, image = _sources(node)
    channels = node.param_i32(9)
    x, y = c.load(image), c.out(node)
    n = x.shape[0] // channels
    x = x[: n * channels].reshape(n, channels, *x.shape[1:])
    out = (y.shape[0] // n, y.shape[1], y.shape[2])
    s, p, d = _params(node, 2, 1, 0), _params(node, 5, 4, 3), _params(node, 8, 7, 6)
    windows = emit_windows(c, x, out, kernel.ne[2::-1], s, p, d)
    windows = windows.transpose(0, 2, 3, 4, 1, 5, 6, 7)
    c.emit(np.copyto, y.reshape(windows.shape), windows)


def _emit_fold(
    c: Compiler, parts: F32, total: F32, stride: Sequence[int], dilation: Sequence[int]
) -> None:
    """total[.., i * stride + k * dilation] += parts[.., i.., k..] over two window dimensions."""
    (oh, ow), (kh, kw) = parts.shape[-4:-2], parts.shape[-2:]
    c.emit(total.fill, np.float32(0))
    for i in range(kh):
        for j in range(kw):
            y0, x0 = i * dilation[0], j * dilation[1]
            rows = slice(y0, y0 + (oh - 1) * stride[0] + 1, stride[0])
            columns = slice(x0, x0 + (ow - 1) * stride[1] + 1, stride[1])
            into = total[..., rows, columns]
            c.emit(np.add, into, parts[..., i, j], into)


def _im2col_back(c: Compiler, node: Tensor) -> None:
    """The gradient of IM2COL's image: each window's gradient added where the window lay."""
    grad, kernel = _sources(node)
    flat, s, p, d = _geometry(node)
    g, y = c.load_contiguous(grad), c.out(node)
    if flat:
        out, k, image = g.shape[1:3], kernel.ne[1::-1], y
    else:
        out, k, image = (1, g.shape[2]), (1, kernel.ne[0]), y[0][:, :, None]
    n, channels, *size = image.shape
    parts = g.reshape(n, *out, channels, *k).transpose(0, 3, 1, 2, 4, 5)
    reach = [max((out[i] - 1) * s[i] + (k[i] - 1) * d[i] + 1, p[i] + size[i]) for i in range(2)]
    total: F32 = c.scratch((n, channels, *reach))
    _emit_fold(c, parts, total, s, d)
    c.emit(np.copyto, image, total[:, :, p[0] : p[0] + size[0], p[1] : p[1] + size[1]])


def _col2im_1d(c: Compiler, node: Tensor) -> None:
    """[t, (channel, k)] -> [channel, t * stride + k], cropped by op_params[2] on the left."""
    a = node.src[0]
    assert a is not None
    stride, channels, crop = _params(node, 0, 1, 2)
    x, y = c.load(a)[0, 0], c.out(node)[0, 0]
    t, k = x.shape[0], x.shape[1] // channels
    parts = x.reshape(t, channels, k).transpose(1, 0, 2)[:, None, :, None, :]
    total: F32 = c.scratch((channels, 1, max((t - 1) * stride + k, crop + y.shape[1])))
    _emit_fold(c, parts, total, (1, stride), (1, 1))
    c.emit(np.copyto, y, total[:, 0, crop : crop + y.shape[1]])


# ---- convolutions --------------------------------------------------------------------


def _emit_convolution(c: Compiler, kernel: F32, windows: F32, y: F32, n: int) -> None:
    """y [batch, out channel, out..] from a kernel [out channel, (channel, k..)] and windows
    [batch, channel, out.., k..] with `n` spatial dimensions."""
    if not windows.size:  # an empty kernel
        c.emit(y.fill, np.float32(0))
        return
    order = (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n))
    columns = windows.transpose(order)
    packed: F32 = c.scratch(columns.shape)
    c.emit(np.copyto, packed, columns)
    flat = packed.reshape(len(packed), kernel.shape[1], -1)
    if y.flags.c_contiguous:
        c.emit(np.matmul, kernel, flat, y.reshape(len(packed), kernel.shape[0], -1))
        return
    product: F32 = c.scratch((len(packed), kernel.shape[0], flat.shape[2]))
    c.emit(np.matmul, kernel, flat, product)
    c.emit(np.copyto, y, product.reshape(y.shape))


def _conv_2d(c: Compiler, node: Tensor) -> None:
    kernel, image = _sources(node)
    x, y, w = c.load(image), c.out(node), c.load_contiguous(kernel)
    s, p, d = _params(node, 1, 0), _params(node, 3, 2), _params(node, 5, 4)
    windows = emit_windows(c, x, y.shape[2:], w.shape[2:], s, p, d)
    _emit_convolution(c, w.reshape(len(w), -1), windows, y, 2)


def _conv_3d(c: Compiler, node: Tensor) -> None:
    kernel, image = _sources(node)
    channels, n, out_channels = _params(node, 9, 10, 11)
    x, y, w = c.load(image), c.out(node), c.load_contiguous(kernel)
    s, p, d = _params(node, 2, 1, 0), _params(node, 5, 4, 3), _params(node, 8, 7, 6)
    x = x.reshape(n, channels, *x.shape[1:])
    windows = emit_windows(c, x, y.shape[1:], w.shape[1:], s, p, d)
    y = y.reshape(n, out_channels, *y.shape[1:])
    _emit_convolution(c, w.reshape(out_channels, -1), windows, y, 3)


def _conv_2d_dw(c: Compiler, node: Tensor) -> None:
    """One filter a channel."""
    kernel, image = _sources(node)
    x, y, w = c.load(image), c.out(node), c.load(kernel)[:, 0]
    s, p, d = _params(node, 1, 0), _params(node, 3, 2), _params(node, 5, 4)
    windows = emit_windows(c, x, y.shape[2:], w.shape[1:], s, p, d)
    c.emit(np.einsum, "ncyxij,cij->ncyx", windows, w, out=y)


def _conv_transpose_1d(c: Compiler, node: Tensor) -> None:
    """y[o, l * stride + k] += x[i, l] w[i, o, k]"""
    kernel, signal = _sources(node)
    w, x, y = c.load(kernel)[0], c.load(signal)[0, 0], c.out(node)[0, 0]
    stride = node.param_i32(0)
    (_, out_channels, k), length = w.shape, x.shape[1]
    parts: F32 = c.scratch((out_channels, k, length))
    c.emit(np.einsum, "iok,il->okl", w, x, out=parts)
    total: F32 = c.scratch((out_channels, 1, max((length - 1) * stride + k, y.shape[1])))
    _emit_fold(c, parts.transpose(0, 2, 1)[:, None, :, None, :], total, (1, stride), (1, 1))
    c.emit(np.copyto, y, total[:, 0, : y.shape[1]])


def _conv_transpose_2d(c: Compiler, node: Tensor) -> None:
    """y[n, o, h * stride + i, w * stride + j] += x[n, c, h, w] k[c, o, i, j]"""
    kernel, image = _sources(node)
    w, x, y = c.load(kernel), c.load_contiguous(image), c.out(node)
    stride = node.param_i32(0)
    channels, out_channels, kh, kw = w.shape
    n, _, height, width = x.shape
    packed: F32 = c.scratch((out_channels, kh, kw, channels))
    c.emit(np.copyto, packed, w.transpose(1, 2, 3, 0))
    parts: F32 = c.scratch((n, out_channels, kh, kw, height, width))
    c.emit(
        np.matmul, packed.reshape(-1, channels), x.reshape(n, channels, -1),
        parts.reshape(n, out_channels * kh * kw, -1),
    )  # fmt: skip
    _emit_fold(c, parts.transpose(0, 1, 4, 5, 2, 3), y, (stride, stride), (1, 1))


# ---- pooling -------------------------------------------------------------------------


def _pool_1d(c: Compiler, node: Tensor) -> None:
    """Maximum, or average over the part of each window that lies inside."""
    a = node.src[0]
    assert a is not None
    kind, k, s, p = _params(node, 0, 1, 2, 3)
    x, y = c.load(a), c.out(node)
    out, width = y.shape[-1], x.shape[-1]
    fill = -FLT_MAX if kind == POOL_MAX else 0.0
    windows = emit_windows(c, x, (out,), (k,), (s,), (p,), (1,), fill)
    if kind == POOL_MAX:
        c.emit(reduce_max, windows, -1, None, y)
        return
    begins = np.arange(out) * s - p
    inside = np.minimum(begins + k, width) - np.maximum(begins, 0)
    c.emit(reduce_sum, windows, -1, None, y)
    c.emit(np.divide, y, np.maximum(inside, 1).astype(np.float32), y)


def _pool_2d(c: Compiler, node: Tensor) -> None:
    """Maximum, or sum over the whole window's area (padding counts)."""
    a = node.src[0]
    assert a is not None
    kind, k0, k1, s0, s1, p0, p1 = _params(node, *range(7))
    x, y = c.load(a), c.out(node)
    fill = -FLT_MAX if kind == POOL_MAX else 0.0
    windows = emit_windows(c, x, y.shape[2:], (k1, k0), (s1, s0), (p1, p0), (1, 1), fill)
    if kind == POOL_MAX:
        c.emit(reduce_max, windows, (-2, -1), None, y)
        return
    c.emit(reduce_sum, windows, (-2, -1), None, y)
    c.emit(np.divide, y, np.float32(k0 * k1), y)


def _pool_2d_back(c: Compiler, node: Tensor) -> None:
    """Each output's gradient: to the (first) largest value of its window, or spread evenly."""
    grad, image = _sources(node)
    kind, k0, k1, s0, s1, p0, p1 = _params(node, *range(7))
    g, x, y = c.load(grad), c.load(image), c.out(node)
    shape = (*g.shape, k1, k0)
    parts: F32 = c.scratch(shape)
    if kind == POOL_MAX:
        windows = emit_windows(c, x, g.shape[2:], (k1, k0), (s1, s0), (p1, p0), (1, 1), -FLT_MAX)
        c.emit(_to_largest, windows, g, parts)
    else:
        spread: F32 = c.scratch(g.shape)
        c.emit(np.divide, g, np.float32(k0 * k1), spread)
        c.emit(np.copyto, parts, spread[..., None, None])
    height = max((g.shape[2] - 1) * s1 + k1, p1 + y.shape[2])
    width = max((g.shape[3] - 1) * s0 + k0, p0 + y.shape[3])
    total: F32 = c.scratch((*y.shape[:2], height, width))
    _emit_fold(c, parts, total, (s1, s0), (1, 1))
    c.emit(np.copyto, y, total[:, :, p1 : p1 + y.shape[2], p0 : p0 + y.shape[3]])


def _to_largest(windows: F32, grad: F32, parts: F32) -> None:
    flat = windows.reshape(*windows.shape[:4], -1)
    chosen = flat.argmax(axis=-1)[..., None]
    parts.fill(0)
    np.put_along_axis(parts.reshape(flat.shape), chosen, grad[..., None], axis=-1)


OPS: dict[Op, OpImpl] = {
    Op.IM2COL: OpImpl(_im2col, floats),
    Op.IM2COL_3D: OpImpl(_im2col_3d, floats),
    Op.IM2COL_BACK: OpImpl(_im2col_back, floats),
    Op.COL2IM_1D: OpImpl(_col2im_1d, floats),
    Op.CONV_2D: OpImpl(_conv_2d, floats),
    Op.CONV_3D: OpImpl(_conv_3d, floats),
    Op.CONV_2D_DW: OpImpl(_conv_2d_dw, floats),
    Op.CONV_TRANSPOSE_1D: OpImpl(_conv_transpose_1d, floats),
    Op.CONV_TRANSPOSE_2D: OpImpl(_conv_transpose_2d, floats),
    Op.POOL_1D: OpImpl(_pool_1d, floats),
    Op.POOL_2D: OpImpl(_pool_2d, floats),
    Op.POOL_2D_BACK: OpImpl(_pool_2d_back, floats),
}
