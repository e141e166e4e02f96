"""Book-keeping of a KV cache: which position and which sequences each cell holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wggml.runtime.batch import MAX_SEQ, Ubatch

Index = npt.NDArray[np.int64]


class KVCells:
    """`n_cells` cells, each empty or holding a position and a set of sequences.

    `pos` is -1 in empty cells; `seqs` has one bit for each sequence id. `n_swa` > 0 makes cells
    that have slid out of their sequence's window reusable.
    """

    __slots__ = ("head", "n_cells", "n_swa", "pos", "seqs")

    def __init__(self, n_cells: int, n_swa: int = 0) -> None:
        self.n_cells = n_cells
        self.n_swa = n_swa
        self.pos = np.full(n_cells, -1, np.int32)
        self.seqs = np.zeros(n_cells, np.uint64)
        self.head = 0

    # ---- slots ------------------------------------------------------------------------------

    def find_slot(self, n_tokens: int) -> Index | None:
        """Indices of `n_tokens` usable cells from `head` on (wrapping), or None."""
        n = self.n_cells
        if n_tokens > n:
            return None
        head = self.head
        if head + n_tokens <= n and (self.pos[head : head + n_tokens] < 0).all():
            return np.arange(head, head + n_tokens, dtype=np.int64)
        usable = np.flatnonzero(self._usable())
        if len(usable) < n_tokens:
            return None
        used = n - int((self.pos < 0).sum())
        if head > used + 2 * n_tokens:
            head = 0  # enough room before the head: fill it first, n_kv stays small
        start = int(np.searchsorted(usable, head))
        return np.roll(usable, -start)[:n_tokens].astype(np.int64)

    def _usable(self) -> npt.NDArray[np.bool_]:
        free = self.pos < 0
        if self.n_swa:
            for s in range(MAX_SEQ):
                bit = np.uint64(1 << s)
                mine = self.seqs == bit  # held by this sequence alone
                if mine.any():
                    newest = int(self.pos[(self.seqs & bit) != 0].max())
                    free |= mine & (newest + 1 - self.pos >= self.n_swa)
        return free

    def apply(self, slot: Index, ubatch: Ubatch) -> None:
        """Write the tokens of `ubatch` into the cells of `slot`.

        Overwriting cells that had slid out of a window also drops what is older in the same
        sequence, so that a sequence's cells always cover a gapless range of positions.
        """
        overwritten = self.pos[slot]
        self._purge(slot[overwritten >= 0])
        self.pos[slot] = ubatch.positions
        first = ubatch.seq_ids[0]
        if all(s == first for s in ubatch.seq_ids):
            self.seqs[slot] = _bits(first)
        else:
            self.seqs[slot] = [_bits(s) for s in ubatch.seq_ids]
        self.head = int(slot[-1]) + 1
        if self.head >= self.n_cells:
            self.head = 0

    def _purge(self, cells: Index) -> None:
        newest: dict[int, int] = {}
        for c in cells:
            s = int(self.seqs[c]).bit_length() - 1
            newest[s] = max(newest.get(s, -1), int(self.pos[c]))
        self.pos[cells] = -1
        self.seqs[cells] = 0
        for s, p in newest.items():
            self.seq_rm(s, -1, p + 1)

    def clear_cells(self, slot: Index) -> None:
        """Empty the cells of `slot` (a computation that failed)."""
        self.pos[slot] = -1
        self.seqs[slot] = 0
        self.head = int(slot[0])

    # ---- facts ------------------------------------------------------------------------------

    @property
    def used_max_p1(self) -> int:
        """One more than the highest cell in use; 0 when empty."""
        used = np.flatnonzero(self.pos >= 0)
        return int(used[-1]) + 1 if len(used) else 0

    @property
    def n_used(self) -> int:
        return int((self.pos >= 0).sum())

    def _of(self, seq: int) -> npt.NDArray[np.bool_]:
        mine: npt.NDArray[np.bool_]
        mine = self.pos >= 0 if seq < 0 else (self.seqs & np.uint64(1 << seq)) != 0
        return mine

    def seq_pos_max(self, seq: int) -> int:
        """Highest position of a sequence, -1 when it has none."""
        mine = self.pos[self._of(seq)]
        return int(mine.max()) if len(mine) else -1

    def seq_pos_min(self, seq: int) -> int:
        """Lowest position of a sequence, -1 when it has none."""
        mine = self.pos[self._of(seq)]
        return int(mine.min()) if len(mine) else -1

    # ---- sequence operations (ranges are [p0, p1), -1 = open end) ----------------------------

    def _range(self, seq: int, p0: int, p1: int) -> npt.NDArray[np.bool_]:
        m = self._of(seq) & (self.pos >= max(p0, 0))
        if p1 >= 0:
            m &= self.pos < p1
        return m

    def seq_rm(self, seq: int, p0: int = -1, p1: int = -1) -> None:
        """Remove a sequence (-1: all) from cells with positions in the range."""
        m = self._range(seq, p0, p1)
        if seq < 0:
            self.seqs[m] = 0
        else:
            self.seqs[m] &= ~np.uint64(1 << seq)
        self._drop_orphans()

    def seq_cp(self, src: int, dst: int, p0: int = -1, p1: int = -1) -> None:
        """Let `dst` share the cells of `src` in the range."""
        self.seqs[self._range(src, p0, p1)] |= np.uint64(1 << dst)

    def seq_keep(self, seq: int) -> None:
        """Remove every other sequence."""
        self.seqs &= np.uint64(1 << seq)
        self._drop_orphans()

    def _drop_orphans(self) -> None:
        gone = (self.seqs == 0) & (self.pos >= 0)
        if gone.any():
            self.pos[gone] = -1
            self.head = min(self.head, int(np.flatnonzero(gone)[0]))

    def clear(self) -> None:
        """Empty every cell."""
        self.pos[:] = -1
        self.seqs[:] = 0
        self.head = 0

    # ---- mask -------------------------------------------------------------------------------

    def mask(
        self, ubatch: Ubatch, n_kv: int, dtype: npt.DTypeLike, *, causal: bool = True
    ) -> npt.NDArray[np.floating]:
        """[n_tokens, n_kv]: 0 where a token may look at a cell, -inf elsewhere."""
        pos = self.pos[:n_kv]
        bits = np.array([1 << ids[0] for ids in ubatch.seq_ids], np.uint64)
        allowed = (self.seqs[:n_kv] & bits[:, None]) != 0
        at = ubatch.positions[:, None]
        if causal:
            allowed &= pos <= at
        if self.n_swa:
            allowed &= at - pos < self.n_swa
        return np.where(allowed, 0.0, -np.inf).astype(dtype)


def _bits(seqs: tuple[int, ...]) -> np.uint64:
    bits = 0
    for s in seqs:
        bits |= 1 << s
    return np.uint64(bits)
