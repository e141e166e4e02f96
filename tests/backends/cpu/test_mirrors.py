"""f32 mirrors of K and V caches follow whatever writes the cache."""

from __future__ import annotations

import math

import numpy as np
import pytest
from graphs import cpu, graph_of, place, place_views

from wggml.backends.cpu.backend import CpuBackend
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.types import Type
from wggml.hal.interface import BufferUsage

D, HEADS, SHARE, CELLS = 16, 2, 3, 200
SCALE = 1 / math.sqrt(D)


class Attention:
    """A cache of one layer; each run stores `n` rows and attends over the first `n_kv` cells."""

    def __init__(self, seed: int = 0) -> None:
        ctx = Context(8)
        self.k = ctx.new_tensor(Type.F16, (D * HEADS, CELLS), name="k")
        self.v = ctx.new_tensor(Type.F16, (D * HEADS, CELLS), name="v")
        self.cache = place([self.k, self.v], BufferUsage.ANY)
        self.cache.clear(0)
        self.rng = np.random.default_rng(seed)

    def random(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32)

    def run(self, backend: CpuBackend, cells: list[int], n_kv: int) -> None:
        """Write random rows into `cells`, attend with as many queries, compare."""
        n, ctx = len(cells), Context(32)
        q = ctx.new_tensor(Type.F32, (D, n, HEADS * SHARE))
        index = ctx.new_tensor(Type.I64, (n,))
        rows = [ctx.new_tensor(Type.F32, (D * HEADS, n)) for _ in range(2)]
        kv = (self.k, self.v)
        stored = [ops.set_rows(ctx, c, r, index) for c, r in zip(kv, rows, strict=True)]
        seen = [ops.view(ctx, c, [D, n_kv, HEADS], (c.nb[1], 2 * D)) for c in (self.k, self.v)]
        y = ops.flash_attn_ext(ctx, q, *seen, None, SCALE)
        place([q, index, *rows, y])
        place_views([*stored, *seen])
        q.set(self.random(HEADS * SHARE, n, D))
        index.set(np.array(cells, np.int64))
        for r in rows:
            r.set(self.random(n, D * HEADS))
        backend.graph_compute(graph_of(*stored, y))
        np.testing.assert_allclose(y.numpy().reshape(n, -1), self.expected(q, n_kv), atol=2e-6)

    def expected(self, q, n_kv: int) -> np.ndarray:
        k, v = (
            np.repeat(c.numpy()[:n_kv].reshape(n_kv, HEADS, D).astype(np.float64), SHARE, axis=1)
            for c in (self.k, self.v)
        )
        s = np.einsum("hnd,thd->hnt", q.numpy().reshape(HEADS * SHARE, -1, D), k) * SCALE
        p = np.exp(s - s.max(-1, keepdims=True))
        out = np.einsum("hnt,thd->nhd", p / p.sum(-1, keepdims=True), v)
        return out.reshape(out.shape[0], -1)


def test_rows_are_converted_once() -> None:
    backend, attention = cpu(), Attention()
    attention.run(backend, list(range(150)), 160)
    assert [m.known for m in attention.cache.mirrors.values()] == [160, 160]
    for i in range(150, 155):
        attention.run(backend, [i], 160)
    assert backend.weights.created == 2
    mirror = attention.cache.mirrors[0]
    assert mirror.source is not None and mirror.values is not None
    np.testing.assert_array_equal(mirror.values[:, :160], mirror.source[:, :160])


@pytest.mark.parametrize("cells", [[3], [0, 5, 120], [199, 2]])
def test_rows_written_again(cells: list[int]) -> None:
    backend, attention = cpu(), Attention()
    attention.run(backend, list(range(100)), 128)
    attention.run(backend, cells, 128)
    attention.run(backend, cells, CELLS)


def test_other_writes_are_seen() -> None:
    backend, attention = cpu(), Attention()
    attention.run(backend, list(range(60)), 64)
    attention.k.set(attention.random(CELLS, D * HEADS).astype(np.float16))
    attention.run(backend, [60], 64)
    attention.cache.clear(0)
    attention.run(backend, [61], 64)


def test_a_graph_that_writes_the_cache_otherwise() -> None:
    backend, attention = cpu(), Attention()
    attention.run(backend, list(range(60)), 64)
    ctx = Context(8)
    new = ctx.new_tensor(Type.F32, (D * HEADS, 10))
    row = attention.v.nb[1]
    part = ops.view(ctx, attention.v, [D * HEADS, 10], (row,), 7 * row)
    copy = ops.cpy(ctx, new, part)
    place([new])
    place_views([part, copy])
    new.set(attention.random(10, D * HEADS))
    backend.graph_compute(graph_of(copy))
    attention.run(backend, [60], 64)


def test_another_backend_on_the_same_cache() -> None:
    first, second, attention = cpu(), cpu(), Attention()
    attention.run(first, list(range(60)), 64)
    attention.run(second, [1, 2, 3], 64)
    attention.run(first, [60], 64)


def test_mirrors_share_the_budget_and_give_it_back() -> None:
    nbytes = 4 * D * HEADS * CELLS
    backend, attention = cpu(cpu_cache_mb=1.5 * nbytes / 2**20), Attention()
    attention.run(backend, list(range(30)), 64)
    assert backend.weights.free == backend.weights.budget - nbytes
    attention.run(backend, [30], 64)
    attention.cache.free()
    assert backend.weights.free == backend.weights.budget


def test_no_budget_no_mirror() -> None:
    backend, attention = cpu(cpu_cache_mb=0), Attention()
    attention.run(backend, list(range(30)), 64)
    assert backend.weights.created == 0
