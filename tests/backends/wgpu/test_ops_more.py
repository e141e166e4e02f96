"""Ops beyond a language model's forward pass: sorting, sums, gradients, losses, images, updates."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.core import ops
from wggml.core.opcodes import ScaleMode, SortOrder, TriType
from wggml.core.types import Type
from wggml.testing.opcases import OpCase, iter_cases, run_case

LENGTHS = [1, 3, 7, 8, 9, 63, 65, 255, 257, 40000]
ONE_IN = 5
FILES = (
    "FILL|ARANGE|TRI|DIAG.*|TIMESTEP_EMBEDDING|PAD.*|ROLL|WIN.*|.*_REL_POS|UPSCALE|SET|ACC|ADD_ID"
    "|ADD1|CUMSUM|COUNT_EQUAL|SUM|GROUP_NORM.*|RMS_NORM_BACK|SILU_BACK|SOFT_MAX_BACK|REPEAT_BACK"
    "|GET_ROWS_BACK|CROSS.*|OPT.*|ARGSORT|TOP.*|OUT_PROD"
)
relaxed = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
F64 = np.float64


# ---- golden data ------------------------------------------------------------------------------


def read(folder: Path, one_in: int) -> list[OpCase]:
    """One case in `one_in`, and the first of each op, so that none is left out."""
    seen: set[str] = set()
    found = []
    for case in iter_cases(folder, FILES, None):
        if case.op not in seen or zlib.crc32(case.id.encode()) % one_in == 0:
            found.append(case)
        seen.add(case.op)
    return found


@pytest.fixture(scope="module")
def committed(data_dir: Path) -> list[OpCase]:
    return read(data_dir / "ops", 1)


@pytest.fixture(scope="module")
def sampled(shared_dir: Path) -> list[OpCase]:
    return read(shared_dir / "oracle" / "ops", ONE_IN)


def check(cases: list[OpCase], backend: WgpuBackend) -> None:
    failed, passed = [], set()
    for case in cases:
        result = run_case(case, backend, weights_buffer=True, runs=2)
        if result.status == "fail":
            failed.append(f"{case}: {result.reason}")
        elif result.status == "pass":
            passed.add(case.op)
    assert not failed, "\n".join(failed)
    assert passed == {case.op for case in cases}


def test_committed_cases(committed: list[OpCase], backend: WgpuBackend) -> None:
    check(committed, backend)


def test_sample_of_all_cases(sampled: list[OpCase], backend: WgpuBackend) -> None:
    check(sampled, backend)


def test_kernels_meant_for_gpus(committed: list[OpCase], hardware_backend: WgpuBackend) -> None:
    check(committed, hardware_backend)


# ---- orders -----------------------------------------------------------------------------------


def tied(shape: tuple[int, ...], *seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values of which many are equal, both zeros among them."""
    return (np.round(values(shape, *seed) * 8) / 8).astype(np.float32)


def check_orders(lab: Lab, v: np.ndarray[Any, np.dtype[np.float32]], ks: list[int]) -> None:
    x, ctx = lab.tensor(v), lab.ctx
    up, down = np.argsort(v, axis=-1, kind="stable"), np.argsort(-v, axis=-1, kind="stable")
    np.testing.assert_array_equal(lab.run(ops.argsort(ctx, x)).reshape(v.shape), up)
    got = lab.run(ops.argsort(ctx, x, SortOrder.DESC))
    np.testing.assert_array_equal(got.reshape(v.shape), down)
    for k in ks:
        got = lab.run(ops.top_k(ctx, x, k)).reshape(*v.shape[:-1], k)
        np.testing.assert_array_equal(got, down[..., :k])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 513, 2047, 2048, 2049, 4097, 40000])
def test_orders_are_those_of_a_stable_sort(lab: Lab, n: int) -> None:
    check_orders(lab, tied((2, n), n), sorted({1, max(n // 3, 1), n}))


def test_orders_on_a_gpu_like_device(hardware_lab: Lab) -> None:
    for n in (5, 200, 2048, 9000):
        check_orders(hardware_lab, tied((3, n), n), [1, n // 2])


def test_order_of_a_million(one_lab: Lab) -> None:
    v = values((1 << 20,), 3)
    got = one_lab.run(ops.argsort(one_lab.ctx, one_lab.tensor(v)))
    np.testing.assert_array_equal(got, np.argsort(v, kind="stable"))


def test_nan_and_infinities_in_order(lab: Lab) -> None:
    v = np.array([[1.0, np.nan, -np.inf, np.inf, -0.0, 0.0, -1.0, np.nan]], np.float32)
    up = lab.run(ops.argsort(lab.ctx, lab.tensor(v)))
    assert up.reshape(-1).tolist() == [2, 6, 4, 5, 0, 3, 1, 7]
    down = lab.run(ops.argsort(lab.ctx, lab.tensor(v), SortOrder.DESC))
    assert down.reshape(-1).tolist() == [3, 0, 4, 5, 6, 2, 1, 7]


def test_many_long_rows_are_sorted_in_parts(one_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from wggml.backends.wgpu.ops import sort

    monkeypatch.setattr(sort, "MAX_SCRATCH", 3 * 3000 * 8)
    check_orders(one_lab, tied((2, 4, 3000), 1), [10, 2500])


def test_more_rows_than_workgroups_in_a_dimension(one_lab: Lab) -> None:
    v = values((65537, 3), 1)
    ctx, x = one_lab.ctx, one_lab.tensor(v)
    got = one_lab.run(ops.argsort(ctx, x))
    np.testing.assert_array_equal(got, np.argsort(v, axis=1, kind="stable"))
    np.testing.assert_allclose(one_lab.run(ops.cumsum(ctx, x)), np.cumsum(v, axis=1), atol=1e-6)


# ---- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
def test_running_sums(lab: Lab, n: int) -> None:
    v = values((3, n), n) + np.float32(0.5)
    got = lab.run(ops.cumsum(lab.ctx, lab.tensor(v))).reshape(3, n)
    np.testing.assert_allclose(got, np.cumsum(v.astype(F64), axis=1), rtol=2e-5, atol=1e-4)


def test_running_sums_of_transposed_values(lab: Lab) -> None:
    v = values((7, 30), 2)
    got = lab.run(ops.cumsum(lab.ctx, ops.transpose(lab.ctx, lab.tensor(v))))
    np.testing.assert_allclose(got, np.cumsum(v.T.astype(F64), axis=1), rtol=1e-5, atol=1e-5)


def test_sum_of_transposed_values(lab: Lab) -> None:
    """As in ggml the op reads what follows each row's first value; `Tensor.sum` does not."""
    v = values((33, 256), 3) + np.float32(0.5)
    turned = ops.transpose(lab.ctx, lab.tensor(v))
    flat = v.reshape(-1).astype(F64)
    follows = sum(flat[i : i + 33].sum() for i in range(256))
    assert lab.run(ops.sum(lab.ctx, turned))[0] == pytest.approx(follows, rel=1e-5)
    assert lab.run(turned.sum())[0] == pytest.approx(flat.sum(), rel=1e-5)


def test_repeat_back_to_one_value_of_transposed_values(lab: Lab) -> None:
    v = values((33, 25), 3) + np.float32(0.5)
    got = lab.run(ops.repeat_back(lab.ctx, ops.transpose(lab.ctx, lab.tensor(v)), (1,)))
    assert got[0] == pytest.approx(v.astype(F64).sum(), rel=1e-5)


def test_sum_keeps_what_rounding_takes(lab: Lab) -> None:
    """Large values that cancel: plain f32 addition would leave nothing of the small ones."""
    v = np.full((3, 1000), 1.0 / 1024, np.float32)
    v[0, 5], v[2, 700] = 3e7, -3e7
    got = lab.run(ops.sum(lab.ctx, lab.tensor(v)))
    assert got[0] == 2998 / 1024


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 257), (1, 40000)])
def test_equal_values_are_counted(lab: Lab, shape: tuple[int, ...]) -> None:
    a, b = rng(1).integers(-2, 3, shape), rng(2).integers(-2, 3, shape)
    x, y = (lab.tensor(v.astype(np.int32), Type.I32) for v in (a, b))
    got = lab.run(ops.count_equal(lab.ctx, x, y))
    assert got[0] == (a == b).sum()


def test_tiles_are_added_up(lab: Lab) -> None:
    v = values((4, 6, 2, 10), 4)
    x = lab.tensor(v)
    for ne in ((5, 2, 3, 2), (10, 1, 1, 1), (1, 2, 6, 4), (1, 1, 1, 1)):
        small = ne[::-1]
        split = [n for whole, own in zip(v.shape, small, strict=True) for n in (whole // own, own)]
        want = v.reshape(split).astype(F64).sum(axis=(0, 2, 4, 6))
        got = lab.run(ops.repeat_back(lab.ctx, x, ne))
        np.testing.assert_allclose(got.reshape(small), want, rtol=1e-5, atol=1e-5)


# ---- gradients and losses ---------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
def test_row_gradients_of_any_length(lab: Lab, n: int) -> None:
    dy, x = values((2, n), n, 1), values((2, n), n, 2)
    ctx, wide, grad = lab.ctx, x.astype(F64), dy.astype(F64)
    t_dy, t_x = lab.tensor(dy), lab.tensor(x)
    energy = (wide**2).sum(1, keepdims=True) + n * 0.25
    want = (grad - wide * (wide * grad).sum(1, keepdims=True) / energy) / np.sqrt(energy / n)
    got = lab.run(ops.rms_norm_back(ctx, t_dy, t_x, 0.25)).reshape(2, n)
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
    soft = np.exp(wide - wide.max(1, keepdims=True))
    soft /= soft.sum(1, keepdims=True)
    y = lab.tensor(soft.astype(np.float32))
    want = 0.5 * soft * (grad - (soft * grad).sum(1, keepdims=True))
    got = lab.run(ops.soft_max_back(ctx, t_dy, y, 0.5)).reshape(2, n)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("n", LENGTHS)
def test_cross_entropy_of_any_row_length(lab: Lab, n: int) -> None:
    x, p = values((3, n), n), rng(n).random((3, n)).astype(np.float32)
    p /= p.sum(1, keepdims=True)
    wide = x.astype(F64) - x.max(1, keepdims=True)
    logs = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    ctx, t_x, t_p = lab.ctx, lab.tensor(x), lab.tensor(p)
    got = lab.run(ops.cross_entropy_loss(ctx, t_x, t_p))
    assert got[0] == pytest.approx(-(logs * p).sum() / 3, rel=1e-4, abs=1e-6)
    g = lab.tensor(np.array([2.5], np.float32))
    got = lab.run(ops.cross_entropy_loss_back(ctx, g, t_x, t_p)).reshape(3, n)
    np.testing.assert_allclose(got, (np.exp(logs) - p) * 2.5 / 3, rtol=1e-4, atol=1e-6)


def test_rows_that_a_mask_hides_whole_have_no_gradient(lab: Lab) -> None:
    """An upper mask hides columns; a row of n_past -1 hides all. Its softmax is 0, so is dx."""
    ctx = lab.ctx
    masked = ops.diag_mask_inf(ctx, lab.tensor(values((4, 5), 1)), -1)
    y = ops.soft_max(ctx, masked)
    got = lab.run(ops.soft_max_back(ctx, lab.tensor(values((4, 5), 2)), y, 1.0))
    assert np.isfinite(got).all()
    assert (got[0] == 0).all() and got[3].any()


@pytest.mark.parametrize("far", [-1e4, -80.0, 0.0, 80.0, 1e4])
def test_silu_back_far_out(lab: Lab, far: float) -> None:
    dy, x = lab.tensor(np.ones(5, np.float32)), lab.tensor(np.full(5, far, np.float32))
    got = lab.run(ops.silu_back(lab.ctx, dy, x))
    want = 0.5 if far == 0 else float(far > 0)
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("type_", [Type.F32, Type.F16])
def test_rows_go_back_where_they_came_from(lab: Lab, type_: Type) -> None:
    n, ids = 33, rng(1).integers(0, 6, 40)
    v = rng(2).integers(-8, 8, (40, n)).astype(np.float32)
    want = np.zeros((6, n), np.float32)
    np.add.at(want, ids, v)
    like = lab.tensor(np.zeros((6, n), np.float32))
    t = ops.get_rows_back(
        lab.ctx, lab.tensor(v, type_), lab.tensor(ids.astype(np.int32), Type.I32), like
    )
    np.testing.assert_array_equal(lab.run(t), want)
    np.testing.assert_array_equal(lab.run(t), want)  # zeros are written anew


def test_optimiser_steps_of_a_transposed_gradient(lab: Lab) -> None:
    w, g = values((5, 12), 1), values((12, 5), 2)
    m, v = values((5, 12), 3), np.abs(values((5, 12), 4))
    alpha, beta1, beta2, eps, decay, up1, up2 = settings = (0.1, 0.9, 0.99, 1e-4, 0.2, 4.0, 9.0)
    ctx, t_w, t_m, t_v = lab.ctx, lab.tensor(w).set_param(), lab.tensor(m), lab.tensor(v)
    t_g = ops.transpose(ctx, lab.tensor(g))
    params = lab.tensor(np.array(settings, np.float32))
    got = lab.run(ops.opt_step_adamw(ctx, t_w, t_g, t_m, t_v, params))
    m1, v1 = beta1 * m + (1 - beta1) * g.T, beta2 * v + (1 - beta2) * g.T**2
    want = w * (1 - alpha * decay) - alpha * m1 * up1 / (np.sqrt(v1 * up2) + eps)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(t_m.numpy(), m1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(t_v.numpy(), v1, rtol=1e-5, atol=1e-6)
    sgd = ops.opt_step_sgd(ctx, t_w, t_g, lab.tensor(np.array([0.5, 0.1], np.float32)))
    np.testing.assert_allclose(lab.run(sgd), want * 0.95 - 0.5 * g.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type_", [Type.F32, Type.F16, Type.BF16])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 3), (33, 2, 17), (4, 9, 64)])
def test_outer_products(lab: Lab, type_: Type, sizes: tuple[int, int, int]) -> None:
    """The second operand also transposed, as gradients have it."""
    m, n, k = sizes
    a = rng(1).integers(-4, 5, (2, k, m)).astype(np.float32)
    b = rng(2).integers(-4, 5, (4, k, n)).astype(np.float32)
    want = np.repeat(a, 2, axis=0).swapaxes(1, 2) @ b
    ctx, x = lab.ctx, lab.tensor(a, type_)
    got = lab.run(ops.out_prod(ctx, x, lab.tensor(b)))
    np.testing.assert_array_equal(got.reshape(4, n, m), want.swapaxes(1, 2))
    turned = ops.transpose(ctx, lab.tensor(np.ascontiguousarray(b.swapaxes(1, 2))))
    got = lab.run(ops.out_prod(ctx, x, turned))
    np.testing.assert_array_equal(got.reshape(4, n, m), want.swapaxes(1, 2))


@pytest.mark.parametrize("type_", [Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q6_K])
@pytest.mark.parametrize("weights", [False, True])
def test_outer_products_of_blocks(lab: Lab, type_: Type, weights: bool) -> None:
    """Blocks as the file has them, and packed in a WEIGHTS buffer."""
    w = lab.tensor(values((5, 512), 1), type_, weights=weights)
    stored = w.numpy()
    for n in (1, 3):
        b = values((5, n), 2)
        got = lab.run(ops.out_prod(lab.ctx, w, lab.tensor(b)))
        np.testing.assert_allclose(got.reshape(n, 512), b.T @ stored, rtol=1e-4, atol=1e-5)


# ---- picked elements --------------------------------------------------------------------------

sizes4 = st.tuples(*[st.integers(1, 4)] * 3, st.integers(1, 9))
few = st.lists(st.integers(0, 3), min_size=4, max_size=4)


@relaxed
@given(shape=sizes4, before=few, after=few, type_=st.sampled_from([Type.F32, Type.F16, Type.I32]))
def test_padding(
    one_lab: Lab, shape: tuple[int, ...], before: list[int], after: list[int], type_: Type
) -> None:
    ctx = one_lab.ctx
    ctx.reset()
    v = rng(1).integers(1, 99, shape).astype(np.int32 if type_ == Type.I32 else np.float32)
    x = one_lab.tensor(v, type_)
    widths = list(zip(before[::-1], after[::-1], strict=True))
    got = one_lab.run(ops.pad(ctx, x, after, before))
    np.testing.assert_array_equal(got.reshape(np.pad(v, widths).shape), np.pad(v, widths))
    got = one_lab.run(ops.pad(ctx, x, after, before, circular=True))
    want = np.pad(v, widths, mode="wrap")
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@relaxed
@given(shape=sizes4, data=st.data())
def test_rolling_of_permuted_values(one_lab: Lab, shape: tuple[int, ...], data: Any) -> None:
    ctx = one_lab.ctx
    ctx.reset()
    v = values(shape, 1)
    view = ops.permute(ctx, one_lab.tensor(v), 0, 2, 1, 3)
    seen = v.swapaxes(1, 2)
    shifts = [data.draw(st.integers(1 - n, n - 1)) for n in seen.shape[::-1]]
    got = one_lab.run(ops.roll(ctx, view, shifts))
    want = np.roll(seen, shifts[::-1], axis=(0, 1, 2, 3))
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_mirrored_ends(lab: Lab, n: int) -> None:
    v = values((2, n), 1)
    for p0, p1 in ((0, n - 1), (n - 1, 0), (n // 2, n // 2)):
        got = lab.run(ops.pad_reflect_1d(lab.ctx, lab.tensor(v), p0, p1)).reshape(2, -1)
        np.testing.assert_array_equal(got, np.pad(v, ((0, 0), (p0, p1)), mode="reflect"))


@pytest.mark.parametrize("n", [1, 3, 65])
def test_triangles_and_diagonals(lab: Lab, n: int) -> None:
    v = values((2, n, n), 1)
    ctx, x = lab.ctx, lab.tensor(v)
    wanted = {
        TriType.UPPER_DIAG: np.triu(v), TriType.UPPER: np.triu(v, 1),
        TriType.LOWER_DIAG: np.tril(v), TriType.LOWER: np.tril(v, -1),
    }  # fmt: skip
    for kind, want in wanted.items():
        np.testing.assert_array_equal(lab.run(ops.tri(ctx, x, kind)).reshape(v.shape), want)
    got = lab.run(ops.diag_mask_inf(ctx, x, 0)).reshape(v.shape)
    np.testing.assert_array_equal(got, np.where(np.tri(n, dtype=bool), v, -np.inf))
    row = values((n,), 2)
    np.testing.assert_array_equal(lab.run(ops.diag(ctx, lab.tensor(row))).reshape(n, n),
                                  np.diag(row))  # fmt: skip


@pytest.mark.parametrize("type_", [Type.F32, Type.F16])
def test_a_large_constant_folds_the_grid(lab: Lab, type_: Type) -> None:
    """More than 65535 workgroups of one dimension."""
    x = lab.tensor(np.zeros((1, (1 << 22) + 131), np.float32), type_)
    got = lab.run(ops.fill(lab.ctx, x, -2.5))
    assert (got == -2.5).all()


def test_windows_of_an_image_and_back(lab: Lab) -> None:
    v = values((9, 7, 5), 1)
    ctx = lab.ctx
    cut = ops.win_part(ctx, lab.tensor(v), 4)
    got = lab.run(cut)
    assert got.shape == (6, 4, 4, 5)
    np.testing.assert_array_equal(got[3], _window(v, 1, 1))
    joined = lab.run(ops.win_unpart(ctx, cut, 7, 9, 4))
    np.testing.assert_array_equal(joined.reshape(v.shape), v)


def _window(v: np.ndarray[Any, Any], row: int, column: int) -> np.ndarray[Any, Any]:
    padded = np.pad(v, ((0, 3), (0, 1), (0, 0)))
    return padded[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]


@pytest.mark.parametrize("mode", list(ScaleMode))
@pytest.mark.parametrize("corners", [False, True])
def test_resizing_keeps_constants_and_single_values(
    lab: Lab, mode: ScaleMode, corners: bool
) -> None:
    for shape, ne in (((3, 1, 1), (5, 4, 3)), ((2, 6, 7), (3, 13, 2)), ((1, 4, 1), (1, 1, 1))):
        x = lab.tensor(np.full(shape, 1.5, np.float32))
        t = ops.interpolate(lab.ctx, x, ne, mode, align_corners=corners)
        np.testing.assert_allclose(lab.run(t), 1.5, rtol=1e-5)


# ---- norms and updates ------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 4, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_group_norm_of_uneven_groups(lab: Lab, groups: int, turned: bool) -> None:
    v = values((2, 10, 3, 5), 1)
    ctx, x = lab.ctx, lab.tensor(v.swapaxes(2, 3) if turned else v)
    got = lab.run(ops.group_norm(ctx, ops.transpose(ctx, x) if turned else x, groups, 1e-5))
    per_group = -(-10 // groups)
    for first in range(0, 10, per_group):
        part = v[:, first : first + per_group].astype(F64)
        mean = part.mean(axis=(1, 2, 3), keepdims=True)
        want = (part - mean) / np.sqrt(part.var(axis=(1, 2, 3), keepdims=True) + 1e-5)
        np.testing.assert_allclose(got[:, first : first + per_group], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("op", ["set", "acc"])
def test_windows_are_written(lab: Lab, op: str, inplace: bool) -> None:
    v, w = values((4, 6, 8), 1), values((2, 3, 5), 2)
    x = lab.tensor(v)
    nb = x.nb
    build = getattr(ops, op)
    t = build(lab.ctx, x, lab.tensor(w), nb[1:], nb[2] + 2 * nb[1] + 4,
              inplace=inplace)  # fmt: skip
    want = v.copy()
    want[1:3, 2:5, 1:6] = w if op == "set" else v[1:3, 2:5, 1:6] + w
    np.testing.assert_array_equal(lab.run(t), want)
    np.testing.assert_array_equal(x.numpy(), want if inplace else v)


def test_results_in_the_memory_of_a_source(lab: Lab) -> None:
    """The allocator gives results the memory of sources that end with them."""
    dy, x = values((3, 70), 1), values((3, 70), 2)
    ctx = lab.ctx
    apart = [ops.rms_norm_back(ctx, lab.tensor(dy), lab.tensor(x), 1e-5),
             ops.soft_max_back(ctx, lab.tensor(dy), lab.tensor(x), 1.0),
             ops.silu_back(ctx, lab.tensor(dy), lab.tensor(x))]  # fmt: skip
    wanted = [lab.run(t) for t in apart]
    for i in (0, 1):
        for make, want in zip(
            (lambda g, v: ops.rms_norm_back(ctx, g, v, 1e-5),
             lambda g, v: ops.soft_max_back(ctx, g, v, 1.0),
             lambda g, v: ops.silu_back(ctx, g, v)), wanted, strict=True,
        ):  # fmt: skip
            sources = (lab.tensor(dy), lab.tensor(x))
            t = make(*sources)
            t.buffer, t.data = sources[i].buffer, sources[i].data
            np.testing.assert_array_equal(lab.run(t), want)


# ---- nothing ----------------------------------------------------------------------------------


def test_operands_without_elements(lab: Lab) -> None:
    ctx = lab.ctx
    none, ints = ctx.new_tensor(Type.F32, (4, 0)), ctx.new_tensor(Type.I32, (0,))
    narrow = ctx.new_tensor(Type.F32, (3, 0))
    like = lab.tensor(np.ones((5, 4), np.float32))
    lab.place(none, ints, narrow)
    assert lab.run(ops.sum(ctx, none))[0] == 0
    assert lab.run(ops.count_equal(ctx, ints, ints))[0] == 0
    assert lab.run(ops.cumsum(ctx, none)).size == 0
    assert (lab.run(ops.repeat_back(ctx, none, (2, 1))) == 0).all()
    assert (lab.run(ops.get_rows_back(ctx, none, ints, like)) == 0).all()
    assert np.isnan(lab.run(ops.cross_entropy_loss(ctx, none, none))).all()
    assert (lab.run(ops.pad(ctx, none, (0, 2))) == 0).all()
    assert (lab.run(ops.out_prod(ctx, none, narrow)) == 0).all()
