"""Codebooks of the IQ1, IQ2 and IQ3 formats as tables that shaders read."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.quants.grids import grid

# WGSL type of an entry: eight weights, or four of IQ3, a byte each.
CODEBOOKS: dict[Type, str] = {
    **dict.fromkeys((Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ1_S, Type.IQ1_M), "vec2<u32>"),
    **dict.fromkeys((Type.IQ3_XXS, Type.IQ3_S), "u32"),
}


@cache
def codebook(type: Type) -> npt.NDArray[np.uint32]:
    """Entries as words [n, 2] or, for IQ3, [n, 1]: magnitudes; for IQ1 (whose weights are -1, 0, 1
    and an eighth more or less) eighths above -1."""
    entries = grid(type)
    if type in (Type.IQ1_S, Type.IQ1_M):
        entries = ((entries + 1) * 8).astype(np.int8)
    words: npt.NDArray[np.uint32] = np.ascontiguousarray(entries).view("<u4")
    return words
