"""Matrix products: every type and kernel against f64, layouts, windows, golden cases."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mm_lab import PLAIN, assert_close, magnitude, product, weights
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.device import WgpuDevice
from wggml.backends.wgpu.ops._mm_variants import ENV_VARIANT, VARIANTS
from wggml.backends.wgpu.packing import FIELDS
from wggml.core import ops
from wggml.core.types import Type, type_name
from wggml.errors import UsageError
from wggml.testing.opcases import OpCase, iter_cases, run_case

ALL_TYPES = [*PLAIN, *FIELDS]
# On the slower compilers a selection: each way of reading codes once.
FEW_TYPES = [Type.F32, Type.F16, Type.Q4_1, Type.Q5_0, Type.Q8_0, Type.Q6_K]
relaxed = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def name_of(t: Any) -> str:
    return type_name(t) if isinstance(t, Type) else str(t)


def windowed(backend: WgpuBackend, mask: str) -> WgpuBackend:
    device = backend.device
    assert isinstance(device, WgpuDevice)
    made = device.with_mask(mask).init_backend()
    assert isinstance(made, WgpuBackend)
    return made


# ---- every type ---------------------------------------------------------------------------------


PLACES = ("device", "packed", "file")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_every_type(backend: WgpuBackend, type_: Type, place: str) -> None:
    """One column and eleven, rows that no workgroup divides, activations past f16's range; weights
    where the device likes them, packed in buffers, and in the file's layout."""
    profile = backend.device.profile
    main = "lavapipe" in backend.device.description
    if not main and (type_ not in FEW_TYPES or place != "device"):
        pytest.skip("this type and place are tested on lavapipe")
    if place == "packed" and (type_ in PLAIN or not profile.texel_reads):
        pytest.skip("no place of its own for this type here")
    lab = Lab(windowed(backend, "no-texels") if place == "packed" else backend)
    w, exact = weights(lab, type_, (512, 69), int(type_), packed=place != "file")
    x = values((11, 512), int(type_)).astype(np.float32)
    x[3] *= 1e5
    for n in (1, 11):
        got = product(lab, w, lab.tensor(x[-n:]))
        terms = magnitude(exact, x[-n:].astype(np.float64))
        assert_close(got, x[-n:].astype(np.float64) @ exact.T, terms)
    lab.free()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("type_", [Type.F32, Type.F16, Type.Q4_1, Type.Q4_K], ids=name_of)
def test_every_kernel(
    one_lab: Lab, type_: Type, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_VARIANT, variant)
    w, exact = weights(one_lab, type_, (256, 70, 2), 5)
    x = values((2, 67, 256), 6)
    x[:, 1] *= 1e5
    for n in (1, 3, 67):
        got = product(one_lab, w, one_lab.tensor(x[:, :n]))
        for i in range(2):
            wide = x[i, :n].astype(np.float64)
            assert_close(got[i], wide @ exact[i].T, magnitude(exact[i], wide))
    used = {d.pipeline.key.shader for p in one_lab.backend.plans for d in p.dispatches}
    assert f"mul_mat/{variant.split('-')[0]}.wgsl" in used


@pytest.mark.parametrize("type_", [t for t in ALL_TYPES if t not in PLAIN], ids=name_of)
def test_block_types_in_gpu_kernels_and_look_ups(
    one_lab: Lab, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that take chunks of a row in any order."""
    w, exact = weights(one_lab, type_, (512, 19), int(type_))
    x = values((9, 512), 7)
    wide = x.astype(np.float64)
    for variant, n in (("group", 1), ("tile", 9)):
        monkeypatch.setenv(ENV_VARIANT, variant)
        got = product(one_lab, w, one_lab.tensor(x[:n]))
        assert_close(got, wide[:n] @ exact.T, magnitude(exact, wide[:n]))
    rows = one_lab.tensor(np.array([18, 0, 7], np.int32), Type.I32)
    got = one_lab.run(ops.get_rows(one_lab.ctx, w, rows))
    np.testing.assert_allclose(got, exact[[18, 0, 7]], rtol=2e-6, atol=1e-7)


def test_unknown_kernel_is_refused(one_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_VARIANT, "fast")
    w, _ = weights(one_lab, Type.F32, (8, 4))
    with pytest.raises(UsageError, match="known variants: rows, rows-direct, group"):
        product(one_lab, w, one_lab.tensor(values((1, 8))))


# ---- layouts ------------------------------------------------------------------------------------


@relaxed
@given(data=st.data())
def test_broadcasts_and_strides(one_lab: Lab, data: st.DataObject) -> None:
    """f32 and f16 operands of any length, weights shared between matrices, permuted and cut."""
    draw = data.draw
    k, m, n = draw(st.integers(1, 75)), draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 9]))
    p, q, r2, r3 = (draw(st.integers(1, 3)) for _ in range(4))
    w_type, x_type = draw(st.sampled_from(PLAIN)), draw(st.sampled_from([Type.F32, Type.F16]))
    gap = draw(st.sampled_from([0, 0, 1, 4, 8]))
    permuted, x_permuted = draw(st.booleans()), draw(st.booleans())
    ctx = one_lab.ctx
    if permuted:  # the layout of a KV cache: positions outside heads
        w, exact = weights(one_lab, w_type, (k + gap, p, m, q), k, m)
        w, exact = ops.permute(ctx, w, 0, 2, 1, 3), exact.transpose(0, 2, 1, 3)
    else:
        w, exact = weights(one_lab, w_type, (k + gap, m, p, q), k, m)
    if gap:
        w = ops.view(ctx, w, (k, m, p, q), w.nb[1:])
    xs = values((q * r3, p * r2, n, k), k, n).astype(np.float16).astype(np.float32)
    if x_permuted:
        x = one_lab.tensor(xs.transpose(0, 2, 1, 3).copy(), x_type)
        x = ops.permute(ctx, x, 0, 2, 1, 3)
    else:
        x = one_lab.tensor(xs, x_type)
    got = one_lab.run(ops.mul_mat(ctx, w, x)).reshape(q * r3, p * r2, n, m)
    for i3 in range(q * r3):
        for i2 in range(p * r2):
            a, b = exact[i3 // r3, i2 // r2, :, :k], xs[i3, i2].astype(np.float64)
            assert_close(got[i3, i2], b @ a.T, magnitude(a, b))


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "file"])
@pytest.mark.parametrize("type_", [Type.Q4_0, Type.Q8_0, Type.Q4_K], ids=name_of)
def test_views_of_block_weights(one_lab: Lab, type_: Type, packed: bool) -> None:
    """Rows from an odd one on, half of each row, one matrix of several."""
    w, exact = weights(one_lab, type_, (512, 13, 3), 9, packed=packed)
    x = values((2, 512), 10)
    wide = x.astype(np.float64)
    ctx = one_lab.ctx
    rows = ops.view(ctx, w, (512, 5), w.nb[1:2], 3 * w.nb[1] + w.nb[2])
    assert_close(product(one_lab, rows, one_lab.tensor(x)), wide @ exact[1, 3:8].T)
    half = ops.view(ctx, w, (256, 13), w.nb[1:2], 2 * w.nb[2] + w.nb[1] // 2)
    got = product(one_lab, half, one_lab.tensor(x[:, :256].copy()))
    assert_close(got, wide[:, :256] @ exact[2, :, 256:].T)


@pytest.mark.parametrize("variant", ["rows", "group", "tile"])
def test_columns_do_not_depend_on_how_many_there_are(
    one_lab: Lab, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_VARIANT, variant)
    w, exact = weights(one_lab, Type.Q8_0, (576, 96), 3)
    x = values((128, 576), 4)
    want = x.astype(np.float64) @ exact.T
    for n in (1, 2, 7, 8, 16, 32, 128):
        got = product(one_lab, w, one_lab.tensor(x[:n]))
        assert_close(got, want[:n])


@pytest.mark.parametrize("variant", ["rows", "rows-direct", "group", "group-shared"])
def test_long_rows(one_lab: Lab, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_VARIANT, variant)
    for k in (32, 1536, 16384):
        w, exact = weights(one_lab, Type.F16, (k, 9), k)
        x = values((1, k), k)
        wide = x.astype(np.float64)
        got = product(one_lab, w, one_lab.tensor(x))
        assert_close(got, wide @ exact.T, magnitude(exact, wide))


def test_more_workgroups_than_one_dimension_holds(one_lab: Lab) -> None:
    """70000 matrices of one row."""
    ws, xs = values((70000, 1, 4), 1), values((70000, 1, 4), 2)
    got = product(one_lab, one_lab.tensor(ws), one_lab.tensor(xs))
    assert_close(got, (ws.astype(np.float64) * xs).sum(-1, keepdims=True))


# ---- windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "file"])
@pytest.mark.parametrize("type_", [Type.F16, Type.Q8_0, Type.Q6_K], ids=name_of)
def test_weights_beyond_one_binding(first_backend: WgpuBackend, type_: Type, packed: bool) -> None:
    lab = Lab(windowed(first_backend, "binding=64K,no-texels"))
    w, exact = weights(lab, type_, (1024, 301), 3, packed=packed)
    x = values((3, 1024), 4)
    y = ops.mul_mat(lab.ctx, w, lab.tensor(x))
    assert lab.backend.device.why_not(y) is None
    graph = lab.graph(y)
    lab.backend.graph_compute(graph)
    wide = x.astype(np.float64)
    assert_close(y.numpy(), wide @ exact.T, magnitude(exact, wide))
    plan = lab.backend.plan(graph)
    assert len(plan.dispatches) > 1
    assert all(s.nbytes <= 65536 for d in plan.dispatches for s in d.slots)
    lab.free()


def test_results_and_batches_beyond_one_binding(first_backend: WgpuBackend) -> None:
    lab = Lab(windowed(first_backend, "binding=64K,no-texels"))
    ws, xs = values((3, 300, 64), 1), values((6, 200, 64), 2)
    y = ops.mul_mat(lab.ctx, lab.tensor(ws), lab.tensor(xs))
    got = lab.run(y)
    for i in range(6):
        assert_close(got[i], xs[i].astype(np.float64) @ ws[i // 2].T.astype(np.float64))
    too_wide = ops.mul_mat(
        lab.ctx, lab.ctx.new_tensor(Type.F32, (20000, 2)), lab.ctx.new_tensor(Type.F32, (20000, 1))
    )
    assert "exceeds the 65536 bytes of one binding" in (lab.backend.device.why_not(too_wide) or "")
    lab.free()


def test_staged_columns_follow_what_is_written(one_lab: Lab) -> None:
    """Products of one tensor share its copy until something else writes to its memory."""
    ctx = one_lab.ctx
    ws, xs = values((4, 700, 256), 1), values((3, 256), 2)
    w = [one_lab.tensor(a) for a in ws]
    x = one_lab.tensor(xs)
    first, second = ops.mul_mat(ctx, w[0], x), ops.mul_mat(ctx, w[1], x)
    doubled = ops.scale(ctx, x, 2.0, inplace=True)
    third, fourth = ops.mul_mat(ctx, w[2], x), ops.mul_mat(ctx, w[3], doubled)
    graph = one_lab.graph(first, second, doubled, third, fourth)
    one_lab.backend.graph_compute(graph)
    wide = xs.astype(np.float64)
    for y, a, factor in zip((first, second, third, fourth), ws, (1, 1, 2, 2), strict=True):
        assert_close(y.numpy(), factor * wide @ a.astype(np.float64).T)
    if one_lab.backend.device.profile.texel_reads:
        plan = str(one_lab.backend.plan(graph))
        assert plan.count("columns to a texture") == 3


# ---- experts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["", "binding=64K,no-texels"], ids=["one binding", "windows"])
@pytest.mark.parametrize("variant", ["rows", "rows-direct", "group", "tile"])
def test_experts(
    first_backend: WgpuBackend, variant: str, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_VARIANT, variant)
    lab = Lab(windowed(first_backend, mask) if mask else first_backend)
    w, exact = weights(lab, Type.Q8_0, (256, 70, 7), 3)
    ids = rng(5).permuted(np.tile(np.arange(7), (5, 1)), axis=1)[:, :3].astype(np.int32)
    for slots in (1, 3):
        x = values((5, slots, 256), slots)
        y = ops.mul_mat_id(lab.ctx, w, lab.tensor(x), lab.tensor(ids, Type.I32))
        got = lab.run(y)
        for token in range(5):
            for slot in range(3):
                want = exact[ids[token, slot]] @ x[token, slot % slots].astype(np.float64)
                assert_close(got[token, slot], want)
    lab.free()


# ---- golden cases -------------------------------------------------------------------------------


def selected(case: OpCase, one_in: int) -> bool:
    types = {t.type for t in case.tensors}
    known = types <= {*ALL_TYPES, Type.I32}
    return known and zlib.crc32(case.id.encode()) % one_in == 0


def judge(cases: list[OpCase], backend: WgpuBackend) -> int:
    passed, failed = 0, []
    for case in cases:
        for in_weights in (True, False):
            result = run_case(case, backend, weights_buffer=in_weights, runs=2)
            passed += result.status == "pass"
            if result.status != "pass":
                failed.append(f"{case} weights={in_weights}: {result.reason}")
    assert not failed, "\n".join(failed)
    return passed


def test_committed_golden_cases(data_dir: Path, lab: Lab) -> None:
    files = data_dir / "ops"
    cases = [c for c in iter_cases(files, "MUL_MAT|MUL_MAT_ID") if selected(c, 1)]
    assert judge(cases, lab.backend) >= 8


def test_golden_cases(shared_dir: Path, first_backend: WgpuBackend) -> None:
    files = shared_dir / "oracle" / "ops"
    cases = [c for c in iter_cases(files, "MUL_MAT|MUL_MAT_ID") if selected(c, 4)]
    assert judge(cases, first_backend) >= 50


# ---- subgroup sizes -----------------------------------------------------------------------------

SUBGROUP_SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from mm_lab import assert_close, product, weights
from wgpu_lab import Lab, values
from wggml.core.types import Type
from wggml.hal.registry import default_registry
device = default_registry().find("lavapipe")
assert device.profile.subgroup_size == {size}, device.profile
lab = Lab(device.init_backend())
for type_ in (Type.F16, Type.Q4_1):
    w, exact = weights(lab, type_, (576, 70), 1)
    x = values((3, 576), 2)
    for n in (1, 3):
        assert_close(product(lab, w, lab.tensor(x[:n])), x[:n].astype(np.float64) @ exact.T)
"""


@pytest.mark.parametrize("variant", ["rows", "group"])
@pytest.mark.parametrize("size", [4, 16])
def test_subgroup_sizes(first_backend: WgpuBackend, size: int, variant: str) -> None:
    """lavapipe with other vector widths, which it reads when it is loaded: a process of its own."""
    if "lavapipe" not in first_backend.device.description:
        pytest.skip("only lavapipe lets its subgroup size be chosen")
    env = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": str(size * 32), ENV_VARIANT: variant}
    script = SUBGROUP_SCRIPT.format(here=str(Path(__file__).parent), size=size)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
