"""Ops against NumPy: layouts, odd row lengths, exact roundings, large grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wgpu_lab import Lab, rng, values

from wggml.core import ops
from wggml.core.opcodes import GluOp, RopeMode, UnaryOp
from wggml.core.types import Type

LENGTHS = [1, 3, 7, 63, 64, 65, 127, 129, 255, 257, 40000]
relaxed = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# ---- row kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_of_any_length(lab: Lab, n: int) -> None:
    check_rows(lab, n)


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_shared_by_many_lanes(hardware_lab: Lab, n: int) -> None:
    check_rows(hardware_lab, n)


def check_rows(lab: Lab, n: int) -> None:
    v = values((3, n), n)
    x = lab.tensor(v)
    wide = v.astype(np.float64)
    rms = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    ctx = lab.ctx
    close = {"rtol": 2e-5, "atol": 2e-5}
    np.testing.assert_allclose(lab.run(ops.rms_norm(ctx, x, 1e-6)), rms, **close)
    soft = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(lab.run(ops.soft_max(ctx, x)), soft, rtol=2e-5, atol=1e-7)
    got = lab.run(ops.sum_rows(ctx, x)).reshape(-1)
    np.testing.assert_allclose(got, wide.sum(axis=1), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(lab.run(ops.argmax(ctx, x)), v.argmax(axis=1))
    centred = wide - wide.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(lab.run(ops.norm(ctx, x, 1e-6)), want, **close)


@pytest.mark.parametrize("mask_type", [Type.F32, Type.F16])
def test_masked_rows_give_no_nan(lab: Lab, mask_type: Type) -> None:
    mask = np.zeros((4, 33), np.float32)
    mask[1, 5:] = -np.inf
    mask[2, :] = -np.inf
    x = lab.tensor(values((2, 4, 33), 5))
    got = lab.run(ops.soft_max(lab.ctx, x, lab.tensor(mask, mask_type), 0.5))
    assert np.isfinite(got).all()
    assert (got[:, 1, 5:] == 0).all() and (got[:, 2] == 0).all()
    np.testing.assert_allclose(got[:, [0, 1, 3]].sum(axis=-1), 1.0, rtol=1e-5)


def test_argmax_takes_the_last_of_equals(lab: Lab) -> None:
    v = np.zeros((2, 500), np.float32)
    v[1, [3, 77, 400]] = 1.0
    assert lab.run(ops.argmax(lab.ctx, lab.tensor(v))).tolist() == [499, 400]


@pytest.mark.parametrize("shape", [(1,), (7, 9), (3, 4, 100), (300, 300)])
def test_sum_of_everything(lab: Lab, shape: tuple[int, ...]) -> None:
    v = values(shape, 8) + 1.0
    got = lab.run(ops.sum(lab.ctx, lab.tensor(v)))
    assert got[0] == pytest.approx(v.astype(np.float64).sum(), rel=1e-5)


# ---- layouts ----------------------------------------------------------------------------------


@st.composite
def broadcast(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape, shape of a second operand that repeats to it, a permutation)."""
    small = [draw(st.sampled_from([1, 1, 2, 3])) for _ in range(3)]
    small.append(draw(st.sampled_from([1, 2, 4, 5, 8, 33])))
    times = [draw(st.sampled_from([1, 1, 2, 3])) for _ in range(4)]
    whole = tuple(s * t for s, t in zip(small, times, strict=True))
    return whole, tuple(small), tuple(draw(st.permutations(range(4))))


@relaxed
@given(shapes=broadcast(), type_=st.sampled_from([Type.F32, Type.F16, Type.BF16]))
def test_binary_ops_broadcast_and_read_permuted(
    one_lab: Lab, shapes: tuple[tuple[int, ...], ...], type_: Type
) -> None:
    whole, small, axes = shapes
    ctx = one_lab.ctx
    ctx.reset()
    a, b = values(whole, 1), values(small, 2)
    # stored permuted, seen in order: NumPy axis k is dimension 3 - k
    stored = one_lab.tensor(a.transpose(axes), type_)
    back = [3 - axes[3 - i] for i in range(4)]
    x = ops.permute(ctx, stored, *back)
    y = one_lab.tensor(b, type_)
    got = one_lab.run(ops.sub(ctx, x, y))
    tiles = tuple(w // s for w, s in zip(whole, small, strict=True))
    cut = {Type.F32: 0.0, Type.F16: 2e-3, Type.BF16: 2e-2}[type_]
    np.testing.assert_allclose(got.reshape(whole), a - np.tile(b, tiles), atol=3 * cut, rtol=cut)


@relaxed
@given(
    dims=st.tuples(*[st.integers(1, 5)] * 3, st.sampled_from([1, 2, 6, 16, 33])),
    axes=st.permutations(range(4)),
    types=st.tuples(*[st.sampled_from([Type.F32, Type.F16, Type.I32])] * 2),
)
def test_copies_between_layouts(
    one_lab: Lab, dims: tuple[int, ...], axes: list[int], types: tuple[Type, Type]
) -> None:
    ctx = one_lab.ctx
    ctx.reset()
    a = rng(3).integers(-100, 100, dims).astype(np.float32)
    x = one_lab.tensor(a.astype(np.int32) if types[0] == Type.I32 else a, types[0])
    view = ops.permute(ctx, x, *axes)
    got = one_lab.run(ops.cast(ctx, view, types[1]))
    order = [0] * 4
    for i, axis in enumerate(axes):
        order[3 - axis] = 3 - i
    want = a.transpose(order)
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize("type_", [Type.I8, Type.I16, Type.F16, Type.F32, Type.I64])
@pytest.mark.parametrize("n", [1, 3, 4, 17])
def test_concat_of_any_element_size(lab: Lab, type_: Type, n: int) -> None:
    a = rng(1).integers(-50, 50, (3, n))
    b = rng(2).integers(-50, 50, (3, n + 1))
    dtype = {Type.I8: np.int8, Type.I16: np.int16, Type.I64: np.int64}.get(type_, np.float32)
    x, y = lab.tensor(a.astype(dtype), type_), lab.tensor(b.astype(dtype), type_)
    got = lab.run(ops.concat(lab.ctx, x, y, 0))
    np.testing.assert_array_equal(got, np.concatenate([a, b], axis=1))


@pytest.mark.parametrize("n", [65534, 65535, 65536, 1 << 20])
def test_grids_past_the_limit_of_one_dimension(one_lab: Lab, n: int) -> None:
    """One workgroup a row: n rows need n workgroups."""
    x = one_lab.tensor(np.arange(n, dtype=np.float32).reshape(n, 1))
    got = one_lab.run(ops.sum_rows(one_lab.ctx, x))
    np.testing.assert_array_equal(got.reshape(-1), np.arange(n))


# ---- 16-bit floats ------------------------------------------------------------------------------


def hard_floats() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values around every rounding decision of f16: ties, subnormals, both ends."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    near = np.concatenate([halves, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)])
    near = np.concatenate([near, [65504, 65519.9, 1e-8, 2.9802322e-08, 2.98023e-08, 0]])
    return np.concatenate([near, -near]).astype(np.float32)


def test_f16_rounds_to_nearest_even_on_every_device(lab: Lab) -> None:
    v = hard_floats()
    got = lab.run(ops.cast(lab.ctx, lab.tensor(v), Type.F16))
    want = np.clip(v, -65504, 65504).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(got, want)


def test_f16_stores_clamp_finite_values_and_keep_infinities(lab: Lab) -> None:
    v = np.array([1e5, -7e4, np.inf, -np.inf, 65520.0], np.float32)
    got = lab.run(ops.cast(lab.ctx, lab.tensor(v), Type.F16))
    np.testing.assert_array_equal(got, [65504, -65504, np.inf, -np.inf, 65504])


@pytest.mark.parametrize("n", [1, 3, 5, 8])
@pytest.mark.parametrize("dst", [Type.F16, Type.F32, Type.BF16])
@pytest.mark.parametrize("ids_type", [Type.I32, Type.I64])
def test_set_rows(lab: Lab, n: int, dst: Type, ids_type: Type) -> None:
    """Rows of odd length share words with their neighbours, which must stay as they were."""
    old, new = rng(1).integers(0, 99, (40, n)), rng(2).integers(100, 199, (9, n))
    ids = rng(3).permutation(40)[:9]
    table = lab.tensor(old.astype(np.float32), dst)
    chosen = lab.tensor(ids.astype(np.int64 if ids_type == Type.I64 else np.int32), ids_type)
    got = lab.run(ops.set_rows(lab.ctx, table, lab.tensor(new.astype(np.float32)), chosen))
    want = old.copy()
    want[ids] = new
    np.testing.assert_array_equal(got.reshape(40, n), want)


def test_set_rows_leaves_out_rows_past_the_end(lab: Lab) -> None:
    table = lab.tensor(np.zeros((4, 8), np.float32))
    ids = lab.tensor(np.array([1, 4, 1000000], np.int32), Type.I32)
    got = lab.run(ops.set_rows(lab.ctx, table, lab.tensor(np.ones((3, 8), np.float32)), ids))
    assert got.sum(axis=1).tolist() == [0, 8, 0, 0]


# ---- functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [UnaryOp.TANH, UnaryOp.GELU, UnaryOp.SILU, UnaryOp.SOFTPLUS])
def test_activations_stay_finite_far_out(lab: Lab, op: UnaryOp) -> None:
    v = np.array([-1e30, -1e4, -100, -20, 0, 20, 100, 1e4], np.float32)
    got = lab.run(ops.unary(lab.ctx, lab.tensor(v), op))
    assert np.isfinite(got).all()
    want = {UnaryOp.TANH: np.sign(v), UnaryOp.GELU: np.maximum(v, 0)}.get(op)
    if want is not None:
        np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("n", [6, 32])
def test_gated_units_of_halves(lab: Lab, swapped: bool, n: int) -> None:
    v = values((3, 2 * n), 4)
    got = lab.run(ops.glu(lab.ctx, lab.tensor(v), GluOp.SWIGLU, swapped=swapped))
    x, y = (v[:, n:], v[:, :n]) if swapped else (v[:, :n], v[:, n:])
    np.testing.assert_allclose(got, x / (1 + np.exp(-x)) * y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_sines_of_large_angles(lab: Lab, op: str) -> None:
    v = np.linspace(-2000, 2000, 4001).astype(np.float32)
    got = lab.run(getattr(ops, op)(lab.ctx, lab.tensor(v)))
    np.testing.assert_allclose(got, getattr(np, op)(v.astype(np.float64)), atol=2e-4)


@pytest.mark.parametrize("mode", [RopeMode.NORMAL, RopeMode.NEOX])
@pytest.mark.parametrize("first", [0, 1000, 131072, 1 << 24])
def test_rope_at_any_position(lab: Lab, mode: RopeMode, first: int) -> None:
    """Angles are exact modulo a turn, so that accuracy does not depend on the position."""
    n, heads, tokens = 64, 2, 3
    v = values((tokens, heads, n), 6)
    pos = np.arange(first, first + tokens)
    params = ops.RopeParams(n_dims=n, mode=mode)
    t = ops.rope(lab.ctx, lab.tensor(v), lab.tensor(pos.astype(np.int32), Type.I32), params)
    got = lab.run(t)
    factor = float(np.float32(10000.0) ** np.float32(-2.0 / n))
    turns = factor ** np.arange(n // 2) / (2 * np.pi)
    # (position * turns) mod 1 in integers: a double would lose digits at 2^24
    frac = [[(int(p) * int(t * 2.0**60)) % 2**60 / 2.0**60 for t in turns] for p in pos]
    angle = 2 * np.pi * np.array(frac)[:, None, :]
    x, y = (v[..., 0::2], v[..., 1::2]) if mode == RopeMode.NORMAL else np.split(v, 2, axis=-1)
    a = x * np.cos(angle) - y * np.sin(angle)
    b = x * np.sin(angle) + y * np.cos(angle)
    joined = np.stack([a, b], -1).reshape(v.shape) if mode == RopeMode.NORMAL else None
    want = joined if joined is not None else np.concatenate([a, b], axis=-1)
    np.testing.assert_allclose(got, want, atol=3e-6)
