"""Copies, conversions and rearrangements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import Array, readable, reduce_sum, repeat_views, squeezed, writable
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def reshape_view(a: Array, shape: tuple[int, ...]) -> Array | None:
    """`a` under another shape without a copy, or None when its strides do not allow that."""
    if a.shape == shape:
        return a
    b = a.reshape(shape)
    return b if np.may_share_memory(a, b) else None


def emit_copy(c: Compiler, x: Array, y: Array) -> None:
    """Values of `x` into `y` in logical order; shapes may differ, NumPy converts plain types."""
    same = reshape_view(x, y.shape)
    if same is not None:
        source, target = squeezed(same, y)
        c.emit(np.copyto, target, source, casting="unsafe")
        return
    back = reshape_view(y, x.shape)
    if back is not None:
        c.emit(np.copyto, back, x, casting="unsafe")
        return
    packed = c.scratch(x.shape, x.dtype)
    c.emit(np.copyto, packed, x)
    c.emit(np.copyto, y, packed.reshape(y.shape), casting="unsafe")


def _copy_why_not(node: Tensor) -> str | None:
    a = node.src[0]
    assert a is not None
    if a.type == node.type:
        return None
    plain = all(TRAITS[t.type].dtype is not None for t in (a, node))
    ok = (readable(a.type) or plain) and (writable(node.type) or plain)
    if not ok:
        return f"no conversion from {TRAITS[a.type].name} to {TRAITS[node.type].name}"
    for t in (a, node):
        if TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return f"a {TRAITS[t.type].name} operand whose rows have gaps"
    return None


def _copy(c: Compiler, node: Tensor) -> None:
    """CPY, CONT, DUP: the source's values in logical order into the node's memory."""
    a = node.src[0]
    assert a is not None
    if a.type == node.type:
        if TRAITS[a.type].dtype is not None:
            emit_copy(c, c.array(a), c.array(node))
        else:
            emit_copy(c, c.blocks(a), c.blocks(node))
        return
    if readable(a.type) and writable(node.type):
        emit_copy(c, c.load(a), c.out(node))
    elif readable(a.type):
        emit_copy(c, c.load(a), c.array(node))
    elif writable(node.type):
        emit_copy(c, c.array(a), c.out(node))
    else:
        emit_copy(c, c.array(a), c.array(node))


def _same_type(node: Tensor) -> str | None:
    for t in node.src:
        if t is not None and t.type != node.type:
            return "operands of different types"
        if t is not None and TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return "rows of blocks with gaps"
    return None


def _repeat_why_not(node: Tensor) -> str | None:
    quantized = TRAITS[node.type].is_quantized
    return f"type {TRAITS[node.type].name}" if quantized else _same_type(node)


def _repeat(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    y = c.array(node)
    shape, small = repeat_views(y.shape, c.array(a))
    target, source = squeezed(y.reshape(shape), small)
    c.emit(np.copyto, target, source)


def _repeat_back(c: Compiler, node: Tensor) -> None:
    """Sum over the copies that REPEAT would make of the node."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    split: list[int] = []
    for n, m in zip(x.shape, y.shape, strict=True):
        split += [n // m, m]
    c.emit(reduce_sum, x.reshape(split), (0, 2, 4, 6), None, y)


def _concat(c: Compiler, node: Tensor) -> None:
    axis = 3 - node.param_i32(0)
    y = c.array(node)
    at = 0
    for t in node.src:
        assert t is not None
        x = c.array(t)
        window = [slice(None)] * 4
        window[axis] = slice(at, at + x.shape[axis])
        c.emit(np.copyto, y[tuple(window)], x)
        at += x.shape[axis]


def _pad(c: Compiler, node: Tensor) -> None:
    """Zeros (or, if circular, the other end's values) around the source."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    left = [node.param_i32(2 * (3 - axis)) for axis in range(4)]
    if node.param_i32(8):
        wrapped = [(np.arange(n) - lo) % m for n, m, lo in zip(y.shape, x.shape, left, strict=True)]
        index = np.ix_(*wrapped)
        c.emit(lambda: np.copyto(y, x[index]))
        return
    window = tuple(slice(lo, lo + m) for lo, m in zip(left, x.shape, strict=True))
    c.emit(y.fill, np.float32(0))
    c.emit(np.copyto, y[window], x)


def _diag(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    y = c.out(node)
    diagonal = np.einsum("abii->abi", y)
    c.emit(y.fill, np.float32(0))
    c.emit(np.copyto, diagonal, c.load(a)[:, :, 0])


def _diag_mask(value: float) -> OpImpl:
    def compile(c: Compiler, node: Tensor) -> None:
        """Columns right of the diagonal, which n_past shifts to the right, become `value`."""
        a = node.src[0]
        assert a is not None
        x, y = c.load(a), c.out(node)
        rows, columns = y.shape[2:]
        beyond = np.arange(columns)[None, :] > node.param_i32(0) + np.arange(rows)[:, None]
        c.emit(np.copyto, y, x)
        c.emit(np.copyto, y, np.float32(value), where=beyond)

    return OpImpl(compile, F32_ONLY)


OPS: dict[Op, OpImpl] = {
    Op.CPY: OpImpl(_copy, _copy_why_not),
    Op.CONT: OpImpl(_copy, _copy_why_not),
    Op.DUP: OpImpl(_copy, _copy_why_not),
    Op.REPEAT: OpImpl(_repeat, _repeat_why_not),
    Op.REPEAT_BACK: OpImpl(_repeat_back, F32_ONLY),
    Op.CONCAT: OpImpl(_concat, _same_type),
    Op.PAD: OpImpl(_pad, F32_ONLY),
    Op.DIAG: OpImpl(_diag, F32_ONLY),
    Op.DIAG_MASK_INF: OpImpl(_diag_mask(-np.inf).compile, F32_ONLY),
    Op.DIAG_MASK_ZERO: OpImpl(_diag_mask(0.0).compile, F32_ONLY),
}
