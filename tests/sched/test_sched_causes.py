"""Each rule of passes 1-5, by the cause it leaves."""

from __future__ import annotations

import pytest

from tests.sched.mocks import (
    Machine,
    MockDevice,
    graph_of,
    new_input,
    new_weight,
    place,
)
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.types import Type
from wggml.errors import SchedulerError, UnsupportedOpError
from wggml.hal.interface import BufferUsage, DeviceType
from wggml.sched import Sched

ALL_BUT_SQR = {"all_but": frozenset({Op.SQR})}


def test_usr() -> None:
    m, ctx = Machine(), Context()
    t = ops.sqr(ctx, new_input(ctx, "x", 4))
    s = Sched(m.streams)
    s.set_tensor_backend(t, m.gpus[0])
    s.split_graph(graph_of(t))
    assert s.causes[t] == "usr"
    assert s.get_tensor_backend(t) is m.gpus[0]


def test_usr_stays_until_reset() -> None:
    m, ctx = Machine(), Context()
    t = ops.sqr(ctx, new_input(ctx, "x", 4))
    s = Sched(m.streams)
    s.set_tensor_backend(t, m.gpus[0])
    s.reserve(graph_of(t))
    s.alloc_graph(graph_of(t))
    assert s.get_tensor_backend(t) is m.gpus[0]
    s.reset()
    s.split_graph(graph_of(t))
    assert s.causes[t] == "3.best"
    assert s.get_tensor_backend(t) is m.cpu


def test_usr_with_a_foreign_backend() -> None:
    m, other = Machine(), Machine()
    with pytest.raises(SchedulerError, match="GPU0 does not belong to this scheduler"):
        Sched(m.streams).set_tensor_backend(Context().new_tensor(Type.F32, (1,)), other.gpus[0])


def test_usr_on_a_backend_without_the_op() -> None:
    m, ctx = Machine(gpu=ALL_BUT_SQR), Context()
    t = ops.sqr(ctx, new_input(ctx, "x", 4)).set_name("y")
    s = Sched(m.streams)
    s.set_tensor_backend(t, m.gpus[0])
    with pytest.raises(UnsupportedOpError, match=r"'y' .*SQR.*GPU0.*has no SQR kernel"):
        s.alloc_graph(graph_of(t))


def test_1_dst() -> None:
    m, ctx = Machine(), Context()
    w = new_weight(ctx, "w", m.vram[0], 4)
    s = Sched(m.streams)
    s.split_graph(graph_of(ops.sqr(ctx, w)))
    assert s.causes[w] == "1.dst"
    assert s.get_tensor_backend(w) is m.gpus[0]


def test_1_vsrc() -> None:
    m, ctx = Machine(), Context()
    cache = place(ctx.new_tensor(Type.F32, (4, 2)), m.vram[0], usage=BufferUsage.ANY)
    t = ops.set_rows(ctx, cache, new_input(ctx, "x", 4), new_input(ctx, "i", 1, type_=Type.I64))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.causes[t] == "1.vsrc"
    assert s.get_tensor_backend(t) is m.gpus[0]


def test_1_inp() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    s = Sched(m.streams)
    s.split_graph(graph_of(ops.sqr(ctx, x)))
    assert s.causes[x] == "1.inp"
    assert s.get_tensor_backend(x) is m.cpu


@pytest.mark.parametrize("place_of_weight", [0, 1])
def test_1_wgt(place_of_weight: int) -> None:
    m, ctx = Machine(), Context()
    x, w = new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4)
    t = ops.add(ctx, *((w, x) if place_of_weight == 0 else (x, w)))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.causes[t] == f"1.wgt{place_of_weight}"
    assert s.get_tensor_backend(t) is m.gpus[0]


def test_1_wgt_not_for_small_tables() -> None:
    m, ctx = Machine(), Context()
    x, pos = new_input(ctx, "x", 4, 1, 1), new_input(ctx, "pos", 1, type_=Type.I32)
    freqs = new_weight(ctx, "freqs", m.vram[0], 2)
    t = ops.rope(ctx, x, pos, ops.RopeParams(n_dims=4), freq_factors=freqs)
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.get_tensor_backend(t) is m.cpu


def test_1_off() -> None:
    m, ctx = Machine(gpu={"offload": frozenset({Op.MUL_MAT})}), Context()
    t = ops.mul_mat(ctx, new_weight(ctx, "w", m.host, 4, 4), new_input(ctx, "x", 4, 2))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.causes[t] == "1.off"
    assert s.get_tensor_backend(t) is m.gpus[0]
    without = Sched(m.streams, op_offload=False)
    without.split_graph(graph_of(t))
    assert without.causes[t] == "1.wgt0"
    assert without.get_tensor_backend(t) is m.cpu


def test_2_sup_spreads_gpus_before_the_cpu() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    on_cpu = ops.add(ctx, x, new_weight(ctx, "w0", m.host, 4))
    between = ops.sqr(ctx, on_cpu)
    on_gpu = ops.add(ctx, between, new_weight(ctx, "w1", m.vram[0], 4))
    after = ops.sqr(ctx, on_gpu)
    s = Sched(m.streams)
    s.split_graph(graph_of(after))
    assert [s.causes[t] for t in (between, after)] == ["2.sup", "2.sup"]
    assert s.get_tensor_backend(on_cpu) is m.cpu
    assert s.get_tensor_backend(between) is m.gpus[0]
    assert s.get_tensor_backend(after) is m.gpus[0]


def test_3_best() -> None:
    m, ctx = Machine(gpu=ALL_BUT_SQR), Context()
    a = ops.add(ctx, new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4))
    t = ops.sqr(ctx, a)
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.causes[t] == "3.best"
    assert s.get_tensor_backend(t) is m.cpu


def test_3_upg() -> None:
    m, ctx = Machine(0), Context()
    fast = MockDevice("BLAS", DeviceType.ACCEL, m.host, ops={Op.MUL_MAT}).init_backend(log=m.log)
    a = ops.add(ctx, new_input(ctx, "x", 4, 4), new_weight(ctx, "w", m.host, 4, 4))
    t = ops.mul_mat(ctx, a, a)
    last = ops.add(ctx, t, new_weight(ctx, "v", m.host, 4))
    s = Sched([fast, m.cpu])
    s.split_graph(graph_of(last))
    assert s.causes[t] == "3.upg"
    assert [s.get_tensor_backend(x) for x in (a, t, last)] == [m.cpu, fast, m.cpu]


def test_3_root_brings_a_writer_to_the_memory_it_writes() -> None:
    m, ctx = Machine(gpu={"all_but": frozenset({Op.CPY})}), Context()
    a = ops.add(ctx, new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4))
    root = ops.scale(ctx, a, 2.0)
    writer = ops.cpy(ctx, a, root)
    s = Sched(m.streams)
    s.split_graph(graph_of(ops.add(ctx, writer, new_weight(ctx, "v", m.vram[0], 4))))
    assert s.causes[root] == "3.root"
    assert s.get_tensor_backend(root) is s.get_tensor_backend(writer) is m.cpu


def test_3_root_names_what_cannot_be_together() -> None:
    m, ctx = Machine(gpu={"all_but": frozenset({Op.CPY})}, cpu=ALL_BUT_SQR), Context()
    a = ops.add(ctx, new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4))
    root = ops.sqr(ctx, a).set_name("target")
    with pytest.raises(UnsupportedOpError, match=r"both hold tensor 'target'.*GPU0: has no CPY"):
        Sched(m.streams).split_graph(graph_of(ops.cpy(ctx, a, root)))


def test_4_vsrc() -> None:
    m, ctx = Machine(), Context()
    a = ops.add(ctx, new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4))
    view = ops.reshape(ctx, a, (2, 2))
    s = Sched(m.streams)
    s.split_graph(graph_of(ops.sqr(ctx, view)))
    assert s.causes[view] == "4.vsrc"
    assert s.get_tensor_backend(view) is m.gpus[0]


def test_4_cur() -> None:
    m, ctx = Machine(), Context()
    plain = ctx.new_tensor(Type.F32, (4,))
    t = ops.add(ctx, plain, new_weight(ctx, "w", m.vram[0], 4))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.causes[plain] == "4.cur"
    assert s.get_tensor_backend(plain) is m.gpus[0]


def test_4_cpy() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    t = ops.add(ctx, x, new_weight(ctx, "w", m.vram[0], 4))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert s.plan is not None
    copy = s.plan.copy_of(x, 0)
    assert (copy.name, s.causes[copy]) == ("GPU0#x#0", "4.cpy")
    assert s.splits[0].inputs == [x]


def test_6_cpy() -> None:
    m, ctx = Machine(), Context()
    x = new_input(ctx, "x", 4)
    s = Sched(m.streams, parallel=True)
    s.split_graph(graph_of(ops.sqr(ctx, x)))
    assert s.plan is not None
    copies = s.plan.copies[x, 1]
    assert [c.name for c in copies] == ["x", "CPU#x#1", "CPU#x#2", "CPU#x#3"]
    assert s.causes[copies[1]] == "6.cpy"


# ---- what cannot be placed ---------------------------------------------------------------------


def test_error_names_tensor_buffer_op_and_backends() -> None:
    m, other, ctx = Machine(), Machine(2), Context()
    w = new_weight(ctx, "cache_k_l58", other.vram[1], 4)
    with pytest.raises(SchedulerError) as e:
        Sched(m.streams).alloc_graph(graph_of(ops.sqr(ctx, w)))
    for part in ("'cache_k_l58'", "GPU1 (16 bytes)", "op NONE", "GPU0: cannot", "CPU: cannot"):
        assert part in str(e.value)


def test_error_when_nobody_runs_an_op() -> None:
    m, ctx = Machine(gpu=ALL_BUT_SQR, cpu=ALL_BUT_SQR), Context()
    t = ops.sqr(ctx, new_input(ctx, "x", 4)).set_name("y")
    with pytest.raises(UnsupportedOpError) as e:
        Sched(m.streams).alloc_graph(graph_of(t))
    for part in ("'y'", "op SQR", "GPU0: has no SQR kernel", "CPU: has no SQR kernel"):
        assert part in str(e.value)


def test_error_for_a_leaf_that_nobody_uses() -> None:
    m, ctx = Machine(), Context()
    lonely = ctx.new_tensor(Type.F32, (4,), name="lonely")
    g = graph_of(ops.sqr(ctx, new_input(ctx, "x", 4)), lonely)
    with pytest.raises(SchedulerError, match=r"'lonely'.*set_input"):
        Sched(m.streams).alloc_graph(g)


def test_error_when_the_last_backend_is_no_cpu() -> None:
    m = Machine()
    with pytest.raises(SchedulerError, match="must be of type CPU"):
        Sched([m.cpu, m.gpus[0]])
    with pytest.raises(SchedulerError, match="at least one backend"):
        Sched([])


def test_error_for_a_buffer_type_the_backend_cannot_read() -> None:
    m = Machine()
    with pytest.raises(SchedulerError, match="GPU0 cannot read CPU memory"):
        Sched(m.streams, bufts=[m.host, m.host])


def test_a_missing_op_costs_a_split_only() -> None:
    m, ctx = Machine(gpu=ALL_BUT_SQR), Context()
    t = ops.add(ctx, new_input(ctx, "x", 4), new_weight(ctx, "w", m.vram[0], 4))
    t = ops.add(ctx, ops.sqr(ctx, t), new_weight(ctx, "v", m.vram[0], 4))
    s = Sched(m.streams)
    s.split_graph(graph_of(t))
    assert [x.backend.name for x in s.splits] == ["GPU0", "CPU", "GPU0"]
