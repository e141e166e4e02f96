"""Masks of softmax and attention, and the ALiBi slopes they are multiplied with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

# Stand-ins that keep fully masked rows at 0: exp(-inf - LOWEST) is 0, and 0 / TINY is 0.
LOWEST = np.float32(-3e38)
TINY = np.float32(1e-37)


def alibi_slopes(n_head: int, max_bias: float) -> F32 | None:
    """Slope of the mask for each head (arXiv:2108.12409, with ggml's rule for head counts that
    are no power of two); None when `max_bias` is 0, where every slope is 1."""
    if max_bias <= 0.0:
        return None
    n = 1 << (n_head.bit_length() - 1)
    m0, m1 = 2.0 ** (-max_bias / n), 2.0 ** (-max_bias / 2.0 / n)
    slopes = [m0 ** (h + 1) if h < n else m1 ** (2 * (h - n) + 1) for h in range(n_head)]
    return np.array(slopes, np.float32)


def load_mask(c: Compiler, mask: Tensor) -> F32:
    """The mask as f32, converted once a run for all nodes that use it. It holds -inf, which a
    cast keeps at no extra cost."""
    if mask.type == Type.F32:
        return c.array(mask)

    def make() -> F32:
        values: F32 = c.keep((mask.ne[3], mask.ne[2], mask.ne[1], mask.ne[0]))
        if mask.type == Type.F16:
            c.emit(np.copyto, values, c.array(mask))
        else:
            c.emit_load(c.array(mask), mask.type, values)
        return values

    values: F32 = c.shared(("f32", id(mask)), mask, make)
    return values


class Columns:
    """Which columns of a mask matter, found once a run: for each tile of rows the first and one
    past the last that any row sees, and whether all between are plainly visible (bias 0)."""

    def __init__(self, bias: F32, rows: int, tile: int) -> None:
        self.tiles = [bias[:, :, at : min(at + tile, rows)] for at in range(0, rows, tile)]
        self.spans: list[tuple[int, int, bool]] = []

    def find(self) -> None:
        self.spans = [self._span(t) for t in self.tiles]

    @staticmethod
    def _span(bias: F32) -> tuple[int, int, bool]:
        seen = np.flatnonzero((bias > LOWEST).any(axis=(0, 1, 2)))
        if not len(seen):
            return (0, 0, False)
        lo, hi = int(seen[0]), int(seen[-1]) + 1
        return (lo, hi, not bias[..., lo:hi].any())


def shared_columns(c: Compiler, mask: Tensor, bias: F32, rows: int, tile: int) -> Columns:
    """The `Columns` of a mask, found once a run for all nodes with the same tiles."""

    def make() -> Columns:
        columns = Columns(bias, rows, tile)
        c.emit(columns.find)
        return columns

    found: Columns = c.shared(("columns", id(mask), rows, tile), mask, make)
    return found
