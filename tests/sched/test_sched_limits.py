"""Nothing has a fixed capacity, and a model may be cut between devices anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sched.mocks import Machine, graph_of, new_input, new_weight, read, write
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.sched import Sched


def test_many_inputs_of_one_split() -> None:
    m, ctx = Machine(), Context()
    xs = [new_input(ctx, f"x{i}", 4) for i in range(300)]
    t = new_weight(ctx, "w", m.vram[0], 4)
    for x in xs:
        t = ops.add(ctx, t, x)
    g = graph_of(t.set_output())
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        for i, x in enumerate(xs):
            write(x, np.full(4, i % 7))
        s.graph_compute(g)
        assert s.n_splits == 1
        assert len(s.splits[0].inputs) == 300
        w = g.nodes[0].src[0]
        assert w is not None
        np.testing.assert_allclose(read(t), read(w) + sum(i % 7 for i in range(300)), rtol=1e-6)


def test_many_splits() -> None:
    """Deeper than Python's recursion limit, too."""
    n = 3000
    m, ctx = Machine(), Context(5 * n)
    ws = [new_weight(ctx, "w0", m.vram[0], 1), new_weight(ctx, "w1", m.host, 1)]
    t = new_input(ctx, "x", 1)
    x = t
    for i in range(n):
        t = ops.add(ctx, t, ws[i % 2])
    g = graph_of(t.set_output(), size=2 * n)
    with Sched(m.streams, graph_size=16) as s:
        s.alloc_graph(g)
        assert s.n_splits == n
        write(x, np.zeros(1))
        s.graph_compute(g)
        want = n / 2 * (read(ws[0]).item() + read(ws[1]).item())
        assert read(t).item() == pytest.approx(want, rel=1e-3)


N_LAYER = 9


def model(m: Machine, ngl: int) -> tuple[Graph, list[Tensor], Tensor]:
    """A stack of layers with an input that every layer reads; the last `ngl` lie on GPU0."""
    ctx = Context()
    x, mask = new_input(ctx, "x", 8, 3), new_input(ctx, "mask", 8, 3)
    t = x
    for layer in range(N_LAYER):
        home = m.vram[0] if layer >= N_LAYER - ngl else m.host
        q = ops.mul_mat(ctx, new_weight(ctx, f"l{layer}.q", home, 8, 8), t)
        k = ops.mul_mat(ctx, new_weight(ctx, f"l{layer}.k", home, 8, 8), t)
        scores = ops.soft_max(ctx, ops.add(ctx, ops.mul(ctx, q, k), mask))
        up = ops.mul_mat(ctx, new_weight(ctx, f"l{layer}.up", home, 8, 16), scores)
        down = ops.mul_mat(ctx, new_weight(ctx, f"l{layer}.down", home, 16, 8), ops.sqr(ctx, up))
        t = ops.soft_max(ctx, ops.add(ctx, ops.reshape(ctx, down, (8, 3)), t))
    return graph_of(t.set_output()), [x, mask], t


@pytest.mark.parametrize("offload", [False, True], ids=["", "op_offload"])
def test_partial_offload_at_every_layer(offload: bool) -> None:
    results = []
    for ngl in range(N_LAYER + 1):
        m = Machine(gpu={"offload": frozenset({Op.MUL_MAT})})
        g, inputs, head = model(m, ngl)
        with Sched(m.streams, op_offload=offload) as s:
            s.alloc_graph(g)
            if not offload:
                assert s.n_splits == (1 if ngl in (0, N_LAYER) else 2)
            for _ in range(2):
                for i, t in enumerate(inputs):
                    write(t, np.random.default_rng(i).standard_normal((3, 8)))
                s.graph_compute(g)
                results.append(read(head))
    for r in results:
        np.testing.assert_allclose(r, results[0], rtol=1e-5)
