"""Placing all tensors of a context."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alloc.recipes import LimitedBufferType, mock_buft
from wggml.alloc import Tallocr, alloc_ctx_tensors, alloc_ctx_tensors_size
from wggml.core.context import Context
from wggml.core.types import Type
from wggml.errors import AllocationError
from wggml.hal.interface import BufferUsage


def tensors(*sizes: int) -> Context:
    ctx = Context()
    for i, n in enumerate(sizes):
        ctx.new_tensor(Type.F32, (n,), name=f"w{i}")
    return ctx


def test_one_buffer_with_the_usage_asked_for() -> None:
    ctx = tensors(8, 3, 8)
    assert alloc_ctx_tensors_size(ctx, mock_buft()) == 96
    (buffer,) = alloc_ctx_tensors(ctx, mock_buft(), BufferUsage.ANY)
    assert (buffer.size, buffer.usage) == (96, BufferUsage.ANY)
    assert [t.data for t in ctx] == [0, 32, 64]
    (weights,) = alloc_ctx_tensors(tensors(8), mock_buft())
    assert weights.usage is BufferUsage.WEIGHTS


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 100), max_size=20), st.sampled_from([64, 256, 1000]))
def test_several_buffers_within_the_limit(sizes: list[int], max_size: int) -> None:
    ctx = tensors(*sizes)
    total = alloc_ctx_tensors_size(ctx, mock_buft(max_size=max_size))
    made = alloc_ctx_tensors(ctx, mock_buft(max_size=max_size))
    assert sum(b.size for b in made) == total
    for b in made:
        inside = [t for t in ctx if t.buffer is b]
        assert b.size <= max_size or sum(t.nbytes > 0 for t in inside) == 1
        end = 0
        for t in inside:
            assert t.data is not None and end <= t.data <= b.size - t.nbytes
            end = t.data + t.nbytes
    if made:
        assert all(t.buffer is not None for t in ctx if t.nbytes)


def test_views_follow_and_placed_tensors_stay() -> None:
    ctx = tensors(8, 8)
    a, b = ctx.tensors
    elsewhere = mock_buft().alloc_buffer(64)
    a.buffer, a.data = elsewhere, 32
    of_a, of_b = (ctx.new_view(t, Type.F32, (4, 1, 1, 1), offset=16) for t in (a, b))
    (made,) = alloc_ctx_tensors(ctx, mock_buft())
    assert made.size == 32
    assert (a.buffer, a.data) == (elsewhere, 32)
    assert (of_a.buffer, of_a.data) == (elsewhere, 48)
    assert (of_b.buffer, of_b.data) == (made, 16)
    assert alloc_ctx_tensors(ctx, mock_buft()) == []


@pytest.mark.parametrize("exact", [True, False])
def test_a_view_at_the_end_of_a_full_buffer(exact: bool) -> None:
    ctx = tensors(64)  # 256 bytes
    view = ctx.new_view(ctx.tensors[0], Type.F32, (4, 1, 1, 1), offset=16)
    alloc_ctx_tensors(ctx, mock_buft(max_size=128), exact=exact)
    assert view.data == (None if exact else 16)


def test_a_refusal_leaves_nothing_behind() -> None:
    ctx = tensors(16, 16, 200)
    buft = LimitedBufferType(500)
    buft.max_size = 128
    with pytest.raises(AllocationError) as e:
        alloc_ctx_tensors(ctx, buft)
    assert "after 128 bytes in 1 buffers" in str(e.value)
    assert "'w2' with 800 bytes" in str(e.value)
    assert all(t.buffer is None and t.data is None for t in ctx)
    assert buft.log == [["a", 0, 128], ["f", 0, 128]]


def test_a_device_that_overstates_its_limit_gets_smaller_buffers() -> None:
    buft = mock_buft(fail_above=300)
    ctx = tensors(*[32] * 8)  # 1024 bytes
    made = alloc_ctx_tensors(ctx, buft)
    assert [b.size for b in made] == [256] * 4
    assert [e for e in buft.log if e[0] == "x"] == [["x", 0, n] for n in (1024, 512, 512)]
    assert [(made.index(t.buffer), t.data) for t in ctx if t.buffer is not None] == [
        (i // 2, i % 2 * 128) for i in range(8)
    ]
    with pytest.raises(AllocationError, match="refused 1024 bytes"):
        alloc_ctx_tensors(tensors(*[32] * 8), buft, exact=True)


def test_a_full_buffer_names_tensor_and_sizes() -> None:
    tallocr = Tallocr(mock_buft().alloc_buffer(64))
    ctx = tensors(8, 9)
    tallocr.alloc(ctx.tensors[0])
    with pytest.raises(AllocationError, match=r"'w1' needs 64 bytes but only 32 of 64 are left"):
        tallocr.alloc(ctx.tensors[1])
