"""The budgeted cache of weights as f32, so that products run in BLAS without dequantising anew.

First come, first served: decoding walks all weights in a cycle, for which evicting the least
recently used would evict exactly what is needed next. What no longer fits is dequantised in row
tiles on every use; the last matrix before the budget ends may be cached in part (its first rows).

Matrices that are multiplied with the same vector (query, key and value; gate and up) are kept below
each other in one array, so that one call of BLAS does them all: its two threads do not start for
the small ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from wggml.backends.cpu.arrays import F32, U8, home_of, place_of, read_into
from wggml.backends.cpu.buffer import CpuBuffer
from wggml.backends.cpu.mirrors import Mirror
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, row_size
from wggml.hal.interface import BufferUsage

MIB = 2**20
MOST_PADDING = 0.4  # of the rows there are: what one more thread is worth

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
    entry dies, so that plans bound to it are built anew; `threads_from`: see `padding`.
    """

    def __init__(self, budget: int, threads_from: int = 0) -> None:
        self.budget = budget
        self.threads_from = threads_from
        self.used = 0
        self.created = 0
        self.generation = 0
        self._entries: WeakKeyDictionary[CpuBuffer, dict[Key, Entry]] = WeakKeyDictionary()
        self._mirrors: WeakSet[Mirror] = WeakSet()

    @property
    def free(self) -> int:
        """Bytes of the budget that neither weights nor mirrors of K and V caches take."""
        return self.budget - self.used - sum(m.nbytes for m in self._mirrors)

    def admit(self, mirror: Mirror, nbytes: int) -> bool:
        """Let a mirror of `nbytes` share the budget while it lives; False if it does not fit."""
        if nbytes > self.free:
            return False
        self._mirrors.add(mirror)
        self.created += 1
        return True

    def matrix(self, t: Tensor, i3: int = 0, i2: int = 0) -> Matrix:
        """Slice [i3, i2] of `t` as a matrix of rows, cached if it is a weight and fits.

        Rows of `t` must be contiguous in themselves; F32 is left where it is (nothing cached).
        """
        home = home_of(t)
        begin = place_of(t) + i3 * t.nb[3] + i2 * t.nb[2]
        matrix = self._stored(t, begin)
        if home.usage == BufferUsage.WEIGHTS and t.type != Type.F32:
            m, row = matrix.rows.shape
            matrix.cached = self._cached(home, begin, matrix, (m - 1) * t.nb[1] + row)
        return matrix

    def stacked(self, tensors: Sequence[Tensor]) -> F32 | None:
        """f32 [sum of rows, k] of weights [k, rows] below each other in one array, of which their
        matrices are views from now on. None when they do not fit or some are cached elsewhere.
        """
        k = tensors[0].ne[0]
        m = sum(t.ne[1] for t in tensors)
        n = m + padding(m, k, self.threads_from)
        keys = [(place_of(t), t.type, t.ne[1]) for t in tensors]
        found = [
            self._entries.get(home_of(t), {}).get(key) for t, key in zip(tensors, keys, strict=True)
        ]
        if any(found):
            base = None if found[0] is None else found[0].values.base
            return (
                base
                if base is not None and _fill_in_order(base, found, self.threads_from)
                else None
            )
        if 4 * k * n > self.free:
            return None
        values: F32 = np.empty((n, k), np.float32)
        values[m:] = 0
        at = 0
        for t in tensors:
            begin, part = place_of(t), values[at : at + t.ne[1]]
            self._keep(home_of(t), begin, self._stored(t, begin), t.nbytes, part)
            at += t.ne[1]
        self.used += values.nbytes
        self.created += 1
        return values

    @staticmethod
    def _stored(t: Tensor, begin: int) -> Matrix:
        """The matrix that starts at byte `begin` of the tensor's buffer, nothing cached."""
        k, m = t.ne[0], t.ne[1]
        rows: U8 = np.ndarray(
            (m, row_size(t.type, k)), np.uint8, buffer=home_of(t).memory, offset=begin,
            strides=(t.nb[1], 1),
        )  # fmt: skip
        return Matrix(t.type, rows, k, None)

    def _cached(self, home: CpuBuffer, begin: int, matrix: Matrix, span: int) -> F32 | None:
        entries = self._entries.setdefault(home, {})
        m = matrix.rows.shape[0]
        entry = entries.get((begin, matrix.type, m))
        if entry is not None:
            return entry.values
        fit = min(m, self.free // (4 * matrix.k))
        if fit <= 0:
            return None
        values: F32 = np.empty((fit, matrix.k), np.float32)
        self._keep(home, begin, matrix, span, values)
        self.used += values.nbytes
        self.created += 1
        return values

    def _keep(self, home: CpuBuffer, begin: int, matrix: Matrix, span: int, values: F32) -> None:
        """Fill `values` with the first rows of a matrix and remember them."""
        step = max(1, MIB // matrix.k)
        for at in range(0, len(values), step):
            matrix.fill(at, values[at : at + step])
        entries = self._entries.setdefault(home, {})
        entries[begin, matrix.type, len(matrix.rows)] = Entry(begin, begin + span, values)
        home.watch(self)

    # ---- Watcher ----------------------------------------------------------------------------

    def buffer_written(self, buffer: CpuBuffer, begin: int, end: int) -> None:
        entries = self._entries.get(buffer, {})
        self._drop(entries, [k for k, e in entries.items() if e.begin < end and begin < e.end])

    def buffer_freed(self, buffer: CpuBuffer) -> None:
        entries = self._entries.pop(buffer, {})
        self._drop(entries, list(entries))

    def _drop(self, entries: dict[Key, Entry], keys: list[Key]) -> None:
        dropped = [entries.pop(key) for key in keys]
        stacks = {id(e.values.base) for e in dropped if e.values.base is not None}
        if stacks:  # such an array ends with all that lie in it
            for others in self._entries.values():
                parts = [k for k, e in others.items() if id(e.values.base) in stacks]
                dropped += [others.pop(k) for k in parts]
        arrays = (e.values if e.values.base is None else e.values.base for e in dropped)
        self.used -= sum({id(a): a.nbytes for a in arrays}.values())
        self.generation += bool(dropped)

    def clear(self) -> None:
        """Forget everything (the budget is free again)."""
        for entries in self._entries.values():
            self._drop(entries, list(entries))


def _fill_in_order(base: F32, entries: Sequence[Entry | None], threads_from: int) -> bool:
    """True when the entries' rows are those of `base`, one entry after the other, and its padding
    the rest."""
    at = 0
    for e in entries:
        if e is None or e.values.base is not base:
            return False
        if e.values.ctypes.data != base.ctypes.data + base.strides[0] * at:
            return False
        at += len(e.values)
    return len(base) == at + padding(at, base.shape[1], threads_from)


def padding(m: int, k: int, threads_from: int) -> int:
    """Rows of zeros to add to [m, k] so that BLAS takes all its threads, if it takes them from
    `threads_from` values on (0: nobody knows) and that is not far: 132 us become 95 for 576 x 576
    out of memory, whose bandwidth one thread does not use up."""
    missing = -(-threads_from // k) - m
    return missing if 0 < missing <= MOST_PADDING * m else 0


def is_constant(t: Tensor) -> bool:
    """True when `t` lies in a buffer of weights."""
    buffer = t.placed_in
    return buffer is not None and buffer.usage == BufferUsage.WEIGHTS
