"""Convolutions, pooling and recurrent layers: golden cases, and own ones against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conv_recurrent_cases import CASES, leaf
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from wgpu_lab import Lab, values

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.device import WgpuDevice
from wggml.core import ops
from wggml.core.opcodes import PoolOp
from wggml.core.types import Type
from wggml.hal.registry import default_registry
from wggml.testing.opcases import OpCase, iter_cases, run_case

ONE_IN = 12
FILES = (
    "IM2COL.*|COL2IM_1D|CONV_.*|POOL_.*|SSM_.*|RWKV_.*|GATED_.*|SOLVE_TRI|LIGHTNING_INDEXER|DSV4_.*"
)
relaxed = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Array = np.ndarray[Any, Any]


# ---- golden cases -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cases(shared_dir: Path) -> list[OpCase]:
    found = iter_cases(shared_dir / "oracle" / "ops", FILES, None)
    return [c for c in found if zlib.crc32(c.id.encode()) % ONE_IN == 0]


def test_sample_of_golden_cases(cases: list[OpCase], backend: WgpuBackend) -> None:
    results = [run_case(case, backend, runs=2) for case in cases]
    wrong = [f"{r.case}: {r.reason}" for r in results if r.status == "fail"]
    assert not wrong, "\n".join(wrong)
    assert sum(r.status == "pass" for r in results) > 25


# ---- own cases against NumPy --------------------------------------------------------------------


@pytest.fixture(scope="module")
def host() -> Any:
    """A laboratory on the NumPy backend."""
    lab = Lab(default_registry().find("cpu").init_backend())  # type: ignore[arg-type]
    yield lab
    lab.free()


def assert_agree(got: Array, want: Array, type_: Type) -> None:
    """Rounding of sums in another order, and one step of a 16-bit result."""
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert np.count_nonzero(want[finite]) * 16 > finite.size, "a degenerate right answer"
    step = {Type.F16: 1e-3, Type.BF16: 8e-3}.get(type_, 2e-5)
    atol = 2e-5 * float(np.abs(want[finite]).max())
    np.testing.assert_allclose(got[finite], want[finite], rtol=step, atol=atol)


def check(lab: Lab, host: Lab, name: str) -> None:
    mine, theirs = CASES[name](lab), CASES[name](host)
    assert_agree(lab.run(mine), host.run(theirs), mine.type)


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(lab: Lab, host: Lab, name: str) -> None:
    check(lab, host, name)


def masked(backend: WgpuBackend, words: str) -> Lab:
    device = backend.device
    assert isinstance(device, WgpuDevice)
    made = device.with_mask(words).init_backend()
    assert isinstance(made, WgpuBackend)
    return Lab(made)


@pytest.fixture(scope="module")
def as_hardware(first_backend: WgpuBackend) -> Any:
    """The variants that a GPU gets: larger workgroups, and states shared between lanes."""
    lab = masked(first_backend, "hardware")
    yield lab
    lab.free()


HARDWARE = ("conv_2d f16 kernel", "im2col f16 odd rows", "rwkv_wkv6 16", "gated_delta_net by key")


@pytest.mark.parametrize("name", [*(n for n in CASES if n.startswith("ssm")), *HARDWARE])
def test_variants_for_hardware(as_hardware: Lab, host: Lab, name: str) -> None:
    check(as_hardware, host, name)


@pytest.mark.parametrize("name", ["ssm_scan mamba 2", "rwkv_wkv7 16", "gated_delta_net by key"])
def test_the_same_without_subgroups(first_backend: WgpuBackend, host: Lab, name: str) -> None:
    plain = masked(first_backend, "no-subgroups")
    check(plain, host, name)
    plain.free()


@pytest.mark.parametrize("name", ["conv_2d", "conv_3d f16 kernel", "conv_transpose_2d"])
def test_both_ways_to_read(first_backend: WgpuBackend, host: Lab, name: str) -> None:
    """Through textures where those are faster, and from buffers."""
    for words, through in (("texels", True), ("no-texels", False)):
        lab = masked(first_backend, words)
        shaders = [d["shader"] for d in lab.backend.plan(lab.graph(CASES[name](lab))).describe()]
        assert (shaders[-1] == "conv/texel.wgsl") == through, shaders
        check(lab, host, name)
        lab.free()


def test_products_and_convolutions_share_scratch_textures(first_backend: WgpuBackend) -> None:
    """Convolutions write over the columns that a product left for the next one."""
    lab = masked(first_backend, "texels")
    x, w = values((3, 512), 1), values((1024, 512), 2)
    columns, rows = lab.tensor(x), lab.tensor(w)
    first = ops.mul_mat(lab.ctx, rows, columns)
    between = [CASES[name](lab) for name in ("conv_2d", "conv_3d", "conv_2d f16 kernel")]
    last = ops.mul_mat(lab.ctx, rows, columns)
    lab.backend.graph_compute(lab.graph(first, *between, last))
    np.testing.assert_allclose(first.numpy(), x @ w.T, atol=1e-3)
    np.testing.assert_array_equal(last.numpy(), first.numpy())
    lab.free()


_OTHER_WIDTH = """
import sys
sys.path.insert(0, {here!r})
from test_conv_recurrent import check
from wgpu_lab import Lab
from wggml.hal.registry import default_registry
backend = default_registry().find("lavapipe").init_backend()
assert backend.device.profile.subgroup_size == {size}, backend.device.profile
host = Lab(default_registry().find("cpu").init_backend())
for name in ("ssm_scan mamba 1", "ssm_scan mamba 2", "rwkv_wkv6 16", "gated_delta_net by key"):
    check(Lab(backend), host, name)
"""


@pytest.mark.parametrize("bits", [128, 512])
def test_other_subgroup_sizes(backend: WgpuBackend, bits: int) -> None:
    """Drivers fix the width when they load: in a process of its own."""
    if "lavapipe" not in backend.device.description:
        pytest.skip("only lavapipe has a choice of widths")
    code = _OTHER_WIDTH.format(here=str(Path(__file__).parent), size=bits // 32)
    env = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": str(bits)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


# ---- properties ---------------------------------------------------------------------------------


@st.composite
def geometry(draw: Any) -> dict[str, tuple[int, ...]]:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    return {
        "kernel": draw(st.tuples(st.integers(1, 4), st.integers(1, 4))),
        "image": draw(st.tuples(st.integers(1, 9), st.integers(1, 9))),
        "channels": draw(st.tuples(st.integers(1, 4), st.integers(1, 9))),
        "stride": draw(pair),
        "dilation": draw(pair),
        "padding": draw(st.tuples(st.integers(0, 4), st.integers(0, 4))),
    }


@relaxed
@given(g=geometry(), op=st.sampled_from(["conv_2d", "depthwise", "im2col", "im2col_back"]))
def test_windows_of_any_geometry(
    one_lab: Lab, host: Lab, g: dict[str, tuple[int, ...]], op: str
) -> None:
    (kw, kh), (w, h), (c, out) = g["kernel"], g["image"], g["channels"]
    how: dict[str, Any] = {k: g[k] for k in ("stride", "padding", "dilation")}
    for n, k, p, d in zip((w, h), (kw, kh), how["padding"], how["dilation"], strict=True):
        assume(n + 2 * p >= d * (k - 1) + 1)

    def build(lab: Lab) -> Any:
        lab.ctx.reset()
        ctx, x = lab.ctx, leaf(lab, (w, h, c, 2), 1)
        if op == "conv_2d":
            return ops.conv_2d_direct(ctx, leaf(lab, (kw, kh, c, out), 2), x, **how)
        if op == "depthwise":
            return ops.conv_2d_dw_direct(ctx, leaf(lab, (kw, kh, 1, c), 2), x, **how)
        columns = ops.im2col(ctx, leaf(lab, (kw, kh, c, out), 2), x, type_=Type.F32, **how)
        if op == "im2col":
            return columns
        kernel = leaf(lab, (kw, kh, c, out), 2)
        return ops.im2col_back(ctx, leaf(lab, columns.ne, 3), kernel, x.ne, **how)

    got, want = one_lab.run(build(one_lab)), host.run(build(host))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)


# ---- limits -------------------------------------------------------------------------------------


def test_more_workgroups_than_one_dimension_holds(one_lab: Lab) -> None:
    n = 65537 * 64  # elements, 64 lanes a workgroup
    v = values((n,), 1)
    got = one_lab.run(ops.pool_1d(one_lab.ctx, one_lab.tensor(v), PoolOp.MAX, 2, 1))
    np.testing.assert_array_equal(got.reshape(-1), np.maximum(v[:-1], v[1:]))


def test_triangular_systems_past_one_dimension(one_lab: Lab) -> None:
    n = 65536 * 16 + 5  # columns, 16 lanes a workgroup
    b = values((2, n), 1)
    a = np.array([[2.0, 9.0], [3.0, 4.0]], np.float32)  # what lies above the diagonal is not read
    got = one_lab.run(ops.solve_tri(one_lab.ctx, one_lab.tensor(a), one_lab.tensor(b)))
    first = b[0] / 2
    want = np.stack([first, (b[1] - 3 * first) / 4])
    np.testing.assert_allclose(got.reshape(2, n), want, rtol=1e-5, atol=1e-6)


def test_a_window_without_values(lab: Lab) -> None:
    """Average pooling divides by no less than one; the largest of nothing is the lowest float."""
    x = lab.tensor(np.ones((1, 2), np.float32))
    largest = lab.run(ops.pool_1d(lab.ctx, x, PoolOp.MAX, 1, 2, 2)).reshape(-1)
    average = lab.run(ops.pool_1d(lab.ctx, x, PoolOp.AVG, 1, 2, 2)).reshape(-1)
    low = np.finfo(np.float32).min
    np.testing.assert_allclose(largest, [low, 1.0, low], rtol=1e-6)
    np.testing.assert_array_equal(average, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("heads", [1, 3])
def test_states_beyond_the_first_token_are_left_alone(lab: Lab, heads: int) -> None:
    """With fewer tokens than slots only the slots of those tokens are written."""
    size = 16
    rows = [lab.tensor(values((1, 1, heads, size), i)) for i in range(3)]
    gate, beta = lab.tensor(np.zeros((1, 1, heads, 1))), lab.tensor(np.ones((1, 1, heads, 1)))
    state = lab.tensor(values((1, heads, size, size), 5))
    t = ops.gated_delta_net(lab.ctx, *rows, gate, beta, state, 3)
    graph = lab.graph(t)
    marks = np.full(t.ne[::-1], 7.0, np.float32)
    t.set(marks)
    lab.backend.graph_compute(graph)
    got = t.numpy().reshape(-1)
    written = size * heads * (1 + size)
    assert (got[written:] == 7.0).all()
    assert (got[:written] != 7.0).all()
