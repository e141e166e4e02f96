"""Products with quantised matrices that never make the whole matrix f32."""

from __future__ import annotations

import numpy as np

from wggml.core.types import Type, blck_size, type_size
from wggml.errors import ShapeError
from wggml.quants.api import dequantize_rows
from wggml.quants.layouts import F32, U8

# Rows dequantised at a time, and the most f32 values that may take: 1 MiB stays in cache.
TILE_ROWS = 256
TILE_VALUES = 1 << 18


def dot_rows(raw: U8, type: Type, x: F32, out: F32 | None = None) -> F32:
    """`W @ x` for quantised W: rows `raw` uint8 [N, row_bytes], x f32 [K, C] or [K] -> f32 [N, C]
    or [N].

    Rows pass through one reused f32 scratch, a tile at a time, into BLAS. `out`, if given, is
    filled and returned. Raises `ShapeError` for sizes that do not fit.
    """
    k = raw.shape[-1] // type_size(type) * blck_size(type)
    if raw.ndim != 2 or x.ndim not in (1, 2) or x.shape[0] != k:
        raise ShapeError(
            f"dot_rows: rows {raw.shape} of {type.name} hold {k} values each; x is {x.shape}, "
            f"it must be [{k}] or [{k}, columns]"
        )
    n = raw.shape[0]
    want = (n, *x.shape[1:])
    if out is None:
        out = np.empty(want, np.float32)
    elif out.shape != want or out.dtype != np.float32:
        raise ShapeError(f"dot_rows: `out` is {out.dtype} {out.shape}; it must be float32 {want}")
    step = max(1, min(TILE_ROWS, TILE_VALUES // max(k, 1)))
    scratch = np.empty((min(step, n), k), np.float32)
    for row in range(0, n, step):
        part = raw[row : row + step]
        tile = dequantize_rows(part, type, out=scratch[: len(part)])
        np.matmul(tile, x, out=out[row : row + step])
    return out
