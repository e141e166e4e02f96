"""Mixture of experts with weights in host memory: only experts in use are copied."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sched.mocks import (
    Machine,
    graph_of,
    new_input,
    new_weight,
    place,
    read,
    write,
)
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import SchedulerError
from wggml.sched import Sched

N_EXPERT, ROWS, COLS = 6, 4, 8
EXPERT = ROWS * COLS * 4  # bytes


def machine() -> Machine:
    return Machine(gpu={"offload": frozenset({Op.MUL_MAT_ID})})


def moe(m: Machine, ids: Tensor, ctx: Context) -> tuple[Graph, Tensor, list[Tensor], Tensor]:
    """Two expert weights that read the same ids."""
    x = new_input(ctx, "x", COLS, 1, 2)
    experts = [new_weight(ctx, f"e{i}", m.host, COLS, ROWS, N_EXPERT) for i in range(2)]
    up, gate = (ops.mul_mat_id(ctx, e, x, ids) for e in experts)
    head = ops.mul(ctx, up, gate).set_output()
    return graph_of(head), x, experts, head


def expected(x: np.ndarray, experts: list[Tensor], ids: np.ndarray) -> np.ndarray:
    a, b = (read(e)[0] for e in experts)
    return np.stack(
        [np.stack([(a[e] @ x[t, 0]) * (b[e] @ x[t, 0]) for e in ids[t]]) for t in (0, 1)]
    )


@pytest.mark.parametrize(
    ("ids", "ranges"),
    [
        ([[0, 1], [1, 2]], ["0+384"]),
        ([[5, 0], [3, 2]], ["0+128", "256+256", "640+128"]),
        ([[4, 4], [4, 4]], ["512+128"]),
    ],
)
def test_ranges_of_consecutive_experts(ids: list[list[int]], ranges: list[str]) -> None:
    m, ctx = machine(), Context()
    t = new_input(ctx, "ids", 2, 2, type_=Type.I32)
    g, x, experts, head = moe(m, t, ctx)
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        for run in range(2):
            values = np.random.default_rng(run).standard_normal((2, 1, COLS))
            write(x, values)
            write(t, np.array(ids))
            m.take_log()
            s.graph_compute(g)
            log = m.take_log()
            for name in ("e0", "e1"):
                got = [line.split()[-1] for line in log if f"#{name}#" in line]
                assert got == ranges
            assert sum("ids" in line for line in log if line.startswith("get")) == 1
            want = expected(values.astype(np.float32), experts, np.array(ids))
            np.testing.assert_allclose(read(head)[0], want, rtol=1e-5, atol=1e-6)


def test_ids_computed_on_the_device() -> None:
    """Ids that an earlier split computed are read back once; ids are a strided view, as usual."""
    m, ctx = machine(), Context()
    raw = new_input(ctx, "raw", 5, 2, type_=Type.I32)
    sorted_ids = ops.cont(ctx, raw)
    view = ops.view(ctx, sorted_ids, (2, 2), (sorted_ids.nb[1],), offset=4)
    g, x, experts, head = moe(m, view, ctx)
    s = Sched(m.streams)
    s.set_tensor_backend(sorted_ids, m.gpus[0])
    s.set_tensor_backend(view, m.gpus[0])
    s.alloc_graph(g)
    table = np.array([[9, 1, 3, 9, 9], [9, 3, 0, 9, 9]])
    values = np.ones((2, 1, COLS), np.float32)
    write(x, values)
    write(raw, table)
    m.take_log()
    s.graph_compute(g)
    log = m.take_log()
    sizes = [line.split()[-1] for line in log if "#e1#" in line]
    assert sizes == ["0+256", "384+128"]
    np.testing.assert_allclose(
        read(head)[0], expected(values, experts, table[:, 1:3]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("bad", [-1, N_EXPERT])
def test_an_expert_that_does_not_exist(bad: int) -> None:
    m, ctx = machine(), Context()
    t = new_input(ctx, "ids", 2, 2, type_=Type.I32)
    g, x, _, head = moe(m, t, ctx)
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        write(x, np.ones((2, 1, COLS)))
        write(t, np.array([[0, 1], [bad, 2]]))
        with pytest.raises(SchedulerError, match=rf"selects expert {bad}.*has 6.*'ids'"):
            s.graph_compute(g)
        assert t in head.src[0].src  # type: ignore[union-attr]


def test_a_weight_that_two_nodes_read_is_copied_whole() -> None:
    m, ctx = machine(), Context()
    ids = [new_input(ctx, f"ids{i}", 2, 2, type_=Type.I32) for i in range(2)]
    x = new_input(ctx, "x", COLS, 1, 2)
    e = new_weight(ctx, "e", m.host, COLS, ROWS, N_EXPERT)
    head = ops.add(ctx, *(ops.mul_mat_id(ctx, e, x, i) for i in ids)).set_output()
    g = graph_of(head)
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        write(x, np.ones((2, 1, COLS)))
        write(ids[0], np.array([[0, 1], [0, 1]]))
        write(ids[1], np.array([[4, 5], [4, 5]]))
        m.take_log()
        s.graph_compute(g)
        sizes = [line.split()[-1] for line in m.take_log() if "#e#" in line]
        assert sizes == [f"0+{N_EXPERT * EXPERT}"]
        assert np.isfinite(read(head)).all()


def test_ids_are_read_from_the_copy_when_the_original_may_be_gone() -> None:
    m, ctx = machine(), Context()
    t = new_input(ctx, "ids", 2, 2, type_=Type.I32)
    first = ops.cont(ctx, t)  # brings the copy to the device, in a split of its own
    g, x, experts, head = moe(m, t, ctx)
    g = graph_of(first, ops.cont(ctx, first).set_output(), head)
    s = Sched(m.streams)
    s.set_tensor_backend(g.nodes[0], m.gpus[0])
    s.set_tensor_backend(g.nodes[1], m.cpu)
    s.alloc_graph(g)
    values, ids = np.ones((2, 1, COLS), np.float32), np.array([[0, 1], [3, 1]])
    write(x, values)
    write(t, ids)
    assert t in s.splits[0].inputs
    assert all(t not in split.inputs for split in s.splits[1:])

    def overwrite(node: Tensor, ask: bool) -> bool:
        if not ask:
            write(t, np.full((2, 2), 99))  # as an allocator may let others do by now
        return node is g.nodes[1] or not ask

    s.set_eval_callback(overwrite)
    assert s.graph_compute(g)
    np.testing.assert_allclose(read(head)[0], expected(values, experts, ids), rtol=1e-5, atol=1e-6)


def test_ids_that_the_split_itself_computes() -> None:
    m, ctx = machine(), Context()
    ids = np.array([[5, 1], [0, 2]])
    raw = place(ctx.new_tensor(Type.I32, (2, 2)), m.vram[0], ids)
    x = place(ctx.new_tensor(Type.F32, (COLS, 1, 2)), m.vram[0], np.ones((2, 1, COLS)))
    e = new_weight(ctx, "e", m.host, COLS, ROWS, N_EXPERT)
    head = ops.mul_mat_id(ctx, e, x, ops.cont(ctx, raw)).set_output()
    g = graph_of(head)
    with Sched(m.streams) as s:
        s.graph_compute(g)
        assert s.n_splits == 1
        want = [[read(e)[0, i].sum(axis=1) for i in row] for row in ids]
        np.testing.assert_allclose(read(head)[0], want, rtol=1e-5, atol=1e-6)
