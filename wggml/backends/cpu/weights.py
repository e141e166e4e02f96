"""The budgeted cache of weights as f32, so that products run in BLAS without dequantising anew.

First come, first served: decoding walks all weights in a cycle, for which evicting the least
recently used would evict exactly what is needed next. What no longer fits is dequantised in row
tiles on every use; the last matrix before the budget ends may be cached in part (its first rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from wggml.backends.cpu.arrays import F32, U8, home_of, place_of, read_into
from wggml.backends.cpu.buffer import CpuBuffer
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, row_size
from wggml.hal.interface import BufferUsage

MIB = 2**20

Key = tuple[int, Type, int]  # offset in the buffer, type, rows


@dataclass(slots=True, weakref_slot=True, eq=False)
class Entry:
    """The first `values.shape[0]` rows of a matrix at byte range [begin, end) of its buffer."""

    begin: int
    end: int
    values: F32


@dataclass(slots=True, eq=False)
class Matrix:
    """A 2-D weight [m, k]: `rows` as stored, `cached` its first rows as f32 (possibly none)."""

    type: Type
    rows: U8
    k: int
    cached: F32 | None

    @property
    def n_cached(self) -> int:
        return 0 if self.cached is None else self.cached.shape[0]

    def fill(self, begin: int, out: F32) -> None:
        """Rows begin, begin + 1, ... as f32 into `out` [n, k], contiguous."""
        rows = self.rows[begin : begin + out.shape[0]]
        dtype = TRAITS[self.type].dtype
        read_into(rows if dtype is None else rows.view(dtype), self.type, out)


class WeightCache:
    """f32 copies of weight matrices, at most `budget` bytes of them.

    Attributes: `used` bytes held; `created` arrays made so far; `generation` changes whenever an
    entry dies, so that plans bound to it are built anew.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self.created = 0
        self.generation = 0
        self._entries: WeakKeyDictionary[CpuBuffer, dict[Key, Entry]] = WeakKeyDictionary()

    def matrix(self, t: Tensor, i3: int = 0, i2: int = 0) -> Matrix:
        """Slice [i3, i2] of `t` as a matrix of rows, cached if it is a weight and fits.

        Rows of `t` must be contiguous in themselves; F32 is left where it is (nothing cached).
        """
        home = home_of(t)
        k, m = t.ne[0], t.ne[1]
        begin = place_of(t) + i3 * t.nb[3] + i2 * t.nb[2]
        row = row_size(t.type, k)
        rows: U8 = np.ndarray(
            (m, row), np.uint8, buffer=home.memory, offset=begin, strides=(t.nb[1], 1)
        )
        matrix = Matrix(t.type, rows, k, None)
        if home.usage == BufferUsage.WEIGHTS and t.type != Type.F32:
            matrix.cached = self._cached(home, begin, matrix, (m - 1) * t.nb[1] + row)
        return matrix

    def _cached(self, home: CpuBuffer, begin: int, matrix: Matrix, span: int) -> F32 | None:
        entries = self._entries.setdefault(home, {})
        m = matrix.rows.shape[0]
        key = (begin, matrix.type, m)
        entry = entries.get(key)
        if entry is not None:
            return entry.values
        fit = min(m, (self.budget - self.used) // (4 * matrix.k))
        if fit <= 0:
            return None
        values: F32 = np.empty((fit, matrix.k), np.float32)
        step = max(1, MIB // matrix.k)
        for at in range(0, fit, step):
            matrix.fill(at, values[at : at + step])
        self.used += values.nbytes
        self.created += 1
        entries[key] = Entry(begin, begin + span, values)
        home.watch(self)
        return values

    # ---- Watcher ----------------------------------------------------------------------------

    def buffer_written(self, buffer: CpuBuffer, begin: int, end: int) -> None:
        entries = self._entries.get(buffer, {})
        self._drop(entries, [k for k, e in entries.items() if e.begin < end and begin < e.end])

    def buffer_freed(self, buffer: CpuBuffer) -> None:
        entries = self._entries.pop(buffer, {})
        self._drop(entries, list(entries))

    def _drop(self, entries: dict[Key, Entry], keys: list[Key]) -> None:
        for key in keys:
            self.used -= entries.pop(key).values.nbytes
        if keys:
            self.generation += 1

    def clear(self) -> None:
        """Forget everything (the budget is free again)."""
        for entries in self._entries.values():
            self._drop(entries, list(entries))


def is_constant(t: Tensor) -> bool:
    """True when `t` lies in a buffer of weights."""
    buffer = t.placed_in
    return buffer is not None and buffer.usage == BufferUsage.WEIGHTS
