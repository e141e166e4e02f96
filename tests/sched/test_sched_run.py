"""What a run does and in which order: waits, copies, computing, events, callbacks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sched.mocks import (
    Machine,
    MockDevice,
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
from wggml.errors import SchedulerError
from wggml.hal.interface import BufferUsage, DeviceType
from wggml.sched import Sched, Split

ONES = np.ones(4, np.float32)


def add_on_gpu(m: Machine, ctx: Context, x: Tensor, i: int = 0) -> Tensor:
    return ops.add(ctx, x, new_weight(ctx, f"w{i}", m.vram[i], 4))


def allocated(m: Machine, head: Tensor, **options: int) -> tuple[Sched, Graph]:
    s, g = Sched(m.streams, **options), graph_of(head)
    s.alloc_graph(g)
    m.take_log()
    return s, g


# ---- order ---------------------------------------------------------------------------------------


def test_input_at_split_start() -> None:
    """Host memory goes up in stream order: the device is not waited for. The CPU is, once a run:
    the user may have queued a write to the input there."""
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    s, g = allocated(m, add_on_gpu(m, ctx, x))
    write(x, ONES)
    s.graph_compute_async(g)
    assert m.take_log() == ["sync CPU", "set GPU0 GPU0#x#0 0+16", "compute GPU0 1"]


def test_the_user_may_overwrite_an_input_at_once() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    s, g = allocated(m, add_on_gpu(m, ctx, x).set_output())
    write(x, ONES)
    s.graph_compute_async(g)
    write(x, ONES * 9)
    assert not m.gpus[0].idle
    s.synchronize()
    w = g.nodes[0].src[1]
    assert w is not None
    np.testing.assert_array_equal(read(g.nodes[0]), read(w) + 1)


def test_activation_to_the_host() -> None:
    m, ctx = Machine(gpu={"all_but": frozenset({Op.SQR})}), Context()
    x = new_input(ctx, "x", 4)
    s, g = allocated(m, ops.sqr(ctx, add_on_gpu(m, ctx, x)))
    write(x, ONES)
    s.graph_compute_async(g)
    assert m.take_log() == [
        "sync CPU", "set GPU0 GPU0#x#0 0+16", "compute GPU0 1",
        "get GPU0 node_0", "sync GPU0", "sync CPU", "compute CPU 1",
    ]  # fmt: skip


def test_several_activations_to_the_host_wait_once() -> None:
    m, ctx = Machine(gpu={"all_but": frozenset({Op.SUB})}), Context()
    x = new_input(ctx, "x", 4)
    a = add_on_gpu(m, ctx, x)
    s, g = allocated(m, ops.sub(ctx, a, ops.sqr(ctx, a)))
    write(x, ONES)
    s.graph_compute_async(g)
    log = m.take_log()
    assert log.count("sync GPU0") == 1
    assert log.index("get GPU0 node_1") < log.index("sync GPU0") < log.index("compute CPU 1")


def test_activation_between_devices_through_the_host() -> None:
    m, ctx = Machine(2), Context()
    x = new_input(ctx, "x", 4)
    s, g = allocated(m, add_on_gpu(m, ctx, add_on_gpu(m, ctx, x), 1))
    write(x, ONES)
    s.graph_compute_async(g)
    assert m.take_log() == [
        "sync CPU", "set GPU0 GPU0#x#0 0+16", "compute GPU0 1",
        "sync GPU0", "sync GPU1", "compute GPU1 1",
    ]  # fmt: skip


def test_activation_between_devices_that_know_each_other() -> None:
    m, ctx = Machine(2), Context()
    m.gpus[1].peers = [m.gpus[0]]
    x = new_input(ctx, "x", 4)
    s, g = allocated(m, add_on_gpu(m, ctx, add_on_gpu(m, ctx, x), 1))
    write(x, ONES)
    s.graph_compute_async(g)
    assert m.take_log() == [
        "sync CPU", "set GPU0 GPU0#x#0 0+16", "compute GPU0 1",
        "copy GPU1 node_0 -> GPU1#node_0#0", "compute GPU1 1",
    ]  # fmt: skip


def test_split_without_inputs_waits_for_the_one_before() -> None:
    m, ctx = Machine(2), Context()
    x, y = new_weight(ctx, "x", m.vram[0], 4), new_weight(ctx, "y", m.vram[1], 4)
    s, g = Sched(m.streams), graph_of(ops.sqr(ctx, x), ops.sqr(ctx, y))
    s.graph_compute_async(g)
    assert m.take_log()[-3:] == ["compute GPU0 1", "sync GPU0", "compute GPU1 1"]
    s.graph_compute_async(g)
    assert m.take_log() == ["compute GPU0 1", "sync GPU0", "compute GPU1 1"]


def test_backends_in_the_same_memory_wait_for_each_other() -> None:
    m, ctx = Machine(0), Context()
    blas = MockDevice("BLAS", DeviceType.ACCEL, m.host, ops={Op.MUL_MAT}).init_backend(log=m.log)
    x = new_input(ctx, "x", 4, 4)
    t = ops.mul_mat(ctx, new_weight(ctx, "w", m.host, 4, 4), ops.sqr(ctx, x))
    s, g = Sched([blas, m.cpu]), graph_of(ops.sqr(ctx, t))
    s.alloc_graph(g)
    write(x, np.ones((4, 4)))
    m.take_log()
    s.graph_compute(g)
    log = m.take_log()
    assert log == [
        "sync BLAS", "compute CPU 1", "sync CPU", "compute BLAS 1", "sync BLAS", "compute CPU 1",
        "sync BLAS", "sync CPU",
    ]  # fmt: skip


def test_parallel_copies_rotate_with_events() -> None:
    m = Machine(events=True)
    s = Sched(m.streams, parallel=True)
    logs, copies = [], []
    for _ in range(5):
        s.reset()
        ctx = Context()
        x = new_input(ctx, "x", 4)
        g = graph_of(add_on_gpu(m, ctx, x))
        s.alloc_graph(g)
        write(x, ONES)
        m.take_log()
        s.graph_compute_async(g)
        logs.append(m.take_log())
        copies.append(s.cur_copy)
    assert s.n_copies == 4
    assert copies == [0, 1, 2, 3, 0]
    assert logs == [
        ["sync CPU", f"set GPU0 GPU0#x#{c} 0+16", "compute GPU0 1", "record GPU0"] for c in copies
    ]


def test_parallel_events_guard_the_copy_of_the_same_index() -> None:
    """Through the host there is no stream order: the run that had the copy must be done."""
    m = Machine(2, events=True)
    s = Sched(m.streams, n_copies=2)
    for run in range(3):
        s.reset()
        ctx = Context()
        x = new_input(ctx, "x", 4)
        g = graph_of(add_on_gpu(m, ctx, add_on_gpu(m, ctx, x), 1))
        s.alloc_graph(g)
        write(x, ONES)
        m.take_log()
        s.graph_compute_async(g)
        log = m.take_log()
        guard = "event_sync GPU1" if run == 2 else "sync GPU1"
        assert log == [
            "sync CPU", f"set GPU0 GPU0#x#{run % 2} 0+16", "compute GPU0 1", "record GPU0",
            "sync GPU0", guard, "compute GPU1 1", "record GPU1",
        ]  # fmt: skip


def test_synchronize_rewinds_the_copies_when_nothing_is_allocated() -> None:
    m = Machine()
    s = Sched(m.streams, parallel=True)
    x = new_input(Context(), "x", 4)
    g = graph_of(ops.sqr(Context(), x))
    s.alloc_graph(g)
    s.synchronize()  # allocated: goes on
    s.reset()
    s.alloc_graph(g)
    assert s.cur_copy == 1
    s.reset()
    s.synchronize()
    s.alloc_graph(g)
    assert s.cur_copy == 0


# ---- the evaluation callback -------------------------------------------------------------------


def chain(m: Machine, n: int = 6) -> tuple[Graph, Tensor, list[Tensor]]:
    """Nodes that alternate between GPU0 and the CPU in pairs."""
    ctx = Context()
    x = new_input(ctx, "x", 4)
    t, nodes = x, []
    for i in range(n):
        w = new_weight(ctx, f"w{i}", m.vram[0] if i // 2 % 2 == 0 else m.host, 4)
        nodes.append(t := ops.add(ctx, t, w))
    return graph_of(t), x, nodes


@pytest.mark.parametrize("stop", range(6))
def test_eval_callback_stops_at_any_node(stop: int) -> None:
    m = Machine()
    g, x, nodes = chain(m)
    s = Sched(m.streams)
    s.alloc_graph(g)
    write(x, ONES)
    seen: list[Tensor] = []
    weights = [read(n.src[1]) for n in nodes if n.src[1] is not None]

    def look(t: Tensor, ask: bool) -> bool:
        if ask:
            return t is nodes[stop]
        seen.append(t)
        np.testing.assert_allclose(read(t), 1 + sum(weights[: stop + 1]), rtol=1e-5)
        return False

    s.set_eval_callback(look)
    assert s.graph_compute(g) is False
    assert seen == [nodes[stop]]
    computed = sum(b.counters.nodes for b in m.streams)
    assert computed == stop + 1  # nothing after it, in no split
    s.set_eval_callback(None)
    assert s.graph_compute(g) is True


def test_eval_callback_asks_for_every_node_once_and_runs_ranges() -> None:
    m = Machine()
    g, x, nodes = chain(m)
    s = Sched(m.streams)
    s.alloc_graph(g)
    write(x, ONES)
    asked: list[Tensor] = []

    def look(t: Tensor, ask: bool) -> bool:
        if ask:
            asked.append(t)
        return (ask and t is nodes[2]) or not ask

    s.set_eval_callback(look)
    assert s.graph_compute(g) is True
    assert asked == nodes
    sizes = [line for line in m.take_log() if line.startswith("compute")]
    assert sizes == ["compute GPU0 2", "compute CPU 1", "compute CPU 1", "compute GPU0 2"]


def test_an_error_in_a_callback_leaves_the_graph_as_it_was() -> None:
    m = Machine()
    g, x, nodes = chain(m)
    s = Sched(m.streams)
    s.alloc_graph(g)
    write(x, ONES)

    def fail(t: Tensor, ask: bool) -> bool:
        raise KeyError(t.name)

    s.set_eval_callback(fail)
    with pytest.raises(KeyError):
        s.graph_compute(g)
    assert nodes[0].src[0] is x
    s.set_eval_callback(None)
    s.graph_compute(g)


# ---- the copy callback -------------------------------------------------------------------------


def test_copy_callback_sees_host_weights_last_and_may_copy_itself() -> None:
    m, ctx = Machine(gpu={"offload": frozenset({Op.MUL_MAT})}), Context()
    x, w = new_input(ctx, "x", 4, 4), new_weight(ctx, "w", m.host, 4, 4)
    t = ops.mul_mat(ctx, w, x).set_output()
    s, g = allocated(m, t)
    assert [i.name for i in s.splits[0].inputs] == ["w", "x"]
    seen: list[str] = []

    def copy(src: Tensor, dst: Tensor, split: Split) -> bool:
        seen.append(src.name)
        assert split is s.splits[0]
        if src is not w:
            return False
        m.gpus[0].set_tensor_async(dst, np.zeros(w.nbytes, np.uint8))
        return True

    s.set_copy_callback(copy)
    write(x, np.ones((4, 4)))
    s.graph_compute(g)
    assert seen == ["x", "w"]
    assert (read(t) == 0).all()


# ---- graph reuse -------------------------------------------------------------------------------


def test_running_again_builds_nothing() -> None:
    m = Machine()
    g, x, nodes = chain(m)
    nodes[-1].set_output()
    s = Sched(m.streams)
    s.alloc_graph(g)
    plan, uids = s.plan, [p.graph.uid for p in s.splits]
    results = []
    for run in range(4):
        write(x, ONES * run)
        s.graph_compute(g)
        results.append(read(nodes[-1]) - run)
    np.testing.assert_allclose(results, [results[0]] * 4, rtol=1e-6, atol=1e-6)
    assert s.plan is plan
    assert [p.graph.uid for p in s.splits] == uids
    assert len(set(uids)) == len(uids) and 0 not in uids and g.uid not in uids
    for b in m.streams:
        splits = sum(p.backend is b for p in s.splits)
        assert b.counters.plans_built == splits
        assert b.counters.plans_replayed == 3 * splits


def test_select_runs_the_chosen_head_only() -> None:
    m = Machine()
    for chosen in (0, 1):
        ctx = Context()
        x = new_input(ctx, "x", 4)
        shared = add_on_gpu(m, ctx, x)
        heads = [ops.sqr(ctx, shared).set_output(), ops.scale(ctx, shared, 3.0).set_output()]
        g = Graph(16)
        g.build_forward_select(heads, chosen)
        s = Sched(m.streams)
        s.alloc_graph(g)
        write(x, ONES)
        s.graph_compute(g)
        assert np.isfinite(read(heads[chosen])).all()
        nodes = sum(b.counters.nodes for b in m.streams)
        assert nodes == 2 * (chosen + 1)  # the shared node and one head each time


# ---- several schedulers, freed memory, the end -------------------------------------------------


def test_two_schedulers_run_one_graph_in_turn() -> None:
    m = Machine()
    g, x, nodes = chain(m)
    nodes[-1].set_output()
    results = []
    a, b = Sched(m.streams), Sched(m.streams)
    for s in (a, b, a):
        s.alloc_graph(g)
        write(x, ONES)
        s.graph_compute(g)
        results.append(read(nodes[-1]))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    a.close()
    b.alloc_graph(g)
    write(x, ONES)
    b.graph_compute(g)
    np.testing.assert_array_equal(results[0], read(nodes[-1]))


def test_closing_gives_memory_and_places_back() -> None:
    m = Machine()
    g, x, nodes = chain(m)
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        buffer = nodes[0].buffer
        assert buffer is not None
        assert s.buffer_size(m.gpus[0]) > 0
    assert buffer.freed
    assert nodes[0].buffer is None and nodes[0].data is None and x.buffer is None
    s.close()
    with pytest.raises(SchedulerError, match="was closed"):
        s.graph_compute(g)


def test_a_weight_in_freed_memory_is_an_error() -> None:
    m, ctx = Machine(), Context()
    w = new_weight(ctx, "w", m.vram[0], 4)
    assert w.buffer is not None
    w.buffer.free()
    with pytest.raises(SchedulerError, match=r"'w' .*was freed"):
        Sched(m.streams).alloc_graph(graph_of(ops.sqr(ctx, w)))


@pytest.mark.parametrize("n_copies", [1, 3])
def test_input_that_is_already_placed_elsewhere(n_copies: int) -> None:
    """The user keeps an input in a buffer of their own on the device."""
    m, ctx = Machine(2), Context()
    x = place(new_input(ctx, "x", 4), m.vram[0], ONES, BufferUsage.ANY)
    home = x.buffer
    t = ops.add(ctx, x, new_weight(ctx, "w", m.vram[1], 4)).set_output()
    s, g = Sched(m.streams, n_copies=n_copies), graph_of(t)
    w = t.src[1]
    assert w is not None
    for _ in range(n_copies + 1):
        s.alloc_graph(g)
        s.graph_compute(g)
        assert x.buffer is home
        np.testing.assert_array_equal(read(t), read(w) + 1)


def test_zero_sized_inputs_are_not_copied() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4, 0)
    t = ops.scale(ctx, x, 2.0)
    s, g = Sched(m.streams), graph_of(t)
    s.set_tensor_backend(t, m.gpus[0])
    s.graph_compute(g)
    assert not any(line.startswith("set") for line in m.take_log())


def test_reserve_size_makes_no_buffer() -> None:
    m = Machine()
    g, _, _ = chain(m)
    s = Sched(m.streams)
    sizes = s.reserve_size(g)
    assert [s.buffer_size(b) for b in m.streams] == [0, 0]
    s.reserve(g)
    assert [s.buffer_size(b) for b in m.streams] == sizes


def test_an_input_read_in_place_is_not_given_out_while_a_run_reads_it() -> None:
    """An integrated device reads the user's own copy, so the run that had it must be done."""
    m = Machine(integrated=True)
    s = Sched(m.streams, n_copies=2)
    outputs = []
    for run in range(5):
        s.reset()
        ctx = Context()
        x = new_input(ctx, "x", 4)
        head = add_on_gpu(m, ctx, x).set_output()
        g = graph_of(head)
        s.alloc_graph(g)
        assert not s.splits[0].inputs
        write(x, ONES * run)
        s.graph_compute_async(g)
        outputs.append(np.empty(16, np.uint8))
        m.gpus[0].get_tensor_async(head, outputs[-1])
    s.synchronize()
    got = np.stack([o.view(np.float32) for o in outputs])
    np.testing.assert_allclose(got - got[0], np.outer(range(5), ONES), atol=1e-6)


def test_an_empty_graph() -> None:
    m = Machine()
    s, g = Sched(m.streams), Graph(1)
    assert s.graph_compute(g) is True
