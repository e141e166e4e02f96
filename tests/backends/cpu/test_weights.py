"""The budgeted cache of weights as f32."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import cpu, graph_of, place

from wggml.backends.cpu.backend import CpuBackend
from wggml.backends.cpu.weights import padding
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import UsageError
from wggml.hal.interface import BufferUsage

K, M = 256, 300
ROW_MB = K * 4 / 2**20
TYPES = [Type.F16, Type.BF16, Type.Q4_1, Type.Q8_0]


class Product:
    """w[M, K] times x[n, K], the weight in a buffer of its own."""

    def __init__(self, type_: Type, n: int = 1, usage: BufferUsage = BufferUsage.WEIGHTS) -> None:
        ctx = Context(16)
        self.w = ctx.new_tensor(type_, (K, M), name="w")
        self.x = ctx.new_tensor(Type.F32, (K, n), name="x")
        self.buffer = place([self.w], usage)
        self.y = ops.mul_mat(ctx, self.w, self.x)
        place([self.x, self.y])
        rng = np.random.default_rng(n)
        self.w.set(rng.standard_normal((M, K), np.float32))
        self.x.set(rng.standard_normal((n, K), np.float32))
        self.graph = graph_of(self.y, uid=True)

    def run(self, backend: CpuBackend) -> np.ndarray:
        backend.graph_compute(self.graph)
        return np.atleast_2d(self.y.numpy())

    def expected(self) -> np.ndarray:
        w, x = self.w.numpy().astype(np.float64), np.atleast_2d(self.x.numpy())
        return x.astype(np.float64) @ w.T


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("type_", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("rows", [0, 7, M - 1, M, 10 * M])
def test_any_budget_gives_the_same_product(type_: Type, rows: int, n: int) -> None:
    backend = cpu(cpu_cache_mb=rows * ROW_MB)
    product = Product(type_, n)
    for _ in range(2):
        np.testing.assert_allclose(product.run(backend), product.expected(), rtol=2e-5, atol=2e-4)
    assert backend.weights.used == min(rows, M) * K * 4
    assert backend.weights.used <= backend.weights.budget


def test_first_come_first_served() -> None:
    backend = cpu(cpu_cache_mb=(M + 10) * ROW_MB)
    first, second = Product(Type.Q8_0), Product(Type.Q8_0)
    for p in (first, second):
        p.run(backend)
    assert backend.weights.used == (M + 10) * K * 4
    for p in (second, first, second):
        np.testing.assert_allclose(p.run(backend), p.expected(), rtol=2e-5, atol=2e-4)
    assert backend.weights.created == 2


def test_f32_and_other_buffers_are_not_cached() -> None:
    backend = cpu()
    Product(Type.F32).run(backend)
    Product(Type.Q8_0, usage=BufferUsage.COMPUTE).run(backend)
    assert backend.weights.used == 0


def _write_directly(w: Tensor, raw: np.ndarray) -> None:
    assert w.buffer is not None
    w.buffer.set_tensor(w, raw)


def test_a_written_weight_is_read_anew() -> None:
    backend = cpu()
    p = Product(Type.Q8_0)
    before = p.run(backend)
    p.w.set(2 * p.w.numpy())
    np.testing.assert_allclose(p.run(backend), 2 * before, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(p.run(backend), p.expected(), rtol=2e-5, atol=2e-4)
    assert backend.weights.used == M * K * 4


def test_writing_one_weight_keeps_its_neighbours() -> None:
    backend = cpu()
    ctx = Context(16)
    ws = [ctx.new_tensor(Type.Q8_0, (K, 8), name=f"w{i}") for i in range(2)]
    buffer = place(ws, BufferUsage.WEIGHTS)
    xs = [ctx.new_tensor(Type.F32, (K,)) for _ in ws]
    ys = [ops.mul_mat(ctx, w, x) for w, x in zip(ws, xs, strict=True)]
    place([*xs, *ys])
    for t in (*ws, *xs):
        t.set(np.ones(t.n_elements, np.float32))
    backend.graph_compute(graph_of(*ys))
    assert backend.weights.used == 2 * 8 * K * 4
    buffer.set_tensor(ws[1], np.zeros(ws[1].nbytes, np.uint8))
    assert backend.weights.used == 8 * K * 4
    backend.graph_compute(graph_of(*ys))
    np.testing.assert_allclose(ys[0].numpy(), np.full(8, K), rtol=1e-4)
    np.testing.assert_array_equal(ys[1].numpy(), np.zeros(8))


class Siblings:
    """Three weights of different types and buffers times one vector."""

    def __init__(self, n: int = 1) -> None:
        ctx = Context(16)
        self.ws = [
            ctx.new_tensor(t, (K, m), name=t.name)
            for t, m in ((Type.Q8_0, 24), (Type.F16, 8), (Type.Q4_1, 40))
        ]
        for w in self.ws:
            place([w], BufferUsage.WEIGHTS)
        self.x = ctx.new_tensor(Type.F32, (K, n), name="x")
        self.ys = [ops.mul_mat(ctx, w, self.x) for w in self.ws]
        place([self.x, *self.ys])
        rng = np.random.default_rng(7)
        for t in (*self.ws, self.x):
            t.set(rng.standard_normal(t.ne[1::-1], np.float32))

    def check(self, backend: CpuBackend, order: tuple[int, ...] = (0, 1, 2)) -> int:
        """Compute and compare; the number of steps."""
        graph = graph_of(*(self.ys[i] for i in order), uid=True)
        backend.graph_compute(graph)
        x = np.atleast_2d(self.x.numpy()).astype(np.float64)
        for w, y in zip(self.ws, self.ys, strict=True):
            expected = x @ w.numpy().astype(np.float64).T
            np.testing.assert_allclose(np.atleast_2d(y.numpy()), expected, rtol=2e-5, atol=2e-4)
        return len(backend._plans[graph.uid].steps)


def test_products_of_one_vector_are_one_product() -> None:
    backend, three = cpu(), Siblings()
    assert three.check(backend) == 4  # a product and three copies
    assert backend.weights.created == 1
    assert backend.weights.used == (24 + 8 + 40) * K * 4
    assert three.check(backend, (2, 0, 1)) == 3  # kept in another order: one by one
    assert backend.weights.created == 1


@pytest.mark.parametrize("rows", [0, 40, 71])
def test_siblings_that_do_not_fit_are_computed_one_by_one(rows: int) -> None:
    backend = cpu(cpu_cache_mb=rows * ROW_MB)
    Siblings().check(backend)
    assert backend.weights.used <= rows * K * 4


def test_siblings_of_several_columns_share_the_array_only() -> None:
    backend, three = cpu(), Siblings(5)
    assert three.check(backend) == 3
    assert backend.weights.created == 1


def test_writing_a_sibling_ends_the_shared_array() -> None:
    backend, three = cpu(), Siblings()
    three.check(backend)
    three.ws[1].set(np.ones((8, K), np.float32))
    assert backend.weights.used == 0
    three.check(backend)


def test_padding_only_where_a_thread_is_near() -> None:
    assert padding(576, 576, 460800) == 224
    assert padding(800, 576, 460800) == 0  # large enough
    assert padding(192, 576, 460800) == 0  # too far
    assert padding(576, 576, 0) == 0


def test_a_padded_weight() -> None:
    backend = cpu()
    backend.weights.threads_from = (M + 50) * K
    product = Product(Type.Q8_0)
    for _ in range(2):
        np.testing.assert_allclose(product.run(backend), product.expected(), rtol=2e-5, atol=2e-4)
        assert backend.weights.used == (M + 50) * K * 4
    _write_directly(product.w, np.zeros(product.w.nbytes, np.uint8))
    assert backend.weights.used == 0
    np.testing.assert_array_equal(product.run(backend), np.zeros((1, M)))


def test_a_graph_that_writes_a_weight() -> None:
    backend = cpu()
    p = Product(Type.F16)
    p.run(backend)
    ctx = Context(8)
    new = ctx.new_tensor(Type.F32, (K, M))
    copy = ops.cpy(ctx, new, p.w)
    place([new, copy])
    new.set(np.full((M, K), 0.5, np.float32))
    backend.graph_compute(graph_of(copy))
    np.testing.assert_allclose(p.run(backend), p.expected(), rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(p.run(backend)[0], np.full(M, 0.5 * p.x.numpy().sum()), rtol=1e-4)


def test_a_freed_buffer_gives_its_share_back() -> None:
    backend = cpu()
    p = Product(Type.Q4_1)
    p.run(backend)
    assert backend.weights.used > 0
    p.buffer.free()
    assert backend.weights.used == 0


def test_close_forgets_all() -> None:
    backend = cpu()
    Product(Type.Q4_1).run(backend)
    backend.close()
    assert backend.weights.used == 0


def test_negative_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="cpu_cache_mb is -1"):
        cpu(cpu_cache_mb=-1)


@pytest.mark.parametrize("rows", [0, 100, 10_000])
def test_experts_within_any_budget(rows: int) -> None:
    backend = cpu(cpu_cache_mb=rows * ROW_MB)
    n_expert, used, tokens, m = 6, 2, 5, 40
    ctx = Context(16)
    experts = ctx.new_tensor(Type.Q8_0, (K, m, n_expert), name="experts")
    place([experts], BufferUsage.WEIGHTS)
    x = ctx.new_tensor(Type.F32, (K, 1, tokens))
    ids = ctx.new_tensor(Type.I32, (used, tokens))
    y = ops.mul_mat_id(ctx, experts, x, ids)
    place([x, ids, y])
    rng = np.random.default_rng(1)
    experts.set(rng.standard_normal((n_expert, m, K), np.float32))
    x.set(rng.standard_normal((tokens, 1, K), np.float32))
    chosen = np.array([rng.permutation(n_expert)[:used] for _ in range(tokens)], np.int32)
    ids.set(chosen)
    graph = graph_of(y, uid=True)
    for _ in range(2):
        backend.graph_compute(graph)
        w = experts.numpy()[chosen]  # [tokens, used, m, K]
        expected = np.einsum("tumk,tk->tum", w, x.numpy()[:, 0])
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-3)
    assert backend.weights.used <= backend.weights.budget
