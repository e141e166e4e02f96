"""Batches of tokens, and the uniform pieces (ubatches) they are computed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wggml.errors import UsageError

MAX_SEQ = 64
Ints = npt.NDArray[np.int32]


@dataclass(slots=True)
class Batch:
    """Tokens to feed: parallel lists of ids, positions, sequence ids and output flags."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    seq_ids: list[tuple[int, ...]] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)

    def add(
        self, token: int, position: int, seq_ids: Sequence[int] = (0,), *, output: bool = False
    ) -> None:
        """Append one token; `output` asks for its logits."""
        self.tokens.append(token)
        self.positions.append(position)
        self.seq_ids.append(tuple(seq_ids))
        self.outputs.append(output)

    @classmethod
    def of(
        cls,
        tokens: Sequence[int],
        position: int = 0,
        seq_id: int = 0,
        *,
        all_outputs: bool = False,
    ) -> Batch:
        """Consecutive tokens of one sequence from `position` on; logits of the last one, or all."""
        n = len(tokens)
        return cls(
            list(tokens),
            list(range(position, position + n)),
            [(seq_id,)] * n,
            [all_outputs or i == n - 1 for i in range(n)],
        )

    def check(self, n_vocab: int) -> None:
        """Raise `UsageError` for an empty batch or ids out of range."""
        if not self.tokens:
            raise UsageError("a batch needs at least one token")
        bad = [t for t in self.tokens if not 0 <= t < n_vocab]
        if bad:
            raise UsageError(f"token id {bad[0]} is outside the vocabulary 0..{n_vocab - 1}")
        seqs = {s for ids in self.seq_ids for s in ids}
        if not all(self.seq_ids) or any(not 0 <= s < MAX_SEQ for s in seqs):
            raise UsageError(f"sequence ids must be 0..{MAX_SEQ - 1}, at least one a token")


@dataclass(slots=True)
class Ubatch:
    """A piece of a batch that one graph computes. Arrays are of `n_tokens`.

    `n_seqs` sets of sequences with `n_seq_tokens` tokens each, one set after the other; pieces that
    are not sorted by sequence have one token in each of `n_tokens` sets.
    """

    tokens: Ints
    positions: Ints
    seq_ids: list[tuple[int, ...]]
    outputs: Ints  # indices of tokens whose logits are wanted
    n_seqs: int
    n_seq_tokens: int
    equal_seqs: bool = False

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def n_outputs(self) -> int:
        return len(self.outputs)

    @property
    def seqs_unique(self) -> tuple[int, ...]:
        """All sequence ids in use, ascending."""
        return tuple(sorted({s for ids in self.seq_ids for s in ids}))


def split_simple(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """Consecutive pieces of at most `n_ubatch` tokens, whatever their sequences."""
    for i in range(0, len(batch), n_ubatch):
        index = list(range(i, min(i + n_ubatch, len(batch))))
        yield _piece(batch, index, len(index), equal_seqs=False)


def split_equal(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """Pieces in which every set of sequences has the same number of tokens, one set after the
    other; what recurrent layers need. Sets that share a sequence never meet in one piece."""
    left = _by_seqs(batch)
    while left:
        used: set[int] = set()
        chosen: list[tuple[int, ...]] = []
        for seqs in left:
            if len(chosen) < n_ubatch and used.isdisjoint(seqs):
                chosen.append(seqs)
                used.update(seqs)
        n = min(min(len(left[s]) for s in chosen), n_ubatch // len(chosen))
        index = [i for s in chosen for i in left[s][:n]]
        yield _piece(batch, index, len(chosen), equal_seqs=True)
        for s in chosen:
            left[s] = left[s][n:]
            if not left[s]:
                del left[s]


def split_seq(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """Pieces of one set of sequences each."""
    for index in _by_seqs(batch).values():
        for i in range(0, len(index), n_ubatch):
            yield _piece(batch, index[i : i + n_ubatch], 1, equal_seqs=True)


def _by_seqs(batch: Batch) -> dict[tuple[int, ...], list[int]]:
    """Token indices of each set of sequences, in order of first appearance."""
    found: dict[tuple[int, ...], list[int]] = {}
    for i, seqs in enumerate(batch.seq_ids):
        found.setdefault(tuple(sorted(seqs)), []).append(i)
    return found


def _piece(batch: Batch, index: list[int], n_seqs: int, *, equal_seqs: bool) -> Ubatch:
    return Ubatch(
        np.array([batch.tokens[i] for i in index], np.int32),
        np.array([batch.positions[i] for i in index], np.int32),
        [batch.seq_ids[i] for i in index],
        np.array([k for k, i in enumerate(index) if batch.outputs[i]], np.int32),
        n_seqs,
        len(index) // n_seqs,
        equal_seqs,
    )
