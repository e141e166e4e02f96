"""Tensor data of big-endian files."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wggml.core.types import TRAITS, Type, type_name
from wggml.errors import GGUFError
from wggml.quants.layouts import LAYOUTS

# Block formats whose only numbers wider than a byte are the named fields of their layout. In the
# others 16- and 32-bit words are packed inside byte strings.
_SWAPPABLE = frozenset(LAYOUTS) - {
    Type.IQ1_M, Type.IQ1_S, Type.IQ2_S, Type.IQ2_XS, Type.IQ2_XXS, Type.IQ3_S, Type.IQ3_XXS,
    Type.Q8_K,
}  # fmt: skip


def to_little(raw: npt.NDArray[np.uint8], kind: Type, what: str) -> npt.NDArray[np.uint8]:
    """Big-endian data [nbytes] of a tensor as a little-endian copy.

    Raises `GGUFError` for the formats that cannot be swapped number by number.
    """
    dtype = TRAITS[kind].dtype if kind not in LAYOUTS else LAYOUTS[kind]
    if dtype is None or (kind in LAYOUTS and kind not in _SWAPPABLE):
        raise GGUFError(
            f"{what} is big-endian and of type {type_name(kind)}, which is not byte-swapped here; "
            "convert the file with `gguf-convert-endian FILE little`"
        )
    return raw.view(dtype.newbyteorder(">")).astype(dtype).view(np.uint8)
