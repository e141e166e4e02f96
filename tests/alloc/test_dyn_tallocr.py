"""`DynTallocr`: its rules by example, its invariants on random sequences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wggml.alloc import DynTallocr
from wggml.alloc.dyn_tallocr import MAX_CHUNKS, MAX_FREE_BLOCKS, pad
from wggml.errors import PlanError
from wggml.hal.interface import UNLIMITED


def blocks(d: DynTallocr, chunk: int = 0) -> list[tuple[int, int]]:
    c = d.chunks[chunk]
    return list(zip(c.offsets, c.sizes, strict=True))


def with_holes(sizes: list[int], max_chunk_size: int = UNLIMITED) -> DynTallocr:
    """Holes of these sizes, kept apart by one byte each, before the open end."""
    d = DynTallocr(1, max_chunk_size)
    held = []
    for size in sizes:
        held.append((d.alloc(size), size))
        d.alloc(1)
    for addr, size in held:
        d.free(addr, size)
    return d


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    d = DynTallocr(32, UNLIMITED)
    assert [d.alloc(n) for n in (1, 33, 0, 32)] == [(0, 0), (0, 32), (0, 96), (0, 96)]
    assert d.max_sizes == [128]


def test_the_smallest_fitting_hole_is_used() -> None:
    assert with_holes([50, 20, 30]).alloc(15) == (0, 51)


def test_of_equal_holes_the_later_is_used() -> None:
    assert with_holes([20, 20, 20]).alloc(20) == (0, 42)


def test_a_hole_is_preferred_to_the_end_even_where_the_end_would_not_grow() -> None:
    d = with_holes([100])
    tail = d.alloc(10)
    d.free(tail, 10)
    assert d.alloc(10) == (0, 0)


def test_the_last_chunk_with_a_fitting_hole_wins() -> None:
    d = DynTallocr(1, 100)
    a = [d.alloc(n) for n in (20, 80, 90, 10)]
    assert a == [(0, 0), (0, 20), (1, 0), (1, 90)]
    d.free(a[0], 20)
    d.free(a[2], 90)
    d.chunks[0].offsets.append(100)  # an open end in both, so that the freed blocks are holes
    d.chunks[0].sizes.append(1)
    d.chunks[1].offsets.append(100)
    d.chunks[1].sizes.append(1)
    assert d.alloc(20) == (1, 0)


def test_ends_that_grow_least_then_ends_that_waste_least() -> None:
    d = DynTallocr(1, 100)
    first, second = d.alloc(60), d.alloc(70)
    assert (first, second) == ((0, 0), (1, 0))
    assert d.alloc(10) == (0, 60)  # both would grow by 10: the first
    d.free(second, 70)
    assert d.alloc(30) == (1, 0)  # fits in what chunk 1 has, chunk 0 would grow


def test_a_tensor_above_the_limit_gets_a_chunk_of_its_size() -> None:
    d = DynTallocr(1, 100)
    assert [d.alloc(n) for n in (250, 100, 1)] == [(0, 0), (1, 0), (2, 0)]
    assert d.max_sizes == [250, 100, 1]


def test_the_sixteenth_chunk_takes_all_that_is_left() -> None:
    d = DynTallocr(1, 10)
    places = [d.alloc(10) for _ in range(40)]
    assert [c for c, _ in places] == [*range(15), *[15] * 25]
    assert len(d.max_sizes) == MAX_CHUNKS and d.max_sizes[15] == 250


def test_what_does_not_fit_even_there_is_an_error() -> None:
    d = DynTallocr(1, 10)
    for _ in range(MAX_CHUNKS):
        d.alloc(10)
    with pytest.raises(PlanError, match=f"all {MAX_CHUNKS} chunks are in use"):
        d.alloc(2**64)


def test_freeing_merges_with_both_neighbours() -> None:
    d = DynTallocr(1, 1000)
    a, b, c = d.alloc(10), d.alloc(20), d.alloc(30)
    d.alloc(1)
    d.free(a, 10)
    d.free(c, 30)
    assert blocks(d) == [(0, 10), (30, 30), (61, 939)]
    d.free(b, 20)
    assert blocks(d) == [(0, 60), (61, 939)]


def test_freeing_nothing_can_leave_an_empty_block() -> None:
    d = DynTallocr(1, 1000)
    d.alloc(10)
    nothing = d.alloc(0)
    d.alloc(5)
    d.free(nothing, 0)
    assert blocks(d) == [(10, 0), (15, 985)]


def test_too_many_free_blocks_are_an_error() -> None:
    d = DynTallocr(1, UNLIMITED)
    addrs = [d.alloc(1) for _ in range(2 * MAX_FREE_BLOCKS)]
    for addr in addrs[: 2 * (MAX_FREE_BLOCKS - 1) : 2]:
        d.free(addr, 1)
    assert len(blocks(d)) == MAX_FREE_BLOCKS
    with pytest.raises(PlanError, match="more than 256 free blocks"):
        d.free(addrs[-2], 1)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([1, 8, 32, 256]),
    st.sampled_from([64, 1000, UNLIMITED]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.booleans()), max_size=80),
)
def test_live_blocks_never_overlap_and_all_comes_back(
    alignment: int, max_chunk_size: int, work: list[tuple[int, int, bool]]
) -> None:
    d = DynTallocr(alignment, max_chunk_size)
    live: list[tuple[tuple[int, int], int]] = []
    for size, pick, give_back in work:
        if give_back and live:
            d.free(*live.pop(pick % len(live)))
            continue
        chunk, offset = d.alloc(size)
        padded = pad(size, alignment)
        assert offset % alignment == 0
        assert offset + padded <= d.max_sizes[chunk]
        for (c, o), n in live if size else ():
            assert c != chunk or n == 0 or offset + padded <= o or o + pad(n, alignment) <= offset
        for o, n in blocks(d, chunk):
            assert n == 0 or padded == 0 or offset + padded <= o or o + n <= offset
        live.append(((chunk, offset), size))
    totals = [max(max_chunk_size, max_size) for max_size in d.max_sizes]
    for addr, size in live:
        d.free(addr, size)
    for c, total in enumerate(totals[: MAX_CHUNKS - 1]):
        free = [b for b in blocks(d, c) if b[1]]
        assert sum(n for _, n in free) == min(total, 2**63 - 1)
        # Blocks of no bytes can keep their neighbours from being merged, in ggml too.
        assert len(free) == 1 or any(size == 0 for size, _, _ in work)
