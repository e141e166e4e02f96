"""Reading and writing rows by index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu import arrays
from wggml.backends.cpu.arrays import Array, readable, writable
from wggml.backends.cpu.ops._impl import OpImpl, check_index
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

_INDEX_TYPES = frozenset({Type.I32, Type.I64})


def _gather(rows: Array, index: Array, out: Array) -> None:
    """out[i] = rows[index[i]]; `out` is contiguous, `index` was checked."""
    if index.size == 1:
        out[0] = rows[index.item()]
    elif rows.flags.c_contiguous:
        np.take(rows, index, axis=0, out=out, mode="clip")
    else:  # np.take would first copy all of `rows`
        out[...] = rows[index]


def checked_index(c: Compiler, ids: Tensor, n: int, node: Tensor) -> Array:
    """The window on `ids`; that all its values are in 0..n-1 is checked once a run."""

    def make() -> Array:
        index = c.array(ids)
        c.emit(check_index, index, n, node)
        return index

    index: Array = c.shared(("index", id(ids), n), ids, make)
    return index


def _get_rows_why_not(node: Tensor) -> str | None:
    a, ids = node.src[0], node.src[1]
    assert a is not None and ids is not None
    if ids.type not in _INDEX_TYPES:
        return f"ids of type {TRAITS[ids.type].name}"
    if not (readable(a.type) or a.type == Type.I32):
        return f"rows of type {TRAITS[a.type].name}"
    if node.type != (Type.I32 if a.type == Type.I32 else Type.F32):
        return f"a result of type {TRAITS[node.type].name}"
    return None if a.is_contiguous_rows() else "rows must be contiguous in themselves"


def _get_rows(c: Compiler, node: Tensor) -> None:
    """d[i3, i2, i] = a[i3, i2, ids[i3, i2, i]]"""
    a, ids = node.src[0], node.src[1]
    assert a is not None and ids is not None
    rows, d = c.array(a), c.array(node)
    index = checked_index(c, ids, a.ne[1], node)[0]
    direct = a.type == node.type and d.flags.c_contiguous
    for i3 in range(d.shape[0]):
        for i2 in range(d.shape[1]):
            source, target, which = rows[i3, i2], d[i3, i2], index[i3, i2]
            if direct:
                c.emit(_gather, source, which, target)
                continue
            picked = c.scratch((len(which), source.shape[-1]), source.dtype)
            c.emit(_gather, source, which, picked)
            if a.type == node.type:
                c.emit(np.copyto, target, picked)
            elif target.flags.c_contiguous:
                c.emit_load(picked, a.type, target)
            else:
                values = c.scratch(target.shape)
                c.emit_load(picked, a.type, values)
                c.emit(np.copyto, target, values)


def _get_rows_back(c: Compiler, node: Tensor) -> None:
    """d[ids[i]] += a[i], d starts at zero"""
    a, ids = node.src[0], node.src[1]
    assert a is not None and ids is not None
    d = c.out(node)[0, 0]
    given = checked_index(c, ids, node.ne[1], node)
    index = c.scratch((given.size,), given.dtype)
    c.emit(np.copyto, index.reshape(given.shape), given)
    rows = c.load_contiguous(a).reshape(-1, a.ne[0])[: index.size]
    c.emit(d.fill, np.float32(0))
    c.emit(np.add.at, d, index, rows)


def _set_rows_why_not(node: Tensor) -> str | None:
    rows, ids = node.src[0], node.src[1]
    assert rows is not None and ids is not None
    if rows.type not in (Type.F32, Type.F16, Type.I32):
        return f"rows of type {TRAITS[rows.type].name}"
    if ids.type not in _INDEX_TYPES:
        return f"ids of type {TRAITS[ids.type].name}"
    if not (writable(node.type) or rows.type == node.type == Type.I32):
        return f"a destination of type {TRAITS[node.type].name}"
    if not (node.is_contiguous_rows() and rows.is_contiguous_rows()):
        return "rows must be contiguous in themselves"
    return None


def _set_rows(c: Compiler, node: Tensor) -> None:
    """d[i3, i2, ids[i3 % q, i2 % p, i]] = rows[i3, i2, i]; the rest of `d` keeps its contents"""
    rows, ids = node.src[0], node.src[1]
    assert rows is not None and ids is not None
    d = c.array(node)
    values = _stored_rows(c, rows, node)
    index = checked_index(c, ids, node.ne[1], node)[0]
    for i3 in range(values.shape[0]):
        for i2 in range(values.shape[1]):
            which = index[i3 % index.shape[0], i2 % index.shape[1]]
            target, source = d[i3, i2], values[i3, i2]
            if target.shape[-1] == 1:  # single values scattered, as into a transposed cache
                target, source = target[:, 0], source[:, 0]
            if len(which) == 1:
                c.emit(_set_row, target, which, source)
            else:
                c.emit(partial(target.__setitem__, which, source))


def _set_row(target: Array, which: Array, row: Array) -> None:
    at = which.item()
    target[at : at + 1] = row


def _stored_rows(c: Compiler, rows: Tensor, node: Tensor) -> Array:
    """Rows in (or assignable to) the destination's storage: NumPy itself rounds f32 to f16."""
    if rows.type == node.type or (rows.type == Type.F32 and node.type == Type.F16):
        return c.array(rows)
    if node.type == Type.F32:
        return c.load(rows)
    values = c.load(rows)
    shape = (*values.shape[:3], node.nb[0] * node.ne[0] // TRAITS[node.type].blck_size)
    if node.type == Type.F16:
        stored = c.scratch(values.shape, np.float16)
        c.emit(arrays.f32_to_f16, values, stored)
    elif node.type == Type.BF16:
        stored = c.scratch(values.shape, np.uint16)
        c.emit(arrays.f32_to_bf16, values, stored)
    else:
        stored = c.scratch(shape, np.uint8)
        c.emit(arrays.quantize_into, values, node.type, stored)
    return stored


OPS: dict[Op, OpImpl] = {
    Op.GET_ROWS: OpImpl(_get_rows, _get_rows_why_not),
    Op.GET_ROWS_BACK: OpImpl(_get_rows_back, _get_rows_why_not),
    Op.SET_ROWS: OpImpl(_set_rows, _set_rows_why_not),
}
