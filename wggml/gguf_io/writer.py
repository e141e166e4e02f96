"""Write GGUF files: plain mappings in, the `gguf` package's writer underneath."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import TRAITS, Type, row_size, type_name
from wggml.errors import GGUFError
from wggml.gguf_io.constants import KEY_ALIGNMENT, KEY_ARCHITECTURE, SCALAR_CODES, ValueType

# An array is written as its own dtype; packed data as (uint8 bytes, type, ne innermost first).
TensorSource = npt.NDArray[Any] | tuple[npt.NDArray[np.uint8], Type, tuple[int, ...]]

_BY_DTYPE: dict[np.dtype[Any], Type] = {
    traits.dtype: t for t, traits in TRAITS.items() if traits.dtype is not None and t != Type.BF16
}
_BY_CODE: dict[str, ValueType] = {code: t for t, code in SCALAR_CODES.items()}


def write_gguf(
    path: str | Path, kv: Mapping[str, Any], tensors: Mapping[str, TensorSource]
) -> None:
    """Write `path` (replaced in one step when it is complete).

    `kv`: bool, str, bytes (as string), float (FLOAT32), int (UINT32; INT32 when negative, 64 bits
    when needed), NumPy arrays and scalars (their own type), lists of str, bytes, int (INT32) or
    float (FLOAT32), or `(ValueType, value)` to say the type. `tensors`: f32, f16, f64 and integer
    arrays, or `(bytes, type, ne)`.

    Raises `GGUFError` for what the format cannot hold.
    """
    from gguf import GGUFWriter

    path = Path(path)
    unfinished = path.with_name(path.name + ".unfinished")
    writer: Any = GGUFWriter(unfinished, str(kv.get(KEY_ARCHITECTURE, "")))
    try:
        for key, value in kv.items():
            _add_value(writer, key, value)
        sources = [_add_tensor(writer, name, source) for name, source in tensors.items()]
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for raw in sources:
            writer.write_tensor_data(raw)
        writer.close()
        os.replace(unfinished, path)
    finally:
        writer.close()
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()


def value_type(value: Any) -> tuple[ValueType, ValueType | None]:
    """The types that `write_gguf` gives a Python value: its own, and for arrays the items'."""
    if isinstance(value, np.ndarray):
        return ValueType.ARRAY, _code_type(value.dtype)
    if isinstance(value, np.generic):
        return _code_type(value.dtype), None
    if isinstance(value, list | tuple):
        items = {_item_type(v) for v in value}
        if len(items) != 1:
            raise GGUFError(f"a GGUF array needs items, all of one type; got {value!r:.80}")
        return ValueType.ARRAY, items.pop()
    return _scalar_type(value), None


def _code_type(dtype: np.dtype[Any]) -> ValueType:
    # NumPy's character codes depend on the platform for 64 bits; sizes and kinds do not
    code: str = np.dtype(f"{dtype.kind}{dtype.itemsize}").char
    code = {"l": "q", "L": "Q"}.get(code, code)
    if code not in _BY_CODE:
        raise GGUFError(f"GGUF metadata cannot hold {dtype} values")
    return _BY_CODE[code]


def _scalar_type(value: Any) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, str | bytes):
        return ValueType.STRING
    if isinstance(value, float):
        return ValueType.FLOAT32
    if isinstance(value, int):
        if value < 0:
            return ValueType.INT32 if value >= -(1 << 31) else ValueType.INT64
        return ValueType.UINT32 if value < 1 << 32 else ValueType.UINT64
    raise GGUFError(f"GGUF metadata cannot hold a {type(value).__name__}: {value!r:.80}")


def _item_type(value: Any) -> ValueType:
    kind = _scalar_type(value)
    if kind is ValueType.UINT32 and value < 1 << 31:
        return ValueType.INT32
    return kind


def _add_value(writer: Any, key: str, value: Any) -> None:
    from gguf import GGUFValueType

    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], ValueType):
        kind, value = value
        item = value_type(value)[1] if kind is ValueType.ARRAY else None
    else:
        kind, item = value_type(value)
    if key == KEY_ARCHITECTURE:
        return  # GGUFWriter has written it already, as the first key
    if key == KEY_ALIGNMENT:
        writer.add_custom_alignment(int(value))
        return
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if kind is ValueType.ARRAY:
        if len(value) == 0:
            raise GGUFError(f"metadata {key!r} is an empty array, which GGUF writers do not store")
        value = [_encoded(v) for v in value]
    writer.add_key_value(
        key,
        _encoded(value),
        GGUFValueType(int(kind)),
        sub_type=None if item is None else GGUFValueType(int(item)),
    )


def _encoded(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _add_tensor(writer: Any, name: str, source: TensorSource) -> npt.NDArray[np.uint8]:
    """Announce a tensor; returns its bytes."""
    if isinstance(source, tuple):
        raw, kind, ne = source
        raw = np.ascontiguousarray(raw).reshape(-1)
        want = row_size(kind, ne[0]) * int(np.prod(ne[1:], dtype=object))
        if raw.dtype != np.uint8 or raw.size != want:
            raise GGUFError(
                f"tensor {name!r}: {raw.size} {raw.dtype} values given; {type_name(kind)} of "
                f"sizes {ne} takes {want} bytes (uint8)"
            )
        shape = ne[::-1]
    else:
        if source.dtype.newbyteorder("<") not in _BY_DTYPE:
            raise GGUFError(
                f"tensor {name!r} is {source.dtype}; GGUF holds f16, f32, f64, i8, i16, i32, i64, "
                "or packed bytes given as (bytes, type, ne)"
            )
        little = source.dtype.newbyteorder("<")
        kind, shape = _BY_DTYPE[little], source.shape or (1,)
        raw = np.ascontiguousarray(source, little).reshape(-1).view(np.uint8)
    if len(shape) > 4:
        raise GGUFError(f"tensor {name!r} has {len(shape)} dimensions; GGUF holds at most 4")
    # With a dtype other than uint8 the package takes shape and type number as they are, and so
    # also writes types that it has no block sizes for.
    writer.add_tensor_info(name, shape, np.dtype(np.int8), raw.nbytes, raw_dtype=kind)
    return raw
