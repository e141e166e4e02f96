"""Block formats in and out: quantised bytes against the NumPy writers, conversions between layouts,
rows that share words, and attention over quantised K and V."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from mm_lab import weight_bytes
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu.ops import attention as attention_family
from wggml.backends.wgpu.ops._blocks import READABLE, WRITABLE
from wggml.backends.wgpu.ops.attention import BYTE_TYPES
from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import Type, blck_size, row_size, type_name
from wggml.errors import UnsupportedOpError
from wggml.hal.interface import BufferUsage
from wggml.quants import dequantize_rows, quantize

F32 = npt.NDArray[np.float32]
# On the slower compilers one type of each family.
FEW = frozenset({Type.Q4_0, Type.Q5_1, Type.NVFP4, Type.IQ4_XS, Type.Q3_K, Type.Q4_K, Type.TQ1_0})


def name_of(t: Any) -> str:
    return type_name(t) if isinstance(t, Type) else str(t)


def skip_unless_main(lab: Lab, type_: Type) -> None:
    if type_ not in FEW and "(Vulkan)" not in lab.backend.device.description:
        pytest.skip("tested on Vulkan")
    if type_ not in FEW and "lavapipe" not in lab.backend.device.description:
        pytest.skip("tested on lavapipe")


def edge_rows(n: int, k: int) -> F32:
    """Random rows, and rows where searches and roundings meet their edges: zeros, one value, large
    and small ones, one sign, zeros between, halves of steps."""
    x = values((n, k), 3)
    x[0], x[1], x[2], x[3] = 0, 0.37, x[2] * 1e-3, x[3] * 1e3
    x[4, ::2], x[5], x[6] = 0, np.abs(x[5]), -np.abs(x[6])
    x[7, 5:], x[8], x[9, :256] = 0, np.round(x[8] * 4) / 4, 0
    x[10] *= np.float32(1e-9)
    return x


def bytes_of(t: Tensor) -> npt.NDArray[np.uint8]:
    assert t.buffer is not None
    return np.asarray(t.buffer.get_tensor(t))


def empty(lab: Lab, type_: Type, ne: tuple[int, ...]) -> Tensor:
    """A placed tensor of bytes that no case writes by chance."""
    t = lab.ctx.new_tensor(type_, ne)
    lab.place(t)
    lab.buffers[-1].clear(0xA5)
    return t


def part(lab: Lab, t: Tensor, ne: tuple[int, ...], nb: tuple[int, ...], offset: int = 0) -> Tensor:
    """A view of a placed tensor, placed."""
    view = ops.view(lab.ctx, t, ne, nb[1:], offset) if nb else t
    assert t.data is not None
    view.buffer, view.data = t.buffer, t.data + offset
    return view


# ---- into blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", sorted(WRITABLE), ids=name_of)
def test_quantised_bytes(lab: Lab, type_: Type) -> None:
    """The bytes that ggml's reference routines store (tests/quants compares NumPy with those)."""
    skip_unless_main(lab, type_)
    x = edge_rows(20, 768)
    dst = empty(lab, type_, (768, 20))
    lab.backend.graph_compute(lab.graph(ops.cpy(lab.ctx, lab.tensor(x), dst)))
    want = quantize(x, type_).reshape(-1)
    np.testing.assert_array_equal(bytes_of(dst), want)


@pytest.mark.parametrize("type_", [Type.F16, Type.BF16], ids=name_of)
def test_quantised_from_halves_and_strides(lab: Lab, type_: Type) -> None:
    """A transposed source of 16-bit floats, into blocks that share words and whose rows are
    permuted."""
    x = values((96, 3, 4), 5)  # [values, i, j], to be read with values innermost
    src = lab.tensor(x, type_)
    stored = src.numpy().reshape(x.shape).astype(np.float32)
    turned = ops.permute(lab.ctx, src, 2, 1, 0, 3)  # ne [96, 3, 4]
    turned = part_of(lab, turned)
    dst = empty(lab, Type.Q5_0, (96, 4, 3))
    view = part_of(lab, ops.permute(lab.ctx, dst, 0, 2, 1, 3))
    lab.backend.graph_compute(lab.graph(ops.cpy(lab.ctx, turned, view)))
    want = quantize(np.ascontiguousarray(stored.transpose(1, 2, 0)), Type.Q5_0)
    np.testing.assert_array_equal(bytes_of(dst), want.reshape(-1))


def part_of(lab: Lab, view: Tensor) -> Tensor:
    root = view.view_src
    assert root is not None and root.data is not None
    view.buffer, view.data = root.buffer, root.data + view.view_offs
    return view


@pytest.mark.parametrize("type_", [Type.Q4_0, Type.Q8_0, Type.MXFP4, Type.Q3_K], ids=name_of)
@pytest.mark.parametrize("ids_type", [Type.I32, Type.I64], ids=name_of)
def test_set_rows_of_blocks(lab: Lab, type_: Type, ids_type: Type) -> None:
    """Rows that begin inside words: neighbours keep their bytes; a row past the end is left out."""
    old = weight_bytes(type_, 9, 256, 1)
    dst = empty(lab, type_, (256, 9))
    assert dst.buffer is not None
    dst.buffer.set_tensor(dst, old.reshape(-1))
    x = values((4, 256), 2)
    ids = np.array([7, 0, 9, 3], np.int64 if ids_type == Type.I64 else np.int32)
    result = ops.set_rows(lab.ctx, dst, lab.tensor(x), lab.tensor(ids, ids_type))
    lab.backend.graph_compute(lab.graph(result))
    want = old.copy()
    want[[7, 0, 3]] = quantize(x, type_)[[0, 1, 3]]
    np.testing.assert_array_equal(bytes_of(dst).reshape(want.shape), want)


# ---- out of blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", sorted(READABLE), ids=name_of)
def test_values_of_blocks(one_lab: Lab, type_: Type) -> None:
    """A view whose first block starts inside a word, to f32; and from weights in the device's own
    layout."""
    raw = weight_bytes(type_, 7, 512, int(type_))
    want = dequantize_rows(raw, type_)
    t = empty(one_lab, type_, (512, 7))
    assert t.buffer is not None
    t.buffer.set_tensor(t, raw.reshape(-1))
    row = row_size(type_, 512)
    view = part(one_lab, t, (512, 3), (0, 2 * row), row)
    got = one_lab.run(ops.cast(one_lab.ctx, view, Type.F32))
    np.testing.assert_allclose(got.reshape(3, 512), want[1::2], rtol=2e-6, atol=1e-7)
    packed = one_lab.ctx.new_tensor(type_, (512, 7))
    one_lab.place(packed, usage=BufferUsage.WEIGHTS)
    assert packed.buffer is not None
    packed.buffer.set_tensor(packed, raw.reshape(-1))
    got = one_lab.run(ops.cast(one_lab.ctx, packed, Type.F32))
    np.testing.assert_allclose(got.reshape(7, 512), want, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("to", [Type.F16, Type.BF16, Type.Q4_1, Type.Q4_K], ids=name_of)
def test_blocks_to_other_types(lab: Lab, to: Type) -> None:
    raw = quantize(values((6, 256), 4), Type.Q8_0)
    src = empty(lab, Type.Q8_0, (256, 6))
    assert src.buffer is not None
    src.buffer.set_tensor(src, raw.reshape(-1))
    dst = empty(lab, to, (256, 6))
    lab.backend.graph_compute(lab.graph(ops.cpy(lab.ctx, src, dst)))
    want = quantize(dequantize_rows(raw, Type.Q8_0), to).reshape(-1)
    np.testing.assert_array_equal(bytes_of(dst), want)


def test_halves_of_blocks_at_odd_places(lab: Lab) -> None:
    """16-bit results in every second column: words are shared with what lies between."""
    raw = quantize(values((2, 64), 4), Type.Q4_0)
    src = empty(lab, Type.Q4_0, (64, 2))
    assert src.buffer is not None
    src.buffer.set_tensor(src, raw.reshape(-1))
    whole = empty(lab, Type.F16, (2, 64, 2))
    rows = part(lab, whole, (1, 64, 2), (2, 4, 256), 2)
    view = part_of(lab, ops.permute(lab.ctx, rows, 1, 0, 2, 3))
    flat = part_of(lab, ops.permute(lab.ctx, view, 0, 2, 1, 3))
    lab.backend.graph_compute(lab.graph(ops.cpy(lab.ctx, src, flat)))
    got = bytes_of(whole).view(np.float16).reshape(2, 64, 2)
    np.testing.assert_array_equal(got[:, :, 1], dequantize_rows(raw, Type.Q4_0).astype(np.float16))
    assert (np.ascontiguousarray(got[:, :, 0]).view(np.uint16) == 0xA5A5).all()


def test_addition_to_quantised_values(lab: Lab) -> None:
    x, y = values((3, 64), 1), values((3, 64), 2)
    stored = dequantize_rows(quantize(x, Type.Q8_0), Type.Q8_0)
    a = lab.tensor(x, Type.Q8_0)
    added = ops.add(lab.ctx, a, lab.tensor(y))
    lab.backend.graph_compute(lab.graph(added))
    assert added.type == Type.Q8_0
    np.testing.assert_array_equal(bytes_of(added), quantize(stored + y, Type.Q8_0).reshape(-1))


def test_strided_layouts_of_different_shape(lab: Lab) -> None:
    x = rng(1).integers(0, 256, (4, 3, 2, 18)).astype(np.uint8)  # q4_0 blocks
    src = empty(lab, Type.Q4_0, (32, 2, 3, 4))
    assert src.buffer is not None
    src.buffer.set_tensor(src, x.reshape(-1))
    turned = part_of(lab, ops.permute(lab.ctx, src, 0, 3, 1, 2))  # ne [32, 3, 4, 2]
    dst = empty(lab, Type.Q4_0, (32, 6, 2, 2))
    view = part_of(lab, ops.permute(lab.ctx, dst, 0, 2, 1, 3))  # ne [32, 2, 6, 2]
    lab.backend.graph_compute(lab.graph(ops.cpy(lab.ctx, turned, view)))
    order = x.transpose(2, 0, 1, 3).reshape(2, 6, 2, 18).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(bytes_of(dst).reshape(order.shape), order)


def test_weights_in_a_layout_of_their_own_are_refused(one_lab: Lab) -> None:
    w = one_lab.tensor(values((4, 64), 1), Type.Q8_0, weights=True)
    rows, ids = (
        one_lab.tensor(values((1, 64), 2)),
        one_lab.tensor(np.array([1], np.int32), Type.I32),
    )
    with pytest.raises(UnsupportedOpError, match=r"device's own layout.*usage is not WEIGHTS"):
        one_lab.run(ops.set_rows(one_lab.ctx, w, rows, ids))


# ---- attention ----------------------------------------------------------------------------------


def cache(lab: Lab, x: F32, type_: Type) -> tuple[Tensor, F32]:
    """K or V [.., n_kv, D] of a type behind a few other bytes, so that blocks start inside words;
    and the values stored."""
    heads, n_kv, d = x.shape
    raw = quantize(x, type_)
    row = row_size(type_, d)
    whole = empty(lab, type_, (d, n_kv + 1, heads))
    assert whole.buffer is not None
    filled = rng(9).integers(0, 256, (heads, n_kv + 1, row)).astype(np.uint8)
    filled[:, 1:] = raw
    whole.buffer.set_tensor(whole, filled.reshape(-1))
    view = part(lab, whole, (d, n_kv, heads), (0, row, row * (n_kv + 1)), row)
    return view, dequantize_rows(raw, type_)


def attention(q: F32, k: F32, v: F32, scale: float) -> npt.NDArray[np.float64]:
    """[query, head, D] of q [head, query, D] with heads of k and v shared."""
    group = len(q) // len(k)
    out = []
    for h in range(len(q)):
        s = q[h].astype(np.float64) @ k[h // group].T.astype(np.float64) * scale
        p = np.exp(s - s.max(axis=1, keepdims=True))
        out.append(p / p.sum(axis=1, keepdims=True) @ v[h // group])
    return np.stack(out, axis=1)


def check_attention(lab: Lab, k_type: Type, v_type: Type, d: int, dv: int) -> None:
    n_kv = 21
    q = values((4, 3, d), 1)
    k, k_values = cache(lab, values((2, n_kv, d), 2), k_type)
    v, v_values = cache(lab, values((2, n_kv, dv), 3), v_type)
    got = lab.run(ops.flash_attn_ext(lab.ctx, lab.tensor(q), k, v, None, 0.25))
    want = attention(q, k_values, v_values, 0.25)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direct", [False, True], ids=["f32 first", "direct"])
@pytest.mark.parametrize("type_", sorted(BYTE_TYPES), ids=name_of)
def test_attention_over_quantised_cache(
    lab: Lab, type_: Type, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brought to f32 first, as on software adapters, and read where it lies, as GPUs do for a few
    queries."""
    if "lavapipe" not in lab.backend.device.description and type_ not in (Type.BF16, Type.Q5_1):
        pytest.skip("tested on lavapipe")
    if direct:
        monkeypatch.setattr(attention_family, "_comes_first", lambda *_: False)
    d = max(blck_size(type_), 64)
    check_attention(lab, type_, type_, d, d)


@pytest.mark.parametrize(
    "k_type, v_type, d, dv",
    [
        (Type.F16, Type.Q4_0, 36, 64),  # f16 rows that are not whole units
        (Type.Q8_0, Type.F32, 64, 20),
        (Type.BF16, Type.F16, 37, 41),
        (Type.Q4_K, Type.MXFP4, 256, 32),
        (Type.Q4_0, Type.Q6_K, 64, 256),
    ],
    ids=["f16 and q4_0", "q8_0 and f32", "bf16 and f16", "q4_K and mxfp4", "q4_0 and q6_K"],
)
def test_attention_over_mixed_types(
    one_lab: Lab, k_type: Type, v_type: Type, d: int, dv: int
) -> None:
    check_attention(one_lab, k_type, v_type, d, dv)


def test_attention_kernel_meant_for_gpus(hardware_lab: Lab) -> None:
    check_attention(hardware_lab, Type.Q8_0, Type.Q4_1, 32, 32)
