"""Facts of the GGUF file format (versions 2 and 3) and the bounds a sane file stays in."""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_BYTES = 24  # magic, version, tensor count, key count
DEFAULT_ALIGNMENT = 32
# The format only asks for a power of two; real files use 32 or 64. Padding of a mebibyte would
# already be absurd, so larger values are taken for damage.
MAX_ALIGNMENT = 1 << 20
MAX_DIMS = 4
MAX_ARRAY_DEPTH = 4
# The shortest possible entries: empty name, no dimension / key of one byte, one-byte value.
MIN_TENSOR_BYTES = 8 + 4 + 4 + 8
MIN_KV_BYTES = 8 + 1 + 4 + 1

KEY_ALIGNMENT = "general.alignment"
KEY_ARCHITECTURE = "general.architecture"
KEY_SPLIT_NO = "split.no"
KEY_SPLIT_COUNT = "split.count"
KEY_SPLIT_TENSORS = "split.tensors.count"


class ValueType(IntEnum):
    """`gguf_type` of a metadata value."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


# `struct` codes, which for these are NumPy dtype codes as well (`?` reads any non-zero as True).
SCALAR_CODES: dict[ValueType, str] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "?",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}

SCALAR_BYTES: dict[ValueType, int] = {
    t: {"B": 1, "b": 1, "?": 1, "H": 2, "h": 2, "I": 4, "i": 4, "f": 4}.get(code, 8)
    for t, code in SCALAR_CODES.items()
}

# Tensor type numbers that once meant something and no longer do.
WITHDRAWN_TYPES: dict[int, str] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
