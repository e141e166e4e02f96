"""Products with quantised rows that nobody keeps as f32."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from graphs import cpu, graph_of, place

from wggml.backends.cpu.blockwise import TILE, can_split
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import BufferUsage
from wggml.quants import can_quantize
from wggml.quants.parts import PARTS


def product(type_: Type, k: int, m: int) -> tuple[Tensor, Tensor, Tensor]:
    ctx = Context(8)
    w, x = ctx.new_tensor(type_, (k, m)), ctx.new_tensor(Type.F32, (k,))
    y = ops.mul_mat(ctx, w, x)
    place([w], BufferUsage.WEIGHTS)
    place([x, y])
    rng = np.random.default_rng(k + m)
    w.set(rng.standard_normal((m, k), np.float32))
    x.set(rng.standard_normal(k, np.float32))
    return w, x, y


@pytest.mark.parametrize("type_", PARTS, ids=lambda t: t.name)
def test_same_as_dequantised_rows(type_: Type) -> None:
    assert can_quantize(type_) and can_split(type_)
    for k, m in ((256, 1), (512, 300), (2048, 33)):  # one tile, several with a rest
        w, x, y = product(type_, k, m)
        backend = cpu(cpu_cache_mb=0)
        for _ in range(2):
            backend.graph_compute(graph_of(y))
            expected = w.numpy().astype(np.float64) @ x.numpy().reshape(-1).astype(np.float64)
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=2e-4 * k**0.5)
        assert backend.weights.used == 0


def test_memory_is_bounded_by_a_tile() -> None:
    w, _, y = product(Type.Q4_0, 1024, 4096)
    graph, backend = graph_of(y, uid=True), cpu(cpu_cache_mb=0)
    tracemalloc.start()
    for _ in range(2):
        backend.graph_compute(graph)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * TILE < w.n_elements
