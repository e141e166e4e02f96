"""Plans: replaying, cutting, describing; how operands share bindings."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from wgpu_lab import Lab, values

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.encode import choose, prepare
from wggml.core import ops
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag
from wggml.core.tensor import Tensor
from wggml.errors import DeviceError, DeviceLostError, UsageError


def small_graph(lab: Lab) -> tuple[Graph, Tensor, Tensor]:
    x = lab.tensor(values((3, 64), 1))
    w = lab.tensor(values((64,), 2), weights=True)
    y = ops.add(lab.ctx, ops.mul(lab.ctx, ops.rms_norm(lab.ctx, x, 1e-5), w), x)
    return lab.graph(y), x, y


def test_replay_creates_nothing(lab: Lab) -> None:
    graph, x, y = small_graph(lab)
    b = lab.backend
    b.graph_compute(graph)
    y.numpy()
    before = b.counters.copy()
    for i in range(3):
        x.set(values((3, 64), 10 + i))
        b.graph_compute(graph)
        got = y.numpy()
        v = values((3, 64), 10 + i)
        scale = 1.0 / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(got, v * scale * values((64,), 2) + v, rtol=1e-5, atol=1e-5)
    after = b.counters
    for field in (
        "buffers_created", "bind_groups_created", "pipelines_created", "layouts_created",
        "plans_built",
    ):  # fmt: skip
        assert getattr(after, field) == getattr(before, field), field
    assert after.plans_replayed == before.plans_replayed + 3
    assert after.submits == before.submits + 3


def test_plan_is_rebuilt_when_a_buffer_was_freed(lab: Lab) -> None:
    graph, x, y = small_graph(lab)
    b = lab.backend
    b.graph_compute(graph)
    built = b.counters.plans_built
    assert x.buffer is not None
    x.buffer.free()
    lab.place(x)
    x.set(values((3, 64), 1))
    b.graph_compute(graph)
    assert b.counters.plans_built == built + 1
    assert np.isfinite(y.numpy()).all()


def test_nodes_without_compute_are_skipped(lab: Lab) -> None:
    x = lab.tensor(values((8,), 1))
    y, z = ops.sqr(lab.ctx, x), ops.scale(lab.ctx, x, 2.0)
    graph = Graph(16)
    graph.build_forward_select([y, z], 1)
    for t in (y, z):
        lab.place(t)
        t.set(np.zeros(8, np.float32))
    assert not y.flags & Flag.COMPUTE
    lab.backend.graph_compute(graph)
    assert not y.numpy().any()
    np.testing.assert_array_equal(z.numpy(), values((8,), 1) * 2)


@pytest.mark.parametrize("encode", ["public", "raw"])
@pytest.mark.parametrize("per_submit", [0, 1, 2])
def test_ways_to_record_agree(one_lab: Lab, encode: str, per_submit: int) -> None:
    device = one_lab.backend.device
    b = WgpuBackend(device, encode=encode, max_dispatches_per_submit=per_submit, fusion=False)
    graph, _, y = small_graph(one_lab)
    b.graph_compute(graph)
    got = y.numpy()
    one_lab.backend.graph_compute(graph)
    np.testing.assert_array_equal(got, y.numpy())
    assert b.counters.dispatches == 3
    assert b.counters.submits == {0: 1, 1: 3, 2: 2}[per_submit]


def test_fused_and_single_dispatches_agree(lab: Lab) -> None:
    fused = WgpuBackend(lab.backend.device, fusion=True)
    single = WgpuBackend(lab.backend.device, fusion=False)
    results = []
    for b in (fused, single):
        graph, _, y = small_graph(lab)
        b.graph_compute(graph)
        results.append(y.numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=1e-6)
    assert (fused.counters.dispatches, single.counters.dispatches) == (1, 3)


@pytest.mark.parametrize("n", [64, 33])
@pytest.mark.parametrize("in_place", ["no", "sum on a", "all"])
def test_sum_and_norm_in_one_dispatch(lab: Lab, n: int, in_place: str) -> None:
    """The residual sum is stored as well, since later nodes read it."""
    va, vc, vw = values((3, n), 1), values((3, n), 2), values((n,), 3)
    a, c, w = lab.tensor(va), lab.tensor(vc), lab.tensor(vw, weights=True)
    total = ops.add(lab.ctx, a, c)
    y = ops.mul(lab.ctx, ops.rms_norm(lab.ctx, total, 1e-5), w)
    z = ops.sub(lab.ctx, y, total) if in_place != "all" else ops.scale(lab.ctx, y, 1.0)
    if in_place != "no":
        total.buffer, total.data = a.buffer, a.data
    if in_place == "all":
        y.buffer, y.data = c.buffer, c.data
    before = lab.backend.counters.dispatches
    got = lab.run(z)
    assert lab.backend.counters.dispatches == before + 2
    s = va + vc
    want = s / np.sqrt((s * s).mean(axis=1, keepdims=True) + 1e-5) * vw
    np.testing.assert_allclose(got, want if in_place == "all" else want - s, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total.numpy(), s, rtol=1e-6)


def test_an_output_is_not_fused_away(lab: Lab) -> None:
    x = lab.tensor(values((2, 32), 1))
    w = lab.tensor(values((32,), 2))
    n = ops.rms_norm(lab.ctx, x, 1e-5).set_output()
    y = ops.mul(lab.ctx, n, w)
    got = lab.run(y)
    np.testing.assert_allclose(n.numpy() * values((32,), 2), got, rtol=1e-6)


def test_fusion_gives_way_to_memory_given_to_a_later_node(lab: Lab) -> None:
    """The product may lie where the norm's input was, shifted by a row: reading and writing in one
    dispatch would race."""
    x = lab.tensor(values((4, 64), 1))
    w = lab.tensor(values((64,), 2))
    n = ops.rms_norm(lab.ctx, x, 1e-5)
    y = ops.mul(lab.ctx, n, w)
    lab.place(n)
    buffer = lab.buffer(5 * 64 * 4)
    x.buffer, x.data = buffer, 0
    x.set(values((4, 64), 1))
    y.buffer, y.data = buffer, 64 * 4
    before = lab.backend.counters.dispatches
    got = lab.run(y)
    assert lab.backend.counters.dispatches == before + 2
    v = values((4, 64), 1)
    want = v / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-5) * values((64,), 2)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_plans_can_be_read(one_lab: Lab) -> None:
    graph, _, _ = small_graph(one_lab)
    plan = one_lab.backend.plan(graph)
    records = plan.describe()
    assert [r["shader"] for r in records] == ["norm/norm.wgsl"]
    assert "norm/norm.wgsl" in str(records) and "RMS_NORM" in str(plan)


def test_debug_switch_prints_plans(
    one_lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WGGML_BACKEND_DEBUG", "2")
    graph, _, _ = small_graph(one_lab)
    one_lab.backend.graph_compute(graph)
    text = capsys.readouterr().err
    assert "3 nodes" in text and "RMS_NORM" in text
    one_lab.backend.graph_compute(graph)
    assert not capsys.readouterr().err


def test_empty_tensors_and_graphs_run(lab: Lab) -> None:
    x = lab.tensor(np.zeros((4, 0), np.float32))
    y = ops.sqr(lab.ctx, x)
    assert lab.run(y).size == 0
    lab.backend.graph_compute(Graph(4))


@pytest.mark.parametrize("encode", ["public", "raw"])
def test_errors_of_the_gpu_api_are_raised(one_lab: Lab, encode: str) -> None:
    b = WgpuBackend(one_lab.backend.device, encode=encode)
    graph, _, _ = small_graph(one_lab)
    plan = b.plan(graph)
    plan.dispatches[0].groups = (70000, 1, 1)
    plan.recorder = prepare(plan.dispatches, choose(encode), 0)
    with pytest.raises(DeviceError, match=r"(?s)WGPU\d.*70000|65535"):
        b.graph_compute(graph)
        b.synchronize()


def test_what_the_driver_logs_later_is_raised(one_lab: Lab) -> None:
    wgpu_api = pytest.importorskip("wgpu.backends.wgpu_native._api")
    graph, _, y = small_graph(one_lab)
    one_lab.backend.graph_compute(graph)
    report = wgpu_api.error_handler.log_error
    logging.getLogger("wgpu").error("EGL 'eglInitialize' failed")  # said while looking for drivers
    one_lab.backend.synchronize()
    report("The WGPU device was lost (unknown):\nreset")
    with pytest.raises(DeviceLostError, match="reset"):
        one_lab.backend.synchronize()
    one_lab.backend.synchronize()
    report("Validation Error: something was wrong")
    with pytest.raises(DeviceError, match="something was wrong"):
        y.numpy()


def test_unknown_options_are_refused(first_backend: WgpuBackend) -> None:
    with pytest.raises(UsageError, match="no option"):
        first_backend.device.init_backend(speed="high")
    with pytest.raises(UsageError, match="public or raw"):
        WgpuBackend(first_backend.device, encode="fast")


# ---- aliasing ---------------------------------------------------------------------------------

A, B = values((5, 8), 1), values((5, 8), 2)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("pattern", ["none", "dst=a", "dst=b", "a=b", "all"])
def test_binary_ops_under_every_aliasing(lab: Lab, op: str, pattern: str) -> None:
    f = getattr(ops, op)
    a = lab.tensor(A)
    b = a if pattern in ("a=b", "all") else lab.tensor(B)
    t = f(lab.ctx, a, b)
    if pattern in ("dst=a", "all"):
        t.buffer, t.data = a.buffer, a.data
    if pattern == "dst=b":
        t.buffer, t.data = b.buffer, b.data
    rhs = A if b is a else B
    want = {"add": A + rhs, "sub": A - rhs, "mul": A * rhs, "div": A / rhs}[op]
    np.testing.assert_allclose(lab.run(t), want, rtol=1e-6)


def test_disjoint_parts_of_one_buffer(lab: Lab) -> None:
    """Operands and result packed into one buffer at the alignment's pitch."""
    a = lab.ctx.new_tensor(0, (8, 5))  # type: ignore[arg-type]
    b = lab.ctx.new_tensor(0, (8, 5))  # type: ignore[arg-type]
    t = ops.add(lab.ctx, a, b)
    lab.place(b, t, a)
    a.set(A)
    b.set(B)
    np.testing.assert_array_equal(lab.run(t), A + B)
