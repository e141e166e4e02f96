"""Sizes, buffers, special values and properties of (de)quantisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wggml.core.types import TRAITS, Type, blck_size, row_size, type_size
from wggml.errors import ShapeError, UnsupportedOpError, UsageError
from wggml.quants import can_quantize, dequantize, dequantize_rows, quantize
from wggml.quants.blocks import dot_rows
from wggml.quants.grids import even_signs, grid
from wggml.quants.layouts import LAYOUTS
from wggml.quants.rounding import roundf

BLOCK_TYPES = [t for t in Type if TRAITS[t].is_quantized]
WRITABLE = [t for t in BLOCK_TYPES if can_quantize(t)]


@pytest.mark.parametrize("t", BLOCK_TYPES, ids=lambda t: t.name)
def test_layout_has_the_size_of_a_block(t: Type) -> None:
    assert LAYOUTS[t].itemsize == type_size(t)


@pytest.mark.parametrize("t", list(Type), ids=lambda t: t.name)
def test_any_bytes_can_be_read_and_chunks_do_not_matter(
    t: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(t)
    rows, ne0 = 5, 2 * max(256, blck_size(t))
    raw = rng.integers(0, 256, (rows, row_size(t, ne0)), dtype=np.uint8)
    with np.errstate(all="ignore"):  # random bytes hold infinite scales
        whole = dequantize_rows(raw, t)
        monkeypatch.setattr("wggml.quants.api.CHUNK", 256)
        pieces = np.concatenate([dequantize(row.tobytes(), t) for row in raw])
    assert whole.shape == (rows, ne0)
    np.testing.assert_array_equal(whole.reshape(-1), pieces)


def test_strided_rows_and_out() -> None:
    x = np.random.default_rng(0).standard_normal((4, 64), np.float32)
    wide = np.zeros((4, 100), np.uint8)
    wide[:, : row_size(Type.Q8_0, 64)] = quantize(x, Type.Q8_0)
    out = np.full((4, 64), np.nan, np.float32)
    got = dequantize_rows(wide[:, : row_size(Type.Q8_0, 64)], Type.Q8_0, out=out)
    assert np.shares_memory(got, out)
    np.testing.assert_allclose(out, x, atol=np.abs(x).max() / 127)


def test_memoryview_prefix_and_fresh_result() -> None:
    data = np.arange(8, dtype=np.float32)
    got = dequantize(memoryview(data.tobytes()), Type.F32, n=3)
    assert got.tolist() == [0, 1, 2]
    assert not np.shares_memory(dequantize(data.view(np.uint8), Type.F32), data)


def test_empty() -> None:
    assert dequantize(b"", Type.Q4_K).shape == (0,)
    assert quantize(np.empty((0, 256), np.float32), Type.Q8_0).shape == (0, 272)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dequantize(bytes(19), Type.Q4_0), ShapeError, "19 bytes are not whole blocks"),
        (lambda: dequantize(bytes(18), Type.Q4_0, n=64), ShapeError, "hold 32 values, 64"),
        (lambda: dequantize(bytes(18), Type.Q4_0, n=8), ShapeError, "whole blocks"),
        (
            lambda: dequantize(bytes(18), Type.Q4_0, out=np.empty(31, np.float32)),
            ShapeError, "32 values",
        ),
        (lambda: dequantize(np.zeros(4, np.int32), Type.F32), ShapeError, "view it as uint8"),
        (lambda: quantize(np.zeros((2, 33), np.float32), Type.Q4_0), ShapeError, "multiple of 32"),
        (lambda: quantize(np.float32(1), Type.F16), ShapeError, "scalar"),
        (lambda: quantize(np.zeros(256), Type.IQ2_XXS), UnsupportedOpError, "give weights [ne0]"),
        (
            lambda: quantize(np.zeros(256), Type.Q8_K, np.ones(256)),
            UnsupportedOpError, "leave the weights out",
        ),
        (
            lambda: quantize(np.zeros((2, 256)), Type.IQ3_S, np.ones(2)),
            ShapeError, "weights have shape [2]",
        ),
        (lambda: quantize(np.zeros(256), Type.IQ3_S, -np.ones(256)), UsageError, "not negative"),
        (lambda: quantize(np.zeros(4), Type.I8), UnsupportedOpError, "i8"),
        (lambda: quantize(np.full(32, np.inf), Type.Q4_0), UsageError, "inf at (0,)"),
        (lambda: quantize(np.full(32, 1e30), Type.Q8_0), UsageError, "too large"),
        (lambda: dot_rows(np.zeros((2, 34), np.uint8), Type.Q8_0, np.zeros(8)), ShapeError, "x is"),
    ],
)  # fmt: skip
def test_errors_say_what(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_f16_bit_patterns_all() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    want = bits.view(np.float16).astype(np.float32)
    got = dequantize(bits.view(np.uint8), Type.F16)
    np.testing.assert_array_equal(got, want)
    assert np.signbit(got[0x8000])
    back = quantize(want, Type.F16).view(np.uint16)
    nan = np.isnan(want)
    np.testing.assert_array_equal(back[~nan], bits[~nan])
    assert np.isnan(back.view(np.float16)[nan]).all()


def test_f16_and_bf16_keep_special_values() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, -0.0], np.float32)
    for t in (Type.F16, Type.BF16):
        got = dequantize(quantize(x, t), t)
        assert np.isposinf(got[0])
        assert np.isneginf(got[1])
        assert np.isnan(got[2])
        assert np.signbit(got[6])
    assert np.isposinf(dequantize(quantize(x, Type.F16), Type.F16)[3])


def test_bf16_rounds_to_even() -> None:
    x = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF], np.uint32).view(np.float32)
    assert quantize(x, Type.BF16).view(np.uint16).tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80]


def test_roundf_is_c_round() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, np.nextafter(np.float32(0.5), np.float32(0))], np.float32)
    assert roundf(x).tolist() == [1, -1, 2, 3, 0]


@pytest.mark.parametrize("t", WRITABLE, ids=lambda t: t.name)
def test_zeros_stay_zero(t: Type) -> None:
    x = np.zeros((2, 512), np.float32)
    x[1] = -0.0
    assert not dequantize_rows(quantize(x, t), t).any()


@pytest.mark.parametrize("t", WRITABLE, ids=lambda t: t.name)
def test_a_block_is_written_the_same_alone(t: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = 8 if t.name.startswith("IQ") else 40  # searches through codebooks take long
    x = np.random.default_rng(t).standard_normal((blocks, blck_size(t)), np.float32)
    together = quantize(x, t)
    monkeypatch.setattr("wggml.quants.api.CHUNK", 3 * blck_size(t))
    np.testing.assert_array_equal(quantize(x, t), together)
    np.testing.assert_array_equal(np.stack([quantize(row, t) for row in x]), together)


@pytest.mark.parametrize("t", WRITABLE, ids=lambda t: t.name)
def test_odd_blocks(t: Type) -> None:
    """Constants, tiny numbers, one spike: finite, and no further off than the block's range."""
    n = blck_size(t)
    spike = np.eye(1, n, n // 2)[0]
    rows = [np.full(n, -3.0), np.full(n, 3.0), spike, -spike, spike * 1e-30, np.full(n, 1e-38)]
    x = np.array([*rows, np.arange(n) - n], np.float32)
    got = dequantize_rows(quantize(x, t), t)
    assert np.isfinite(got).all()
    # IQ3_S misplaces codes behind groups of zeros; IQ1_M moves every value by an eighth
    reach = {Type.IQ3_S: 1.1, Type.IQ1_M: 1.3}.get(t, 1.01)
    assert (np.abs(got - x) <= reach * np.abs(x).max(1, keepdims=True) + 1e-30).all()


# Largest error that rounding to the nearest code may leave, as a share of the block's range.
STEP = {
    Type.Q4_0: 1 / 8,
    Type.Q4_1: 1 / 15,
    Type.Q5_0: 1 / 16,
    Type.Q5_1: 1 / 31,
    Type.Q8_0: 1 / 127,
}


@pytest.mark.parametrize("t", STEP, ids=lambda t: t.name)
@settings(max_examples=60, deadline=None)
@given(
    x=arrays(np.float32, (3, 32), elements=st.floats(-1000, 1000, width=32)),
)
def test_round_trip_error_is_bounded(t: Type, x: np.ndarray) -> None:
    got = dequantize_rows(quantize(x, t), t)
    spread = np.maximum(np.abs(x).max(1), np.ptp(x, axis=1))[:, None]
    # half a step, plus a step where the far end has no code of its own, plus f16 scale rounding:
    # relative for normal scales, half of the least subnormal (2^-25) times 127 codes below them
    assert (np.abs(got - x) <= spread * (STEP[t] * 1.01 + 2e-3) + 127 * 2.0**-25 + 1e-6).all()


@pytest.mark.parametrize("t", [Type.Q4_1, Type.Q6_K, Type.F16, Type.IQ3_S], ids=lambda t: t.name)
@pytest.mark.parametrize("columns", [None, 1, 5])
def test_dot_rows_is_the_product(t: Type, columns: int | None) -> None:
    rng = np.random.default_rng(1)
    n, k = 600, 512
    raw = rng.integers(0, 60, (n, row_size(t, k)), dtype=np.uint8)  # small bytes: finite scales
    x = rng.standard_normal(k if columns is None else (k, columns), np.float32)
    want = dequantize_rows(raw, t).astype(np.float64) @ x
    got = dot_rows(raw, t, x)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_codebooks_match_the_type() -> None:
    entries = {
        Type.IQ1_S: (2048, 8), Type.IQ1_M: (2048, 8), Type.IQ2_XXS: (256, 8),
        Type.IQ2_XS: (512, 8), Type.IQ2_S: (1024, 8), Type.IQ3_XXS: (256, 4), Type.IQ3_S: (512, 4),
    }  # fmt: skip
    for t, shape in entries.items():
        assert grid(t).shape == shape
        assert len(np.unique(grid(t), axis=0)) == shape[0], t
    ones = np.unpackbits(even_signs()[:, None], axis=1).sum(axis=1)
    assert (ones % 2 == 0).all()
    assert len(set(even_signs().tolist())) == 128
