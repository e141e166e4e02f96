"""Batches into ubatches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wggml.errors import UsageError
from wggml.runtime.batch import Batch, split_equal, split_seq, split_simple


def batch_of(seqs: list[tuple[int, ...]]) -> Batch:
    b, positions = Batch(), {}
    for i, s in enumerate(seqs):
        p = positions.get(s[0], 0)
        b.add(i, p, s, output=i % 3 == 0)
        positions[s[0]] = p + 1
    return b


@given(
    st.lists(st.sampled_from([(0,), (1,), (2,), (0, 1)]), min_size=1, max_size=40),
    st.integers(1, 12),
    st.sampled_from([split_simple, split_equal, split_seq]),
)
def test_every_token_comes_once_and_sequences_stay_in_order(seqs, n_ubatch, split):
    b = batch_of(seqs)
    pieces = list(split(b, n_ubatch))
    assert sorted(int(t) for u in pieces for t in u.tokens) == list(range(len(b)))
    assert all(1 <= u.n_tokens <= n_ubatch for u in pieces)
    assert all(u.n_seqs * u.n_seq_tokens == u.n_tokens for u in pieces)
    order: dict[tuple[int, ...], int] = {}
    for u in pieces:
        for t, s in zip(u.tokens, u.seq_ids, strict=True):
            assert order.get(s, -1) < t
            order[s] = int(t)
    wanted = {int(u.tokens[i]) for u in pieces for i in u.outputs}
    assert wanted == {i for i, o in enumerate(b.outputs) if o}


def test_equal_pieces_are_sorted_by_sequence_and_equally_long():
    b = batch_of([(0,), (0,), (0,), (1,), (1,), (2,)])
    first, *rest = split_equal(b, 6)
    assert (first.n_seqs, first.n_seq_tokens) == (3, 1)
    assert first.seq_ids == [(0,), (1,), (2,)]
    assert [(u.n_seqs, u.n_seq_tokens) for u in rest] == [(2, 1), (1, 1)]


def test_sets_that_share_a_sequence_never_meet():
    for u in split_equal(batch_of([(0, 1), (0,), (1,), (2,)]), 8):
        flat = [s for ids in set(u.seq_ids) for s in ids]
        assert len(flat) == len(set(flat))


def test_one_sequence_a_piece():
    pieces = list(split_seq(batch_of([(0,), (1,), (0,), (1,), (1,)]), 2))
    assert [u.seq_ids for u in pieces] == [[(0,), (0,)], [(1,), (1,)], [(1,)]]


@pytest.mark.parametrize("seqs", [[()], [(64,)], [(-1,)]])
def test_bad_sequence_ids_are_refused(seqs):
    b = Batch([1], [0], seqs, [True])
    with pytest.raises(UsageError, match="sequence ids"):
        b.check(10)
