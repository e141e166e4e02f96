"""Softmax, rotary positions and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, reduce_max, reduce_sum, repeat_views
from wggml.backends.cpu.ops import _flash, _rope
from wggml.backends.cpu.ops._impl import OpImpl
from wggml.backends.cpu.ops._masks import LOWEST, TINY, alibi_slopes, load_mask
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def emit_softmax(c: Compiler, s: F32, masked: bool, sinks: F32 | None, y: F32) -> None:
    """y = softmax over the last axis; `sinks` (broadcasting to one value a row) take part in
    maximum and sum only. Rows that are -inf throughout become 0. `y` may be `s`."""
    peak: F32 = c.scratch((*s.shape[:-1], 1))
    total: F32 = c.scratch(peak.shape)
    c.emit(reduce_max, s, -1, None, peak, True)
    if sinks is not None:
        c.emit(np.maximum, peak, sinks, out=peak)
    if masked:
        c.emit(np.maximum, peak, LOWEST, out=peak)
    c.emit(np.subtract, s, peak, y)
    c.emit(np.exp, y, y)
    c.emit(reduce_sum, y, -1, None, total, True)
    if sinks is not None:
        c.emit(np.subtract, sinks, peak, peak)
        c.emit(np.exp, peak, peak)
        c.emit(np.add, total, peak, total)
    if masked:
        c.emit(np.maximum, total, TINY, out=total)
    c.emit(np.reciprocal, total, total)
    c.emit(np.multiply, y, total, y)


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


OPS: dict[Op, OpImpl] = {
    Op.SOFT_MAX: OpImpl(_soft_max, _soft_max_why_not),
    Op.FLASH_ATTN_EXT: OpImpl(_flash.compile, _flash.why_not),
    Op.ROPE: OpImpl(_rope.compile_forward, _rope.why_not),
    Op.ROPE_BACK: OpImpl(_rope.compile_back, _rope.why_not),
}
