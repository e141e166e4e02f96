"""Tensor types: how many elements make a block, and how many bytes a block takes.

Numbers are those of the GGUF file format (`ggml_type`), so a file's type field is a `Type` as is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from wggml.errors import ShapeError


class Type(IntEnum):
    """`ggml_type`. Gaps are numbers whose support ggml has withdrawn."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


@dataclass(frozen=True, slots=True)
class TypeTraits:
    """Facts about one type.

    `blck_size` elements are stored in `type_size` bytes. `dtype` is the NumPy dtype of one element
    for plain types (bf16 is read as uint16), None for block-quantised ones.
    """

    name: str
    blck_size: int
    type_size: int
    is_quantized: bool
    dtype: np.dtype[np.generic] | None


def _plain(name: str, dtype: npt.DTypeLike) -> TypeTraits:
    d = np.dtype(dtype)
    return TypeTraits(name, 1, d.itemsize, False, d)


def _block(name: str, blck_size: int, type_size: int) -> TypeTraits:
    return TypeTraits(name, blck_size, type_size, True, None)


# Block layouts: the GGUF specification and the `row_bytes` of ggml's recorded quantisation data.
TRAITS: dict[Type, TypeTraits] = {
    Type.F32: _plain("f32", "<f4"),
    Type.F16: _plain("f16", "<f2"),
    Type.BF16: TypeTraits("bf16", 1, 2, False, np.dtype("<u2")),
    Type.F64: _plain("f64", "<f8"),
    Type.I8: _plain("i8", "i1"),
    Type.I16: _plain("i16", "<i2"),
    Type.I32: _plain("i32", "<i4"),
    Type.I64: _plain("i64", "<i8"),
    Type.Q4_0: _block("q4_0", 32, 18),
    Type.Q4_1: _block("q4_1", 32, 20),
    Type.Q5_0: _block("q5_0", 32, 22),
    Type.Q5_1: _block("q5_1", 32, 24),
    Type.Q8_0: _block("q8_0", 32, 34),
    Type.Q8_1: _block("q8_1", 32, 36),
    Type.Q2_K: _block("q2_K", 256, 84),
    Type.Q3_K: _block("q3_K", 256, 110),
    Type.Q4_K: _block("q4_K", 256, 144),
    Type.Q5_K: _block("q5_K", 256, 176),
    Type.Q6_K: _block("q6_K", 256, 210),
    Type.Q8_K: _block("q8_K", 256, 292),
    Type.IQ2_XXS: _block("iq2_xxs", 256, 66),
    Type.IQ2_XS: _block("iq2_xs", 256, 74),
    Type.IQ2_S: _block("iq2_s", 256, 82),
    Type.IQ3_XXS: _block("iq3_xxs", 256, 98),
    Type.IQ3_S: _block("iq3_s", 256, 110),
    Type.IQ1_S: _block("iq1_s", 256, 50),
    Type.IQ1_M: _block("iq1_m", 256, 56),
    Type.IQ4_NL: _block("iq4_nl", 32, 18),
    Type.IQ4_XS: _block("iq4_xs", 256, 136),
    Type.TQ1_0: _block("tq1_0", 256, 54),
    Type.TQ2_0: _block("tq2_0", 256, 66),
    Type.MXFP4: _block("mxfp4", 32, 17),
    Type.NVFP4: _block("nvfp4", 64, 36),
    Type.Q1_0: _block("q1_0", 128, 18),
    Type.Q2_0: _block("q2_0", 64, 18),
}

BY_NAME: dict[str, Type] = {traits.name: t for t, traits in TRAITS.items()}


def type_from_name(name: str) -> Type:
    """The type called `name` (`"q4_K"`, `"f32"`; case does not matter).

    Raises `ShapeError` for a name that ggml does not define.
    """
    for known, t in BY_NAME.items():
        if known.lower() == name.lower():
            return t
    raise ShapeError(f"tensor type {name!r} is not known; known types: {', '.join(BY_NAME)}")


def blck_size(t: Type) -> int:
    """Elements in one block (1 for plain types)."""
    return TRAITS[t].blck_size


def type_size(t: Type) -> int:
    """Bytes of one block (of one element for plain types)."""
    return TRAITS[t].type_size


def type_name(t: Type) -> str:
    """ggml's name of the type, e.g. `q4_K`."""
    return TRAITS[t].name


def is_quantized(t: Type) -> bool:
    """True for block formats."""
    return TRAITS[t].is_quantized


def row_size(t: Type, ne0: int) -> int:
    """Bytes of a contiguous row of `ne0` elements; `ne0` must be whole blocks (`ShapeError`)."""
    traits = TRAITS[t]
    blocks, rest = divmod(ne0, traits.blck_size)
    if rest:
        raise ShapeError(
            f"a row of {ne0} values of type {traits.name} is not made of whole blocks; "
            f"the row length must be a multiple of {traits.blck_size}"
        )
    return blocks * traits.type_size
