"""The caller's graph stays the caller's, in whatever order a scheduler is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sched.mocks import Array, Machine, Stream, graph_of, new_input, new_weight, read, write
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.errors import WggmlError
from wggml.sched import Sched


class Hybrid:
    """Weights in turn on GPU0 and in host memory, with a view and a shared input."""

    def __init__(self, m: Machine, scale: float = 1.0, n: int = 5) -> None:
        ctx = Context()
        self.x = new_input(ctx, "x", 4)
        t = self.x
        for i in range(n):
            w = new_weight(ctx, f"w{i}", m.vram[0] if i % 2 == 0 else m.host, 4)
            t = ops.add(ctx, ops.scale(ctx, t, scale), w)
            t = ops.add(ctx, ops.reshape(ctx, t, (2, 2)), ops.reshape(ctx, self.x, (2, 2)))
            t = ops.reshape(ctx, t, (4,))
        self.head = ops.scale(ctx, t, 1.0).set_output()
        self.graph = graph_of(self.head)
        self.before = self.records()

    def records(self) -> list[Any]:
        return [
            (t, t.op, t.flags, list(t.src), t.view_src, t.view_offs, t.name, t.ne, t.nb)
            for t in (*self.graph.leafs, *self.graph.nodes)
        ] + [dict(self.graph.use_counts), list(self.graph.nodes), list(self.graph.leafs)]

    def run(self, s: Sched) -> Array:
        if self.x.buffer is None:
            s.alloc_graph(self.graph)
        write(self.x, np.arange(4))
        s.graph_compute(self.graph)
        self.assert_intact()
        return read(self.head)

    def assert_intact(self) -> None:
        assert self.records() == self.before


@pytest.mark.parametrize("parallel", [False, True], ids=["one copy", "four copies"])
def test_run_twice(parallel: bool) -> None:
    m = Machine()
    h = Hybrid(m)
    with Sched(m.streams, parallel=parallel) as s:
        first = h.run(s)
        assert s.n_splits > 3
        np.testing.assert_array_equal(first, h.run(s))
        s.reset()
        h.assert_intact()
        np.testing.assert_array_equal(first, h.run(s))
    h.assert_intact()


@pytest.mark.parametrize("parallel", [False, True], ids=["one copy", "four copies"])
def test_reserve_then_alloc_with_one_graph(parallel: bool) -> None:
    m = Machine()
    h = Hybrid(m)
    with Sched(m.streams, parallel=parallel) as s:
        for plan in (s.split_graph, s.reserve_size, s.reserve):
            plan(h.graph)
            h.assert_intact()
        s.alloc_graph(h.graph)
        h.assert_intact()
        assert np.isfinite(h.run(s)).all()


def test_alloc_one_compute_the_other() -> None:
    m = Machine()
    a, b = Hybrid(m), Hybrid(m, scale=0.5)
    with Sched(m.streams) as s:
        want_a, want_b = a.run(Sched(m.streams)), b.run(Sched(m.streams))
        for h in (a, b):
            h.x.buffer = h.x.data = None
            for t in (*h.graph.nodes, *h.graph.leafs):
                if "w" not in t.name:
                    t.buffer = t.data = None
        s.alloc_graph(a.graph)
        s.graph_compute(b.graph)  # not a's plan: b is split and allocated
        assert [p.graph.nodes for p in s.splits] == [
            b.graph.nodes[p.i_start : p.i_end] for p in s.splits
        ]
        assert a.head.buffer is None  # a has lost its places, so a stale read is an error
        np.testing.assert_array_equal(b.run(s), want_b)
        np.testing.assert_array_equal(a.run(s), want_a)
        np.testing.assert_array_equal(b.run(s), want_b)


def test_a_graph_that_grew_is_split_again() -> None:
    m = Machine()
    h = Hybrid(m)
    with Sched(m.streams) as s:
        h.run(s)
        more = ops.scale(Context(), h.head, 2.0).set_output()
        h.graph.build_forward_expand(more)
        s.alloc_graph(h.graph)
        write(h.x, np.arange(4))
        s.graph_compute(h.graph)
        np.testing.assert_allclose(read(more), 2 * read(h.head))


def failing_backend(m: Machine) -> None:
    def fail(graph: Graph) -> None:
        raise WggmlError("the device went away")

    m.gpus[0].graph_compute = fail  # type: ignore[method-assign]


def failing_optimizer(m: Machine) -> None:
    def fail(graph: Graph, keep: Callable[[Tensor, Tensor], None]) -> None:
        raise WggmlError("cannot optimise")

    m.gpus[0].graph_optimize = fail  # type: ignore[method-assign]


@pytest.mark.parametrize("break_it", [failing_backend, failing_optimizer])
def test_an_error_leaves_the_graph_intact(break_it: Callable[[Machine], None]) -> None:
    m = Machine()
    h = Hybrid(m)
    break_it(m)
    with Sched(m.streams, parallel=True) as s:
        with pytest.raises(WggmlError):
            h.run(s)
        h.assert_intact()


def test_out_of_memory_leaves_the_graph_unplaced() -> None:
    m = Machine()
    h = Hybrid(m)

    def refuse(size: int) -> Any:
        raise MemoryError(size)

    m.vram[0].alloc_buffer = refuse  # type: ignore[method-assign]
    with Sched(m.streams) as s:
        with pytest.raises(MemoryError):
            s.alloc_graph(h.graph)
        h.assert_intact()
        assert all(t.buffer is None for t in h.graph.nodes if t.op != Op.NONE)
        assert not s.is_allocated


def test_replanning_does_not_see_its_own_places() -> None:
    """What a first allocation placed must not count as lying somewhere for the second."""
    m = Machine()
    h = Hybrid(m)
    with Sched(m.streams) as s:
        s.alloc_graph(h.graph)
        causes = {t.name: c for t, c in s.causes.items()}
        s.alloc_graph(h.graph)
        assert {t.name: c for t, c in s.causes.items()} == causes


def test_only_a_backend_that_compiles_sees_rewired_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = Machine()
    h = Hybrid(m)
    seen: list[bool] = []
    with Sched(m.streams) as s:
        original = [list(t.src) for t in h.graph.nodes]

        def watch(stream: Stream) -> None:
            compute = stream.graph_compute

            def graph_compute(graph: Graph) -> None:
                seen.append([list(t.src) for t in h.graph.nodes] != original)
                compute(graph)

            monkeypatch.setattr(stream, "graph_compute", graph_compute)

        for stream in m.streams:
            watch(stream)
        first = h.run(s)
        assert s.n_splits > 2 and all(seen)
        seen.clear()
        np.testing.assert_array_equal(h.run(s), first)
        assert not any(seen)
        seen.clear()
        m.streams[-1].plans.clear()  # it compiles anew, in the middle of the run
        np.testing.assert_array_equal(h.run(s), first)
        assert any(seen)
