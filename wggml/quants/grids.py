"""The codebooks of the IQ1, IQ2 and IQ3 formats.

The numbers are part of the file format; they come from the `gguf` package, which is imported at
the first use only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.errors import UnsupportedOpError
from wggml.quants.layouts import I8, U8


@cache
def grid(type: Type) -> I8:
    """Codebook of an IQ1/IQ2/IQ3 type: int8 [entries, 8], or [entries, 4] for IQ3. Read-only."""
    import gguf.quants

    codebook: Any = getattr(gguf.quants, type.name, None)
    if codebook is None or not hasattr(codebook, "init_grid"):
        raise UnsupportedOpError(
            f"the installed `gguf` package has no codebook for {type.name}; install gguf >= 0.17"
        )
    codebook.init_grid()
    entries: I8 = codebook.grid[0, 0].astype(np.int8)
    entries.flags.writeable = False
    return entries


@cache
def grid_words(type: Type) -> npt.NDArray[np.unsignedinteger]:
    """`grid` with each entry as one word (uint64, or uint32 for IQ3): a gather then moves 8 or 4
    weights at once."""
    entries = grid(type)
    words: npt.NDArray[np.unsignedinteger] = entries.view(f"<u{entries.shape[1]}")[:, 0]
    return words


@cache
def sign_words() -> npt.NDArray[np.uint64]:
    """[256]: for a byte of sign bits (lowest first) the eight factors, int8 +1 or -1, as a word."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    signs: npt.NDArray[np.uint64] = (1 - 2 * bits.astype(np.int8)).view("<u8")[:, 0]
    return signs


@cache
def even_signs() -> U8:
    """[128]: seven stored sign bits -> eight; the last makes the number of minus signs even."""
    seven = np.arange(128, dtype=np.uint8)
    ones = np.unpackbits(seven[:, None], axis=1).sum(axis=1).astype(np.uint8)
    signs: U8 = seven | ones << np.uint8(7)  # a byte keeps the count's lowest bit only
    return signs
