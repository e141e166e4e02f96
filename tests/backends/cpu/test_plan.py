"""Compiled plans: built once, replayed without making arrays, dropped when their memory ends."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from graphs import cpu, graph_of, place

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph, next_uid
from wggml.core.opcodes import Flag, GluOp, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError, UnsupportedOpError
from wggml.hal.interface import BufferUsage

D, HEADS, FF, KV = 64, 4, 512, 32


class Layer:
    """One transformer layer over a cache of `KV` positions, with weights of `type_`."""

    def __init__(self, type_: Type, n: int = 1) -> None:
        ctx = self.ctx = Context(128)
        width = D * HEADS

        def weight(name: str, k: int, m: int) -> Tensor:
            return ctx.new_tensor(type_, (k, m), name=name)

        wq, wk, wv, wo = (weight(f"w{i}", width, width) for i in range(4))
        gate, up, down = weight("g", width, FF), weight("u", width, FF), weight("d", FF, width)
        scale = ctx.new_tensor(Type.F32, (width,), name="scale")
        self.weights = list(ctx.tensors)
        place(self.weights, BufferUsage.WEIGHTS)

        self.x = ctx.new_tensor(Type.F32, (width, n), name="x")
        self.pos = ctx.new_tensor(Type.I32, (n,), name="pos")
        self.ids = ctx.new_tensor(Type.I64, (n,), name="ids")
        self.mask = ctx.new_tensor(Type.F16, (KV, n), name="mask")
        k_cache = ctx.new_tensor(Type.F16, (width, KV), name="k")
        v_cache = ctx.new_tensor(Type.F16, (width, KV), name="v")
        self.caches = [k_cache, v_cache]

        params = ops.RopeParams(n_dims=D)
        h = ops.mul(ctx, ops.rms_norm(ctx, self.x, 1e-5), scale)
        q = ops.rope(
            ctx, ops.reshape(ctx, ops.mul_mat(ctx, wq, h), (D, HEADS, n)), self.pos, params
        )
        k = ops.rope(
            ctx, ops.reshape(ctx, ops.mul_mat(ctx, wk, h), (D, HEADS, n)), self.pos, params
        )
        self.writes = [
            ops.set_rows(ctx, k_cache, ops.reshape(ctx, k, (width, n)), self.ids),
            ops.set_rows(ctx, v_cache, ops.mul_mat(ctx, wv, h), self.ids),
        ]
        views = [
            ops.permute(ctx, ops.view(ctx, c, (D, HEADS, KV), (2 * D, 2 * width)), 0, 2, 1, 3)
            for c in self.caches
        ]
        attended = ops.flash_attn_ext(
            ctx, ops.permute(ctx, q, 0, 2, 1, 3), views[0], views[1], self.mask, D**-0.5
        )
        x = ops.add(ctx, ops.mul_mat(ctx, wo, ops.reshape(ctx, attended, (width, n))), self.x)
        h = ops.mul(ctx, ops.rms_norm(ctx, x, 1e-5), scale)
        ff = ops.glu_split(ctx, ops.mul_mat(ctx, gate, h), ops.mul_mat(ctx, up, h), GluOp.SWIGLU)
        self.out = ops.add(ctx, ops.mul_mat(ctx, down, ff), x)
        self.buffer = place(ctx.tensors)
        rng = np.random.default_rng(0)
        for w in self.weights:
            w.set(0.1 * rng.standard_normal(w.n_elements).astype(np.float32))
        for c in self.caches:
            c.set(np.zeros(c.n_elements, np.float16))
        self.graph = graph_of(*self.writes, self.out, uid=True)

    def step(self, at: int, values: np.ndarray) -> None:
        n = self.x.ne[1]
        self.x.set(values)
        positions = np.arange(at, at + n)
        self.pos.set(positions.astype(np.int32))
        self.ids.set(positions)
        mask = np.full((n, KV), -np.inf, np.float16)
        for i in range(n):
            mask[i, : at + i + 1] = 0
        self.mask.set(mask)


def test_a_known_uid_is_replayed_and_nothing_is_made() -> None:
    backend = cpu()
    layer = Layer(Type.Q8_0)
    rng = np.random.default_rng(5)
    tokens = rng.standard_normal((20, layer.x.ne[0])).astype(np.float32)
    layer.step(0, tokens[0])
    backend.graph_compute(layer.graph)
    made = backend.arrays_created
    smallest_weight = min(w.n_elements * 4 for w in layer.weights if w.n_elements > D * HEADS)
    for at in range(1, 20):
        layer.step(at, tokens[at])
        tracemalloc.start()
        backend.graph_compute(layer.graph)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < smallest_weight / 8
    assert (backend.counters.plans_built, backend.counters.plans_replayed) == (1, 19)
    assert backend.arrays_created == made


def test_replay_matches_a_fresh_run_and_the_prompt_matches_its_tokens() -> None:
    n = 6
    rng = np.random.default_rng(6)
    tokens = rng.standard_normal((n, D * HEADS)).astype(np.float32)
    prompt = Layer(Type.F16, n)
    prompt.step(0, tokens)
    cpu().graph_compute(prompt.graph)
    one = Layer(Type.F16)
    backend = cpu()
    for at in range(n):
        one.step(at, tokens[at])
        backend.graph_compute(one.graph)
        np.testing.assert_allclose(
            one.out.numpy().reshape(-1), prompt.out.numpy()[at], rtol=1e-4, atol=1e-4
        )
    assert backend.counters.plans_replayed == n - 1


def test_uid_zero_is_never_remembered() -> None:
    backend = cpu()
    layer = Layer(Type.F32)
    layer.graph.uid = 0
    layer.step(0, np.ones(layer.x.n_elements, np.float32))
    for _ in range(3):
        backend.graph_compute(layer.graph)
    assert (backend.counters.plans_built, backend.counters.plans_replayed) == (3, 0)


def test_scratch_is_shared_between_plans() -> None:
    backend = cpu()
    layer = Layer(Type.Q8_0, 4)
    layer.step(0, np.ones((4, layer.x.ne[0]), np.float32))
    backend.graph_compute(layer.graph)
    held = backend.pool.nbytes
    for _ in range(5):
        layer.graph.uid = next_uid()
        backend.graph_compute(layer.graph)
    assert backend.pool.nbytes == held


def test_a_freed_buffer_ends_its_plans() -> None:
    backend = cpu()
    layer = Layer(Type.F32)
    layer.step(0, np.ones(layer.x.n_elements, np.float32))
    backend.graph_compute(layer.graph)
    layer.buffer.free()
    with pytest.raises((UnsupportedOpError, TypeError, ValueError)):
        backend.graph_compute(layer.graph)
    assert backend.counters.plans_replayed == 0


def _three_adds() -> tuple[Context, Tensor, list[Tensor]]:
    ctx = Context(16)
    a = ctx.new_tensor(Type.F32, (4,), name="a")
    nodes = [ops.add(ctx, a, a)]
    nodes.append(ops.add(ctx, nodes[0], a))
    nodes.append(ops.add(ctx, nodes[1], a))
    place(ctx.tensors)
    a.set(np.ones(4, np.float32))
    return ctx, a, nodes


def test_nodes_without_compute_are_skipped() -> None:
    _, _, nodes = _three_adds()
    graph = graph_of(nodes[-1])
    cpu().graph_compute(graph)
    nodes[0].set(np.full(4, 10, np.float32))
    nodes[0].flags &= ~Flag.COMPUTE
    backend = cpu()
    backend.graph_compute(graph)
    np.testing.assert_array_equal(nodes[2].numpy(), np.full(4, 12))
    assert backend.counters.nodes == 2


def test_select_computes_one_head_only() -> None:
    ctx = Context(16)
    a = ctx.new_tensor(Type.F32, (4,), name="a")
    heads = [ops.scale(ctx, a, 2.0), ops.scale(ctx, a, 3.0)]
    graph = Graph(16)
    chosen = graph.build_forward_select(heads, 1)
    place(ctx.tensors)
    a.set(np.ones(4, np.float32))
    heads[0].set(np.zeros(4, np.float32))
    cpu().graph_compute(graph)
    np.testing.assert_array_equal(chosen.numpy(), np.full(4, 3))
    np.testing.assert_array_equal(heads[0].numpy(), np.zeros(4))


def test_an_op_without_kernel_is_named() -> None:
    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, (4,))
    t = ops.add(ctx, a, a)
    t.op = Op.MAP_CUSTOM1
    t.set_name("mine")
    place(ctx.tensors)
    backend = cpu()
    assert backend.device.why_not(t) == "no kernel for MAP_CUSTOM1"
    with pytest.raises(UnsupportedOpError, match="'mine': no kernel for MAP_CUSTOM1"):
        backend.graph_compute(graph_of(t))


@pytest.mark.parametrize("row", [-1, 5, 2**31 - 1])
def test_row_numbers_outside_are_an_error(row: int) -> None:
    ctx = Context(8)
    table = ctx.new_tensor(Type.F32, (4, 5), name="table")
    ids = ctx.new_tensor(Type.I32, (2,), name="ids")
    rows = ops.get_rows(ctx, table, ids).set_name("picked")
    values = ctx.new_tensor(Type.F32, (4, 2))
    stored = ops.set_rows(ctx, table, values, ids).set_name("stored")
    place(ctx.tensors)
    table.set(np.zeros(20, np.float32))
    values.set(np.ones(8, np.float32))
    ids.set(np.array([0, row], np.int32))
    for node in (rows, stored):
        with pytest.raises(ShapeError, match=f"'{node.name}'.*outside the 5 rows"):
            cpu().graph_compute(graph_of(node))


def test_empty_nodes_run() -> None:
    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, (4, 0))
    t = ops.add(ctx, a, a)
    place(ctx.tensors)
    backend = cpu()
    backend.graph_compute(graph_of(t))
    assert backend.counters.nodes == 1


def test_a_shared_mask_that_a_node_rewrites() -> None:
    """The mask's f32 copy is shared by both softmaxes only while nothing writes the mask."""
    ctx = Context(16)
    a = ctx.new_tensor(Type.F32, (4,), name="a")
    mask = ctx.new_tensor(Type.F16, (4,), name="mask")
    other = ctx.new_tensor(Type.F16, (4,), name="other")
    first = ops.soft_max(ctx, a, mask)
    rewritten = ops.cpy(ctx, other, mask)
    second = ops.soft_max(ctx, a, mask)
    place(ctx.tensors)
    a.set(np.zeros(4, np.float32))
    mask.set(np.array([0, 0, -np.inf, -np.inf], np.float16))
    other.set(np.array([-np.inf, -np.inf, 0, 0], np.float16))
    cpu().graph_compute(graph_of(first, rewritten, second))
    np.testing.assert_array_equal(first.numpy(), [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(second.numpy(), [0, 0, 0.5, 0.5])
