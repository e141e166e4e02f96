"""Buffers, packed weights, windows, limits and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mm_lab import weight_bytes
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu import merge
from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.builder import PlanBuilder, fold_groups
from wggml.backends.wgpu.device import WgpuDevice
from wggml.backends.wgpu.packing import FIELDS
from wggml.core import ops
from wggml.core.types import Type
from wggml.errors import AllocationError, ShaderError, ShapeError, UnsupportedOpError
from wggml.hal.interface import BufferUsage


@pytest.mark.parametrize("type_", sorted(FIELDS))
def test_packed_weights_give_the_files_bytes_back(lab: Lab, type_: Type) -> None:
    raw = weight_bytes(type_, 7, 512, int(type_))
    t = lab.ctx.new_tensor(type_, (512, 7))
    lab.place(t, usage=BufferUsage.WEIGHTS)
    assert t.buffer is not None
    t.buffer.set_tensor(t, raw.reshape(-1))
    row = raw.shape[1]
    np.testing.assert_array_equal(t.buffer.get_tensor(t), raw.reshape(-1))
    np.testing.assert_array_equal(t.buffer.get_tensor(t, 2 * row, row), raw[2])
    # a few bytes in the middle, then a view of rows 3..5
    raw.reshape(-1)[row + 5 : row + 9] = [1, 2, 3, 4]
    t.buffer.set_tensor(t, np.array([1, 2, 3, 4], np.uint8), row + 5)
    view = ops.view(lab.ctx, t, (512, 2), (row,), 3 * row)
    view.data = (t.data or 0) + view.view_offs
    np.testing.assert_array_equal(t.buffer.get_tensor(view), raw[3:5].reshape(-1))
    raw[3:5] = raw[0:2]
    t.buffer.set_tensor(view, raw[0:2].reshape(-1))
    np.testing.assert_array_equal(t.buffer.get_tensor(t), raw.reshape(-1))


@pytest.mark.parametrize("type_", sorted(FIELDS))
@pytest.mark.parametrize("weights", [False, True])
def test_row_lookup_in_quantised_tables(lab: Lab, type_: Type, weights: bool) -> None:
    from wggml.quants import dequantize_rows

    raw = weight_bytes(type_, 9, 512, int(type_))
    t = lab.ctx.new_tensor(type_, (512, 9))
    lab.place(t, usage=BufferUsage.WEIGHTS if weights else BufferUsage.ANY)
    assert t.buffer is not None
    t.buffer.set_tensor(t, raw.reshape(-1))
    ids = np.array([8, 0, 3, 3], np.int32)
    got = lab.run(ops.get_rows(lab.ctx, t, lab.tensor(ids, Type.I32)))
    want = dequantize_rows(raw, type_)[ids]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_unaligned_bytes_leave_neighbours_alone(lab: Lab) -> None:
    whole = np.arange(64, dtype=np.uint8)
    t = lab.ctx.new_tensor(Type.I8, (64,))
    lab.place(t)
    assert t.buffer is not None
    t.buffer.set_tensor(t, whole)
    for begin, n in [(0, 1), (3, 1), (5, 6), (62, 2), (1, 63)]:
        patch = rng(begin).integers(100, 200, n).astype(np.uint8)
        whole[begin : begin + n] = patch
        t.buffer.set_tensor(t, patch, begin)
        np.testing.assert_array_equal(t.buffer.get_tensor(t), whole)
        np.testing.assert_array_equal(t.buffer.get_tensor(t, begin, n), patch)
    t.buffer.memset_tensor(t, 7, 9, 3)
    whole[9:12] = 7
    np.testing.assert_array_equal(t.buffer.get_tensor(t), whole)


def test_large_transfers_go_in_pieces(one_lab: Lab) -> None:
    data = rng(1).integers(0, 2**32, (20 << 20) // 4, dtype=np.uint32)  # > one upload piece
    t = one_lab.ctx.new_tensor(Type.I32, (len(data),))
    one_lab.place(t)
    assert t.buffer is not None
    t.buffer.set_tensor(t, data.view(np.uint8))
    np.testing.assert_array_equal(t.buffer.get_tensor(t).view(np.uint32), data)


def test_access_outside_a_tensor_is_refused(one_lab: Lab) -> None:
    t = one_lab.tensor(values((8,), 1))
    assert t.buffer is not None
    with pytest.raises(ShapeError, match="bytes 28\\.\\.36"):
        t.buffer.get_tensor(t, 28, 8)
    t.buffer.free()
    t.buffer.free()
    with pytest.raises(AllocationError, match="freed"):
        t.buffer.get_tensor(t)


def test_usage_is_settled_before_quantised_data_comes(one_lab: Lab) -> None:
    t = one_lab.ctx.new_tensor(Type.Q8_0, (64, 2))
    one_lab.place(t)
    assert t.buffer is not None
    t.buffer.set_tensor(t, np.zeros(t.nbytes, np.uint8))
    with pytest.raises(AllocationError, match="set it before"):
        t.buffer.usage = BufferUsage.WEIGHTS


def test_copies_between_buffers_stay_on_the_device(lab: Lab) -> None:
    a, b = lab.tensor(values((4, 4), 1)), lab.tensor(np.zeros((4, 4), np.float32))
    assert lab.backend.copy_tensor_async(lab.backend, a, b)
    np.testing.assert_array_equal(b.numpy(), values((4, 4), 1))
    odd = lab.tensor(np.ones(3, np.int8), Type.I8)
    assert not lab.backend.copy_tensor_async(lab.backend, odd, lab.tensor(np.zeros(3), Type.I8))


# ---- limits -------------------------------------------------------------------------------------


@pytest.fixture
def narrow_lab(first_backend: WgpuBackend) -> Any:
    """The same adapter with bindings of 16 KiB."""
    backend = first_backend.device.with_mask("binding=16K").init_backend()
    assert isinstance(backend, WgpuBackend)
    made = Lab(backend)
    yield made
    made.free()


@pytest.mark.parametrize("type_", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_1])
def test_tables_larger_than_a_binding(narrow_lab: Lab, one_lab: Lab, type_: Type) -> None:
    """An embedding of 400 rows, used as table and as head, in windows of 16 KiB."""
    table, x = values((400, 128), 1), values((3, 128), 2)
    ids = np.array([399, 0, 5, 123, 250, 31], np.int32)
    results = []
    for lab in (narrow_lab, one_lab):
        w = lab.tensor(table, type_, weights=True)
        looked_up = lab.run(ops.get_rows(lab.ctx, w, lab.tensor(ids, Type.I32)))
        head = lab.run(ops.mul_mat(lab.ctx, w, lab.tensor(x)))
        results.append((looked_up, head))
        assert w.nbytes > 16384
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5, atol=1e-5)


def test_operands_past_the_binding_limit_are_refused_by_name(narrow_lab: Lab) -> None:
    t = ops.sqr(narrow_lab.ctx, narrow_lab.ctx.new_tensor(Type.F32, (5000,), name="big"))
    why = narrow_lab.backend.device.why_not(t)
    assert why is not None and "'big' has 20000 bytes" in why and "16384" in why
    x = narrow_lab.tensor(values((5000,), 1))
    with pytest.raises(UnsupportedOpError, match="20000 bytes in one binding"):
        narrow_lab.run(ops.sqr(narrow_lab.ctx, x))


def test_buffers_past_the_limit_are_refused(first_backend: WgpuBackend) -> None:
    device = first_backend.device.with_mask("buffer=1M")
    assert device.buffer_type().max_size == 1 << 20
    with pytest.raises(AllocationError, match="allows 1048576"):
        device.buffer_type().alloc_buffer((1 << 20) + 4)


def test_features_can_be_masked(first_backend: WgpuBackend) -> None:
    device = first_backend.device.with_mask("no-f16,no-subgroups,storage-buffers=4")
    assert isinstance(device, WgpuDevice)
    p = device.profile
    assert (p.f16, p.subgroups, p.subgroup_size, p.max_storage_buffers) == (False, False, 0, 4)


def test_grid_folding() -> None:
    assert fold_groups(65535) == (65535, 1, 1)
    for n in (65536, 1 << 20, 32768 * 65535):
        x, y, z = fold_groups(n)
        assert max(x, y, z) <= 65535 and n <= x * y * z < n + 32768
    with pytest.raises(UnsupportedOpError, match="65535 a dimension"):
        fold_groups((1, 65536, 1))


# ---- shader errors ----------------------------------------------------------------------------


def test_shader_errors_name_template_and_line(
    one_lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    folder = tmp_path / "shaders"
    (folder / "include").mkdir(parents=True)
    (folder / "bad.wgsl").write_text(
        "// a comment\n{{ decls }}\n{$ include 'include/part.wgsl' $}\n"
        "@compute @workgroup_size(1) fn main() { {{ x }}[P.off_x] = helper(); }\n"
    )
    (folder / "include" / "part.wgsl").write_text(
        "fn helper() -> f32 {\n    return undefined_thing;\n}\n"
    )
    monkeypatch.setenv("WGGML_SHADERS", str(folder))
    device = one_lab.backend.device
    b = PlanBuilder(device)
    x = one_lab.tensor(values((4,), 1))
    b.dispatch("bad.wgsl", operands=[b.operand(x, "f32", name="x", write=True)], groups=1)
    with pytest.raises(ShaderError) as e:
        merge.dispatches(device, b.requests)
    assert "include/part.wgsl:2" in str(e.value) and "undefined_thing" in str(e.value)
    (folder / "include" / "part.wgsl").write_text("fn helper() -> f32 { return {{ gone }}; }")
    with pytest.raises(ShaderError, match="gone"):
        merge.dispatches(device, b.requests)
