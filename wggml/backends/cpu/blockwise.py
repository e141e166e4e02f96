"""Products of one vector with quantised rows that are not kept as f32.

Codes become f32 a tile of rows at a time, BLAS multiplies each block with its part of the vector,
and the scales come last, once a block instead of once a weight. Nothing larger than a tile is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, U8, reduce_sum
from wggml.core.types import Type
from wggml.quants.layouts import LAYOUTS
from wggml.quants.parts import PARTS

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler
    from wggml.backends.cpu.weights import Matrix

TILE = 65536  # codes a tile: as f32 they stay in the second-level cache


def can_split(type_: Type) -> bool:
    """True for types whose blocks `BlockDots` multiplies."""
    return type_ in PARTS


class BlockDots:
    """y[m] = rows[m, k] . x[k], of rows `begin`, `begin` + 1, ... of a matrix.

    `x` and `y` are contiguous f32 vectors; `run` reads what lies in them then.
    """

    def __init__(self, c: Compiler, w: Matrix, begin: int, x: F32, y: F32) -> None:
        self.rows: U8 = w.rows[begin:]
        self.layout = LAYOUTS[w.type]
        self.take_apart = PARTS[w.type]
        codes, _, minima = self.take_apart(np.zeros(1, self.layout))
        self.width = codes.shape[2]  # values that share a scale
        n = w.k // self.width
        self.x: F32 = x.reshape(n, self.width, 1)
        self.y = y
        step = min(len(self.rows), max(1, TILE // w.k))
        self.step = step
        self.codes: F32 = c.scratch((step, n, self.width))
        self.dots: F32 = c.scratch((n, step, 1))
        self.sums: F32 | None = c.scratch((n,)) if minima is not None else None

    def run(self) -> None:
        if self.sums is not None:
            reduce_sum(self.x[:, :, 0], 1, None, self.sums)
        for at in range(0, len(self.rows), self.step):
            self._tile(self.rows[at : at + self.step], self.y[at : at + self.step])

    def _tile(self, rows: U8, y: F32) -> None:
        m = len(rows)
        records = np.ascontiguousarray(rows).reshape(-1).view(self.layout)
        codes, scales, minima = self.take_apart(records)
        values = self.codes[:m]
        np.copyto(values.reshape(codes.shape), codes)
        dots = self.dots[:, :m]
        np.matmul(values.swapaxes(0, 1), self.x, dots)
        np.einsum("bm,mb->m", dots[:, :, 0], scales.reshape(m, -1), out=y)
        if minima is not None and self.sums is not None:
            y += np.dot(minima.reshape(m, -1), self.sums)
