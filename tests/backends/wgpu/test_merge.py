"""Independent nodes in one dispatch: what may be joined, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu import merge
from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.builder import PlanBuilder, Request
from wggml.backends.wgpu.optimize import gather
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import BufferUsage


def requests(lab: Lab, *results: Tensor) -> list[Request]:
    graph = lab.graph(*results)
    b = PlanBuilder(lab.backend.device)
    from wggml.backends.wgpu.ops import op_table

    for t in b.nodes([t for t in graph.nodes if t.op not in VIEW_OPS]):
        op_table()[t.op].emit(b, t)
    return b.requests


def run_both(lab: Lab, *results: Tensor) -> tuple[list[Any], list[Any], int, int]:
    """Results and dispatch counts, joined and apart."""
    graph = lab.graph(*results)
    out = []
    for fusion in (True, False):
        b = WgpuBackend(lab.backend.device, fusion=fusion)
        b.graph_compute(graph)
        out.append(([t.numpy() for t in results], b.counters.dispatches))
    return out[0][0], out[1][0], out[0][1], out[1][1]


def test_projections_of_one_input_share_a_dispatch(lab: Lab) -> None:
    x = lab.tensor(values((1, 64), 1))
    ws = [lab.tensor(values((n, 64), n), weights=True) for n in (64, 24, 24)]
    joined, apart, n, m = run_both(lab, *(ops.mul_mat(lab.ctx, w, x) for w in ws))
    for a, b in zip(joined, apart, strict=True):
        np.testing.assert_array_equal(a, b)
    assert n < m


def test_kernels_of_different_kind_share_a_dispatch(lab: Lab) -> None:
    """Rotation, row writes and arithmetic of one depth: other parameters, types and grids each."""
    ctx = lab.ctx
    q, v = lab.tensor(values((3, 4, 32), 1)), lab.tensor(values((3, 128), 2))
    pos = lab.tensor(np.array([5, 6, 7], np.int32), Type.I32)
    cache = lab.tensor(np.zeros((9, 128), np.float32), Type.F16)
    ids = lab.tensor(np.array([8, 1, 4], np.int64), Type.I64)
    results = (
        ops.rope(ctx, q, pos, ops.RopeParams(n_dims=32)),
        ops.set_rows(ctx, cache, v, ids),
        ops.sqr(ctx, v),
    )
    joined, apart, n, m = run_both(lab, *results)
    for a, b in zip(joined, apart, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (n, m) == (1, 3)


def test_dependent_and_conflicting_requests_keep_their_order(one_lab: Lab) -> None:
    x, y = one_lab.tensor(values((8,), 1)), one_lab.tensor(values((8,), 2))
    a = ops.sqr(one_lab.ctx, x)  # depth 0
    b = ops.sqr(one_lab.ctx, y)  # depth 0
    c = ops.add(one_lab.ctx, a, b)  # reads both: 1
    d = ops.scale(one_lab.ctx, y, 2.0)
    d.buffer, d.data = x.buffer, x.data  # writes what a reads: 1
    e = ops.neg(one_lab.ctx, d)  # 2
    found = requests(one_lab, c, e)
    by_node = dict(zip([r.node.split()[0] for r in found], merge.depths(found), strict=True))
    assert by_node == {"SQR": 0, "ADD": 1, "SCALE": 1, "UNARY": 2}


def test_joining_respects_the_number_of_bindings(first_backend: WgpuBackend) -> None:
    lab = Lab(first_backend.device.with_mask("storage-buffers=4").init_backend())  # type: ignore[arg-type]
    pairs = [(lab.tensor(values((8,), i)), lab.tensor(values((8,), 9 + i))) for i in range(3)]
    joined, apart, n, m = run_both(lab, *(ops.add(lab.ctx, a, b) for a, b in pairs))
    for a, b in zip(joined, apart, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (n, m) == (3, 3)
    lab.free()


def test_workgroup_memory_and_barriers_survive_joining(lab: Lab) -> None:
    rows = [lab.tensor(values((5, n), n)) for n in (7, 64, 1000)]
    joined, apart, n, m = run_both(lab, *(ops.soft_max(lab.ctx, x) for x in rows))
    for a, b in zip(joined, apart, strict=True):
        np.testing.assert_array_equal(a, b)
    assert m == 3 and n <= 3


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 14), slots=st.integers(2, 5))
def test_random_graphs_in_reused_memory(one_lab: Lab, seed: int, n: int, slots: int) -> None:
    """Nodes write into a few places over and over: joining must respect every reuse."""
    ctx, r = one_lab.ctx, rng(seed)
    ctx.reset()
    pool = one_lab.buffer(slots * 1024, BufferUsage.COMPUTE)
    start = [one_lab.tensor(values((16,), seed, i)) for i in range(3)]

    def build() -> tuple[Graph, list[Tensor]]:
        live: dict[int, Tensor] = {}
        made: list[Tensor] = []
        choice = rng(seed, 1)
        for _ in range(n):
            sources = [*start, *live.values()]
            a, b = (sources[choice.integers(len(sources))] for _ in range(2))
            f = [ops.add, ops.mul, ops.sub][choice.integers(3)]
            t = f(ctx, a, b)
            place = int(choice.integers(slots))
            t.buffer, t.data = pool, place * 1024
            live = {k: v for k, v in live.items() if k != place}
            live[place] = t
            made.append(t)
        graph = Graph(64)
        for t in made:  # in this order, whatever reads them
            graph.build_forward_expand(t)
        return graph, list(live.values())

    del r
    results = []
    for fusion in (True, False):
        pool.clear(0)
        graph, last = build()
        WgpuBackend(one_lab.backend.device, fusion=fusion).graph_compute(graph)
        results.append([t.numpy() for t in last])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- gathering, without a GPU -------------------------------------------------------------------


def attention_inputs(ctx: Context) -> tuple[Graph, dict[str, Tensor]]:
    """k, v, then q, as a model writes them: each rotated or stored before the next begins."""
    x = ctx.new_tensor(Type.F32, (64, 1), name="x")
    ids = ctx.new_tensor(Type.I64, (1,), name="ids")
    pos = ctx.new_tensor(Type.I32, (1,), name="pos")
    graph = Graph(64)
    named: dict[str, Tensor] = {}
    for who in ("k", "v", "q"):
        w = ctx.new_tensor(Type.F32, (64, 64), name=f"w{who}")
        named[who] = ops.mul_mat(ctx, w, x).set_name(who)
        t = ops.reshape(ctx, named[who], (16, 4, 1))
        if who != "v":
            t = ops.rope(ctx, t, pos, ops.RopeParams(n_dims=16)).set_name(f"{who} turned")
        if who != "q":
            cache = ctx.new_tensor(Type.F32, (64, 8), name=f"{who} cache")
            rows = ops.reshape(ctx, t, (64, 1))
            t = ops.set_rows(ctx, cache, rows, ids).set_name(f"{who} stored")
        graph.build_forward_expand(t)
    return graph, named


def test_independent_projections_are_brought_together() -> None:
    graph, named = attention_inputs(Context())
    before = list(graph.nodes)
    kept: list[tuple[str, str]] = []
    gather(graph, lambda t, until: kept.append((t.name, until.name)))
    real = [t.name for t in graph.nodes if t.op not in VIEW_OPS]
    assert real[:3] == ["k", "v", "q"]
    assert set(real[3:6]) == {"k turned", "q turned", "v stored"} and real[6] == "k stored"
    assert set(graph.nodes) == set(before) and len(graph.nodes) == len(before)
    assert ("x", "q") in kept
    seen: set[Tensor] = set()
    for t in graph.nodes:
        assert all(s is None or s.op == Op.NONE or s in seen for s in t.src)
        seen.add(t)
    assert named["q"] in seen


def test_large_nodes_stay_in_place() -> None:
    ctx = Context()
    x = ctx.new_tensor(Type.F32, (64, 512))
    graph = Graph(16)
    for _ in range(3):
        w = ctx.new_tensor(Type.F32, (64, 64))
        graph.build_forward_expand(ops.sqr(ctx, ops.mul_mat(ctx, w, x)))
    before = [t for t in graph.nodes if t.op == Op.MUL_MAT]
    kept: list[Tensor] = []
    gather(graph, lambda t, until: kept.append(t))
    assert [t for t in graph.nodes if t.op == Op.MUL_MAT] == before
    assert [t.op for t in graph.nodes[:2]] == [Op.MUL_MAT, Op.SQR]


@pytest.mark.parametrize("first", [True, False])
def test_a_node_is_not_moved_across_a_write_it_reads(first: bool) -> None:
    """`b` reads the cache that SET_ROWS changes in between; it stays behind it (or before it)."""
    ctx = Context()
    cache = ctx.new_tensor(Type.F32, (8, 4), name="cache")
    rows = ctx.new_tensor(Type.F32, (8, 1))
    ids = ctx.new_tensor(Type.I64, (1,))
    a = ops.sqr(ctx, ctx.new_tensor(Type.F32, (8,))).set_name("a")
    write = ops.set_rows(ctx, cache, rows, ids).set_name("write")
    b = ops.scale(ctx, cache, 2.0).set_name("b")
    graph = Graph(16)
    for t in (a, b, write) if first else (a, write, b):
        graph.build_forward_expand(t)
    gather(graph, lambda t, until: None)
    names = [t.name for t in graph.nodes]
    assert (names.index("b") < names.index("write")) == first
