"""Types stored one value at a time: floats and integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wggml.core.types import TRAITS, Type
from wggml.quants.layouts import F32, U8
from wggml.quants.rounding import f16_to_f32, f32_to_bf16, to_f16


def _cast_from(t: Type) -> Callable[[U8, F32], None]:
    dtype = TRAITS[t].dtype
    assert dtype is not None

    def read(raw: U8, out: F32) -> None:
        with np.errstate(over="ignore"):
            out[...] = raw.view(dtype)

    return read


def _read_f16(raw: U8, out: F32) -> None:
    f16_to_f32(raw.view("<u2"), out)


def _read_bf16(raw: U8, out: F32) -> None:
    np.left_shift(raw.view("<u2").astype(np.uint32), 16, out=out.view(np.uint32))


# Bytes [n * type_size] -> f32 [n].
READERS: dict[Type, Callable[[U8, F32], None]] = {
    **{t: _cast_from(t) for t in (Type.F32, Type.F64, Type.I8, Type.I16, Type.I32, Type.I64)},
    Type.F16: _read_f16,
    Type.BF16: _read_bf16,
}

# f32 [n] -> bytes [n * type_size]. Integers are no weight format: nothing is rounded to them.
WRITERS: dict[Type, Callable[[F32], U8]] = {
    Type.F32: lambda x: x.astype("<f4").view(np.uint8),
    Type.F64: lambda x: x.astype("<f8").view(np.uint8),
    Type.F16: lambda x: to_f16(x).view(np.uint8),
    Type.BF16: lambda x: f32_to_bf16(x).view(np.uint8),
}
