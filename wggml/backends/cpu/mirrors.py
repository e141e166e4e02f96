"""f32 mirrors of K and V caches, so that attention does not convert all of them for each token.

A mirror belongs to the cache's memory and follows it: SET_ROWS says which rows it wrote, any other
write makes the whole mirror unknown. Rows are converted when attention first looks at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, Array, f16_to_f32, home_of, native, place_of
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import BufferUsage

if TYPE_CHECKING:
    from wggml.backends.cpu.weights import WeightCache

# Values between rows of a transposed mirror: rows a power of two apart would share cache sets.
SKEW = 16
CHUNK_ROWS = 64  # converted at a time on the way into a transposed mirror


@dataclass(slots=True, eq=False, weakref_slot=True)
class Mirror:
    """f32 `values` [heads, cells, d] of `source`, f16 of the same shape; the first `known` cells
    are as in the source. A mirror that nobody has asked for is empty.

    Attributes: `begin`, `end`: its bytes in the buffer; `split`: (d, heads) it was made for.
    """

    begin: int
    end: int
    source: Array | None = None
    values: F32 | None = None
    known: int = 0
    split: tuple[int, int] = (0, 0)

    @property
    def nbytes(self) -> int:
        return 0 if self.source is None else 2 * self.source.nbytes

    def upto(self, n: int) -> None:
        """Make the first `n` cells known."""
        at, source, values = self.known, self.source, self.values
        if n <= at or source is None or values is None:
            return
        self.known = n
        if n - at < CHUNK_ROWS:
            np.copyto(values[:, at:n], source[:, at:n])
            return
        for lo in range(at, n, CHUNK_ROWS):
            part = source[:, lo : min(lo + CHUNK_ROWS, n)]
            converted: F32 = np.empty(part.shape, np.float32)
            f16_to_f32(part, converted)
            np.copyto(values[:, lo : lo + part.shape[1]], converted)

    def row_written(self, index: Array) -> None:
        """The cell that the one value of `index` names has changed."""
        at = index.item()
        if at < self.known:
            assert self.source is not None and self.values is not None
            self.values[:, at] = self.source[:, at]

    def rows_written(self, index: Array) -> None:
        """The cells in `index` have changed."""
        if self.known:
            assert self.source is not None and self.values is not None
            seen = index[index < self.known]
            if seen.size:
                self.values[:, seen] = self.source[:, seen]


def mirrored(t: Tensor) -> bool:
    """True for what may be a K or V cache: f16 that outlives a graph and is no weight."""
    root = t.view_src or t
    home = home_of(t)
    lasting = home.usage == BufferUsage.ANY and root.type == t.type == Type.F16
    return lasting and root.ne[2:] == (1, 1) and root.is_contiguous()


def record_of(t: Tensor) -> Mirror:
    """The (perhaps empty) mirror of the memory of a tensor's root."""
    root = t.view_src or t
    begin = place_of(root)
    mirrors = home_of(t).mirrors
    mirror = mirrors.get(begin)
    if mirror is None or mirror.end != begin + root.nbytes:
        mirror = mirrors[begin] = Mirror(begin, begin + root.nbytes)
    return mirror


def mirror_of(t: Tensor, weights: WeightCache, *, transposed: bool) -> Mirror | None:
    """The mirror of view `t` [d, n_kv, heads] of a cache [d * heads, cells], made if the budget
    allows. `transposed` keeps the cells of one dimension side by side, as products with few queries
    want K: 40 us for 2048 cells of three heads where the other order takes 244."""
    root = t.view_src
    if root is None or not mirrored(t) or t.view_offs or t.ne[3] != 1:
        return None
    d, heads = t.ne[0], t.ne[2]
    if d * heads != root.ne[0] or t.nb[1] != root.nb[1] or t.nb[2] != d * t.nb[0]:
        return None
    mirror = record_of(t)
    if mirror.source is None:
        cells = root.ne[1]
        if not weights.admit(mirror, 2 * root.nbytes):
            return None
        mirror.source = native(root)[0, 0].reshape(cells, heads, d).swapaxes(0, 1)
        if transposed:
            rows: F32 = np.empty((heads, d, cells + SKEW), np.float32)
            mirror.values = rows[:, :, :cells].swapaxes(1, 2)
        else:
            mirror.values = np.empty((heads, cells, d), np.float32)
        mirror.split = (d, heads)
    return mirror if mirror.split == (d, heads) else None
