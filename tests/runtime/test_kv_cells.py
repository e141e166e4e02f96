"""KV cells: slots, windows, sequences, masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wggml.runtime.batch import Batch, Ubatch, split_simple
from wggml.runtime.kv_cells import KVCells


def ubatch(positions: list[int], seq: int = 0) -> Ubatch:
    b = Batch()
    for p in positions:
        b.add(1, p, (seq,))
    return next(split_simple(b, len(positions)))


def feed(cells: KVCells, positions: list[int], seq: int = 0) -> np.ndarray:
    slot = cells.find_slot(len(positions))
    assert slot is not None
    cells.apply(slot, ubatch(positions, seq))
    return slot


def test_cells_fill_in_order_then_refuse():
    cells = KVCells(8)
    assert feed(cells, [0, 1, 2]).tolist() == [0, 1, 2]
    assert feed(cells, [3, 4, 5, 6, 7]).tolist() == [3, 4, 5, 6, 7]
    assert cells.find_slot(1) is None
    assert cells.used_max_p1 == 8


def test_removed_cells_are_used_again_even_when_scattered():
    cells = KVCells(6)
    feed(cells, [0, 1, 2, 3, 4, 5])
    cells.seq_rm(0, 1, 2)
    cells.seq_rm(0, 4, 5)
    assert sorted(feed(cells, [6, 7]).tolist()) == [1, 4]


def test_mask_is_causal_and_keeps_sequences_apart():
    cells = KVCells(8)
    feed(cells, [0, 1], seq=0)
    feed(cells, [0, 1], seq=1)
    mask = cells.mask(ubatch([1], seq=1), 6, np.float32)
    assert np.isneginf(mask[0]).tolist() == [True, True, False, False, True, True]
    mask = cells.mask(ubatch([0], seq=0), 6, np.float16)
    assert np.isneginf(mask[0]).tolist() == [False, True, True, True, True, True]


def test_window_hides_old_positions():
    cells = KVCells(16, n_swa=3)
    feed(cells, list(range(6)))
    mask = cells.mask(ubatch([5]), 8, np.float32)
    assert [i for i in range(8) if mask[0, i] == 0] == [3, 4, 5]


@given(st.integers(1, 6), st.lists(st.integers(1, 4), min_size=1, max_size=40))
def test_a_window_never_loses_a_position_it_still_shows(n_swa: int, steps: list[int]):
    cells = KVCells(n_swa + 4, n_swa=n_swa)
    pos = 0
    for n in steps:
        slot = cells.find_slot(n)
        assert slot is not None, "a cache of window + ubatch cells always has room"
        u = ubatch(list(range(pos, pos + n)))
        cells.apply(slot, u)
        mask = cells.mask(u, cells.n_cells, np.float32)
        for i, p in enumerate(u.positions):
            shown = sorted(cells.pos[mask[i] == 0].tolist())
            assert shown == list(range(max(0, p - n_swa + 1), p + 1))
        pos += n


def test_sequences_share_split_and_end():
    cells = KVCells(8)
    feed(cells, [0, 1, 2])
    cells.seq_cp(0, 1, 0, 2)
    assert cells.seq_pos_max(1) == 1
    cells.seq_rm(0)
    assert cells.n_used == 2
    cells.seq_keep(0)
    assert cells.n_used == 0


def test_failed_run_gives_its_cells_back():
    cells = KVCells(4)
    slot = feed(cells, [0, 1])
    cells.clear_cells(slot)
    assert cells.n_used == 0
    assert feed(cells, [0]).tolist() == [0]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_more_tokens_than_cells_is_refused(n: int):
    assert KVCells(n).find_slot(n + 1) is None
