"""NumPy arrays in and out of tensor bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import ShapeError

Bytes = npt.NDArray[np.uint8]

_FROM_DTYPE: dict[str, Type] = {
    "float32": Type.F32,
    "float64": Type.F32,
    "float16": Type.F16,
    "int8": Type.I8,
    "int16": Type.I16,
    "int32": Type.I32,
    "int64": Type.I64,
    "bool": Type.I32,
}


def type_of(array: npt.NDArray[Any]) -> Type:
    """The tensor type an array is stored as (float64 becomes F32, bool becomes I32)."""
    t = _FROM_DTYPE.get(array.dtype.name)
    if t is None:
        raise ShapeError(
            f"arrays of dtype {array.dtype} have no tensor type; use one of {sorted(_FROM_DTYPE)}"
        )
    return t


def shape_of(array: npt.NDArray[Any]) -> tuple[int, ...]:
    """`ne` of an array: its shape reversed (a scalar becomes one element)."""
    return tuple(reversed(array.shape)) or (1,)


def to_bytes(array: npt.ArrayLike, t: Tensor) -> Bytes:
    """The contiguous bytes `t` stores for `array`; raises `ShapeError` on another element count."""
    a = np.asarray(array)
    if a.size != t.n_elements:
        raise ShapeError(
            f"tensor {t.name!r} holds {t.n_elements} values (ne {list(t.ne)}), the array has "
            f"{a.size} (shape {a.shape})"
        )
    traits = TRAITS[t.type]
    if traits.dtype is not None and t.type != Type.BF16:
        return np.ascontiguousarray(a, dtype=traits.dtype).reshape(-1).view(np.uint8)
    from wggml.quants import quantize

    rows = np.ascontiguousarray(a, dtype=np.float32).reshape(-1, t.ne[0])
    return quantize(rows, t.type).reshape(-1)


def to_array(raw: Bytes, t: Tensor) -> npt.NDArray[Any]:
    """Values of `t` from its `nbytes` bytes, read through its strides.

    Shape: `ne` reversed, leading ones dropped. F16, BF16 and quantised types become float32.
    """
    traits = TRAITS[t.type]
    shape = t.ne[: t.n_dims][::-1]
    if t.is_empty():
        return np.zeros(t.ne[::-1], traits.dtype or np.float32)
    if traits.blck_size > 1:
        return _dequantized(raw, t).reshape(shape)
    assert traits.dtype is not None
    strides = t.nb[: t.n_dims][::-1]
    a = np.ndarray(shape, traits.dtype, buffer=np.ascontiguousarray(raw), strides=strides)
    if t.type == Type.BF16:
        return (a.astype(np.uint32) << 16).view(np.float32)
    if t.type == Type.F16:
        return a.astype(np.float32)
    return a.copy()


def _dequantized(raw: Bytes, t: Tensor) -> npt.NDArray[np.float32]:
    from wggml.quants import dequantize_rows

    traits = TRAITS[t.type]
    row_bytes = t.ne[0] // traits.blck_size * traits.type_size
    strides = (t.nb[3], t.nb[2], t.nb[1], 1)
    shape = (t.ne[3], t.ne[2], t.ne[1], row_bytes)
    rows = np.ndarray(shape, np.uint8, buffer=np.ascontiguousarray(raw), strides=strides)
    return dequantize_rows(rows.reshape(-1, row_bytes), t.type)
