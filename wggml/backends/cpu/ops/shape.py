"""Copies, conversions and rearrangements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import (
    Array,
    home_of,
    place_of,
    readable,
    reduce_sum,
    repeat_views,
    squeezed,
    writable,
)
from wggml.backends.cpu.ops._impl import F32_ONLY, OpImpl, only
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

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


def _pad_reflect_1d(c: Compiler, node: Tensor) -> None:
    """Values mirrored at both ends of each row, the end value itself not repeated."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    n, left = x.shape[-1], node.param_i32(0)
    at = np.abs(np.arange(y.shape[-1]) - left)
    index = np.where(at >= n, 2 * (n - 1) - at, at)
    c.emit(lambda: np.copyto(y, x[..., index]))


def _roll(c: Compiler, node: Tensor) -> None:
    """Shifted by op_params along each dimension; what leaves one end enters at the other."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    index = np.ix_(
        *((np.arange(y.shape[i]) - node.param_i32(3 - i)) % y.shape[i] for i in range(4))
    )
    c.emit(lambda: np.copyto(y, x[index]))


_TRIANGLES = {0: np.greater_equal, 1: np.greater, 2: np.less_equal, 3: np.less}


def _tri(c: Compiler, node: Tensor) -> None:
    """The upper (with or without diagonal) or lower triangle of each matrix, else zeros."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a), c.out(node)
    rows, columns = np.ogrid[: y.shape[2], : y.shape[3]]
    kept = _TRIANGLES[node.param_i32(0)](columns, rows)
    c.emit(y.fill, np.float32(0))
    c.emit(np.copyto, y, x, where=kept)


def _window(c: Compiler, node: Tensor, part: Tensor) -> Array:
    """The elements of the node that SET and ACC write: the shape of `part`, with the byte strides
    op_params[0:3] from byte op_params[3] on."""
    c.array(node)
    nb1, nb2, nb3, offset = (node.param_i32(i) for i in range(4))
    dtype = TRAITS[node.type].dtype
    assert dtype is not None
    shape, strides = part.ne[::-1], (nb3, nb2, nb1, dtype.itemsize)
    memory, at = home_of(node).memory, place_of(node) + offset
    return np.ndarray(shape, dtype, buffer=memory, offset=at, strides=strides)


def _emit_whole(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    if not node.param_i32(4):  # else the node is a view of `a`
        c.emit(np.copyto, c.array(node), c.array(a))


def _set(c: Compiler, node: Tensor) -> None:
    """A copy of the first source with a window of it replaced by the second."""
    b = node.src[1]
    assert b is not None
    _emit_whole(c, node)
    c.emit(np.copyto, _window(c, node, b), c.array(b))


def _acc(c: Compiler, node: Tensor) -> None:
    """A copy of the first source with the second added to a window of it."""
    b = node.src[1]
    assert b is not None
    _emit_whole(c, node)
    window = _window(c, node, b)
    c.emit(np.add, window, c.array(b), window)


def _arange(c: Compiler, node: Tensor) -> None:
    y = c.out(node)
    start, step = np.float32(node.param_f32(0)), np.float32(node.param_f32(2))
    values = start + step * np.arange(y.size, dtype=np.float32)
    c.emit(np.copyto, y, values.reshape(y.shape))


def _timestep_embedding(c: Compiler, node: Tensor) -> None:
    """Cosines, then sines, of t * max_period^(-j / half); a last odd column is 0."""
    a = node.src[0]
    assert a is not None
    x, y = c.load(a).reshape(-1), c.out(node)[0, 0]
    half, longest = node.param_i32(0) // 2, node.param_i32(1)
    steps = np.arange(half, dtype=np.float32) / np.float32(max(half, 1))
    frequency = np.exp(-np.log(np.float32(longest)) * steps)
    angle = c.scratch((len(x), half))
    c.emit(np.multiply, x[:, None], frequency, angle)
    c.emit(np.cos, angle, y[:, :half])
    c.emit(np.sin, angle, y[:, half : 2 * half])
    if y.shape[1] > 2 * half:
        c.emit(np.copyto, y[:, 2 * half :], np.float32(0))


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
    Op.PAD_REFLECT_1D: OpImpl(_pad_reflect_1d, F32_ONLY),
    Op.ROLL: OpImpl(_roll, F32_ONLY),
    Op.TRI: OpImpl(_tri, F32_ONLY),
    Op.SET: OpImpl(_set, only(Type.F32, Type.I32)),
    Op.ACC: OpImpl(_acc, F32_ONLY),
    Op.ARANGE: OpImpl(_arange, F32_ONLY),
    Op.TIMESTEP_EMBEDDING: OpImpl(_timestep_embedding, F32_ONLY),
    Op.DIAG: OpImpl(_diag, F32_ONLY),
    Op.DIAG_MASK_INF: OpImpl(_diag_mask(-np.inf).compile, F32_ONLY),
    Op.DIAG_MASK_ZERO: OpImpl(_diag_mask(0.0).compile, F32_ONLY),
}
