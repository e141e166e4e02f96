"""Packed layouts give the file's bytes back, whole and in pieces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wgpu_lab import Lab, rng

from wggml.backends.wgpu import packing, texels
from wggml.backends.wgpu.backend import WgpuBackend
from wggml.core import ops
from wggml.core.types import Type, blck_size, row_size, type_name, type_size
from wggml.errors import ShapeError, UnsupportedOpError
from wggml.hal.interface import BufferUsage

TYPES = list(packing.FIELDS)
ids = [type_name(t) for t in TYPES]
quick = settings(max_examples=30, deadline=None)


def random_bytes(n: int, *seed: int) -> npt.NDArray[np.uint8]:
    return rng(*seed).integers(0, 256, n, dtype=np.uint8)


def stored(
    lay: packing.Layout, raw: npt.NDArray[np.uint8], cuts: list[int]
) -> npt.NDArray[np.uint8]:
    """What a buffer holds after `raw` was uploaded in pieces that end at blocks `cuts`."""
    buffer = np.full(lay.nbytes, 0xAA, np.uint8)
    size = type_size(lay.type)
    for begin, end in zip([0, *cuts], [*cuts, lay.n_blocks], strict=True):
        for at, data in packing.pack(lay, begin, raw[begin * size : end * size]):
            assert at % 4 == 0 and data.size % 4 == 0
            buffer[at : at + data.size] = data
    return buffer


@pytest.mark.parametrize("type_", TYPES, ids=ids)
@quick
@given(data=st.data())
def test_round_trip_in_pieces(type_: Type, data: st.DataObject) -> None:
    blocks, rows = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 33))
    lay = packing.layout(type_, (blocks * blck_size(type_), rows, 1, 1))
    raw = random_bytes(lay.n_blocks * type_size(type_), blocks, rows)
    cuts = sorted(data.draw(st.sets(st.integers(0, lay.n_blocks // lay.granule), max_size=4)))
    buffer = stored(lay, raw, [c * lay.granule for c in cuts])
    first = data.draw(st.integers(0, lay.n_blocks))
    count = data.draw(st.integers(0, lay.n_blocks - first))
    parts = [buffer[at : at + n] for at, n in packing.spans(lay, first, count)]
    size = type_size(type_)
    got = packing.unpack(lay, first, count, parts)
    np.testing.assert_array_equal(got, raw[first * size : (first + count) * size])


@pytest.mark.parametrize("type_", TYPES, ids=ids)
def test_regions_follow_each_other_without_waste(type_: Type) -> None:
    ne = (blck_size(type_) * 3, 100, 2, 1)
    lay = packing.layout(type_, ne)
    at = 0
    for r in lay.regions:
        assert r.offset == at and r.offset % packing.ALIGN == 0
        assert r.field.stride * lay.n_blocks <= r.nbytes < r.field.stride * lay.n_blocks + 16
        at += r.nbytes
    assert packing.packed_size(type_, ne) == lay.nbytes == at
    file_size = row_size(type_, ne[0]) * 200
    assert file_size <= lay.nbytes <= file_size * 1.02 + 64


@pytest.mark.parametrize("type_", TYPES, ids=ids)
def test_every_byte_of_a_block_is_in_one_field(type_: Type) -> None:
    seen = sorted(i for f in packing.FIELDS[type_] for i in range(f.begin, f.begin + f.nbytes))
    assert seen == list(range(type_size(type_)))


def test_plain_types_keep_the_files_layout() -> None:
    assert not packing.is_packed_type(Type.F16)
    assert packing.packed_size(Type.F16, (3, 5, 1, 1)) == 30
    with pytest.raises(ShapeError, match=r"f16 has no packed layout; packed types: q4_0"):
        packing.layout(Type.F16, (32, 1, 1, 1))


def test_wrong_ranges_are_refused() -> None:
    lay = packing.layout(Type.Q8_0, (96, 3, 1, 1))
    with pytest.raises(ShapeError, match="begin and end at a multiple of 2 blocks"):
        list(packing.pack(lay, 1, random_bytes(2 * 34)))
    with pytest.raises(ShapeError, match="do not fit a q8_0 tensor of 9 blocks"):
        list(packing.pack(lay, 8, random_bytes(2 * 34)))
    with pytest.raises(ShapeError, match="not whole blocks of 34 bytes"):
        packing.block_range(Type.Q8_0, 17, 34)


@pytest.mark.parametrize("type_", TYPES, ids=ids)
def test_buffers_give_back_what_was_written(one_lab: Lab, type_: Type) -> None:
    """Whole, by rows at odd places, and through a view; packed only where usage says so."""
    ne = (blck_size(type_) * 3, 7, 2, 1)
    raw = random_bytes(row_size(type_, ne[0]) * 14, int(type_))
    row = row_size(type_, ne[0])
    for usage in (BufferUsage.WEIGHTS, BufferUsage.COMPUTE):
        t = one_lab.ctx.new_tensor(type_, ne)
        one_lab.place(t, usage=usage)
        assert t.buffer is not None
        assert (packing.packed_root(t) is t) == (usage == BufferUsage.WEIGHTS)
        for begin, end in ((0, 5), (5, 6), (6, 14)):
            t.buffer.set_tensor(t, raw[begin * row : end * row], begin * row)
        np.testing.assert_array_equal(t.buffer.get_tensor(t), raw)
        np.testing.assert_array_equal(
            t.buffer.get_tensor(t, 3 * row, 5 * row), raw[3 * row : 8 * row]
        )


# ---- textures ---------------------------------------------------------------------------------

PLAIN = (Type.F32, Type.F16, Type.BF16)


@pytest.fixture
def texel_lab(first_backend: WgpuBackend) -> Lab:
    """A device that reads weights through textures, whether or not it would by itself."""
    device = first_backend.device.with_mask("texels")
    return Lab(device.init_backend())


@pytest.mark.parametrize("type_", [*TYPES, *PLAIN], ids=[*ids, "f32", "f16", "bf16"])
def test_textures_give_back_what_was_written(texel_lab: Lab, type_: Type) -> None:
    """More texels than a row of a texture has, written in pieces at odd places."""
    row_values = max(blck_size(type_), 32) * 3
    rows = 2 * texels.WIDTH * 16 // row_size(type_, row_values) + 3
    t = texel_lab.ctx.new_tensor(type_, (row_values, rows))
    texel_lab.place(t, usage=BufferUsage.WEIGHTS)
    assert t.buffer is not None and texels.is_in_texels(t)
    row = row_size(type_, row_values)
    raw = random_bytes(row * rows, int(type_))
    for begin, end in ((0, 5), (5, 6), (6, rows)):
        t.buffer.set_tensor(t, raw[begin * row : end * row], begin * row)
    np.testing.assert_array_equal(t.buffer.get_tensor(t), raw)
    middle = rows // 2
    got = t.buffer.get_tensor(t, middle * row, 2 * row)
    np.testing.assert_array_equal(got, raw[middle * row : (middle + 2) * row])


@pytest.mark.parametrize("type_", PLAIN, ids=type_name)
def test_other_ops_read_plain_weights_in_textures(texel_lab: Lab, type_: Type) -> None:
    """A product and a look-up read the texture; an op on buffers finds the bytes there, also
    after they are written anew."""
    ctx = texel_lab.ctx
    first, second = (rng(s).integers(-8, 8, (40, 64)).astype(np.float32) for s in (1, 2))
    w = texel_lab.tensor(first, type_, weights=True)
    assert texels.is_in_texels(w)
    x = texel_lab.tensor(np.ones((1, 64), np.float32))
    at = texel_lab.tensor(np.array([3, 39, 0], np.int32), Type.I32)
    graph = texel_lab.graph(
        product := ops.mul_mat(ctx, w, x),
        rows := ops.get_rows(ctx, w, at),
        copy := ops.cast(ctx, ops.transpose(ctx, w), Type.F32),
    )
    for exact in (first, second):
        w.set(exact)
        texel_lab.backend.graph_compute(graph)
        np.testing.assert_array_equal(product.numpy().reshape(-1), exact.sum(axis=1))
        np.testing.assert_array_equal(rows.numpy(), exact[[3, 39, 0]])
        np.testing.assert_array_equal(copy.numpy(), exact.T)


def test_weights_in_textures_cannot_be_written_by_ops(texel_lab: Lab) -> None:
    w = texel_lab.tensor(np.ones((40, 64), np.float32), weights=True)
    w.set_name("ffn_up")
    doubled = ops.scale(texel_lab.ctx, w, 2.0, inplace=True)
    with pytest.raises(UnsupportedOpError, match="weights 'ffn_up' are read through textures"):
        texel_lab.run(doubled)
