"""`Gallocr`: memory it asks for, when it asks again, what happens when it is refused."""

from __future__ import annotations

import json

import pytest

from tests.alloc.recipes import LimitedBufferType, mock_buft
from wggml.alloc import Gallocr, Place, Plan
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import AllocationError, PlanError
from wggml.hal.interface import BufferUsage
from wggml.testing.plan_execute import memory_errors


def op(ctx: Context, kind: Op, sources: list[Tensor | None], n: int, name: str = "") -> Tensor:
    t = ctx.new_tensor(Type.F32, (n,), name=name)
    t.op, t.src = kind, sources
    return t


def chain(*sizes: int, kind: Op = Op.MUL_MAT) -> Graph:
    """A leaf `x` and a node for each further size (in values of 4 bytes), each reading the last."""
    ctx = Context()
    t = ctx.new_tensor(Type.F32, (sizes[0],), name="x")
    for i, n in enumerate(sizes[1:]):
        t = op(ctx, kind, [t], n, f"n{i}")
    graph = Graph()
    graph.build_forward_expand(t)
    return graph


# ---- what is requested --------------------------------------------------------------------------


def test_buffers_have_exactly_the_high_water_marks() -> None:
    buft = mock_buft()
    galloc = Gallocr([buft])
    assert galloc.reserve(chain(8, 16, 8))  # 32 + 64 bytes, then n1 takes the place of x
    assert buft.log == [["a", 0, 96]]
    assert [(b.size, b.usage) for b in galloc.buffers(0)] == [(96, BufferUsage.COMPUTE)]
    assert galloc.buffer_size(0) == 96


def test_a_smaller_graph_keeps_the_buffer_and_shrinks_the_plan() -> None:
    buft = mock_buft()
    galloc = Gallocr([buft])
    galloc.reserve(chain(80, 80, 80))
    galloc.reserve(chain(8, 8))
    assert galloc.plan.chunk_sizes == [[64]]
    assert galloc.buffer_size(0) == 640
    assert buft.log == [["a", 0, 640]]


def test_one_chunk_grows_while_the_total_shrinks() -> None:
    buft = mock_buft(max_size=64)
    galloc = Gallocr([buft])
    galloc.reserve(chain(100, 100))  # 400 and 400 bytes, each in a chunk of its own
    assert galloc.plan.chunk_sizes == [[416, 416]]
    second = chain(8, 110)
    assert galloc.alloc_graph(second)
    assert galloc.plan.chunk_sizes == [[32, 448]]
    assert [b.size for b in galloc.buffers(0)] == [32, 448]
    assert galloc.n_reallocs == 1
    assert memory_errors(second) == []


def test_ids_of_one_type_share_memory() -> None:
    one, other = mock_buft(), mock_buft()
    galloc = Gallocr([one, other, one])
    graph = chain(8, 8, 8, 8)
    galloc.reserve_n(graph, [0, 1, 2], [2])
    assert galloc.buffers(0) == galloc.buffers(2) and galloc.buffers(0) != galloc.buffers(1)
    assert [galloc.buffer_size(i) for i in range(3)] == [64, 32, 0]
    assert galloc.alloc_graph(graph)
    assert memory_errors(graph) == []


def test_tensors_without_bytes_need_no_buffer() -> None:
    buft = mock_buft()
    graph = chain(0, 0)
    assert Gallocr([buft]).alloc_graph(graph)
    assert buft.log == []
    assert all(t.buffer is not None and t.data == 0 for t in (*graph.leafs, *graph.nodes))
    assert graph.nodes[0].buffer is not None and graph.nodes[0].buffer.size == 0


def test_measuring_makes_nothing_and_drops_what_is_too_small() -> None:
    buft = mock_buft()
    galloc = Gallocr([buft])
    assert galloc.reserve_n_size(chain(8, 8), None, None) == [64]
    assert buft.log == [] and not galloc.has_memory(0)
    galloc.reserve(chain(8, 8))
    assert galloc.reserve_n_size(chain(80, 80), None, None) == [640]
    assert buft.log == [["a", 0, 64], ["f", 0, 64]]
    assert galloc.why_realloc(chain(80, 80)) == "its memory was only measured"


# ---- when it plans again ------------------------------------------------------------------------


def test_the_same_topology_is_not_planned_again() -> None:
    galloc = Gallocr([mock_buft()])
    galloc.reserve(chain(8, 8, 8))
    for sizes in [(8, 8, 8), (4, 8, 1), (8, 8, 8)]:
        assert galloc.alloc_graph(chain(*sizes))
    assert galloc.n_plans == 1


def test_several_ids_wait_for_the_caller() -> None:
    galloc = Gallocr([mock_buft(), mock_buft()])
    graph = chain(8, 8)
    assert not galloc.alloc_graph(graph)
    assert galloc.needs_realloc(graph)
    assert galloc.reserve_n(graph, [1], [0])
    assert not galloc.alloc_graph(chain(8, 9))
    assert galloc.alloc_graph(graph)
    assert graph.nodes[0].buffer is galloc.buffers(1)[0]


def test_other_buffer_ids_need_another_plan() -> None:
    one, other = mock_buft(), mock_buft()
    galloc = Gallocr([one, other, one])
    galloc.reserve_n(chain(8, 8), [0], [0])
    assert not galloc.needs_realloc(chain(8, 8), [0], [0])
    assert not galloc.needs_realloc(chain(8, 8), [2], [2])  # the same memory
    assert galloc.needs_realloc(chain(8, 8), [1], [0])
    assert galloc.needs_realloc(chain(8, 8), [0], [1])


@pytest.mark.parametrize(
    "change", ["op", "flag", "source", "placed", "view", "root", "size", "layout"]
)
def test_what_a_plan_depends_on(change: str) -> None:
    def build(changed: str) -> Graph:
        ctx = Context()
        x, y = (ctx.new_tensor(Type.F32, (8,), name=n) for n in "xy")
        c = op(ctx, Op.MUL_MAT, [x, y], 8)
        v = ctx.new_view(y if changed in ("view", "root") else c, Type.F32, (4, 1, 1, 1))
        v.op, v.src = Op.VIEW, [y if changed == "view" else c]
        d = op(ctx, Op.MUL_MAT, [x, c], 8)
        e = op(ctx, Op.ADD, [d, v], 8)
        f = op(ctx, Op.SCALE, [e], 8)
        if changed == "op":
            f.op = Op.CONT
        elif changed == "flag":
            c.set_output()
        elif changed == "source":
            d.src = [c, c]
        elif changed == "placed":
            y.buffer, y.data = mock_buft().alloc_buffer(32), 0
        elif changed == "size":
            f.ne, f.nb = (9, 1, 1, 1), (4, 36, 36, 36)
        elif changed == "layout":
            f.ne, f.nb = (4, 2, 1, 1), (4, 16, 32, 32)
        graph = Graph()
        for t in (x, y, f):
            graph.build_forward_expand(t)
        return graph

    galloc = Gallocr([mock_buft()])
    galloc.reserve(build(""))
    assert galloc.why_realloc(build("")) == ""
    assert galloc.why_realloc(build(change)) != ""


def test_placing_a_graph_again_moves_nothing_and_stamps_it_anew() -> None:
    galloc = Gallocr([mock_buft()])
    graph = chain(8, 8, 8)
    galloc.alloc_graph(graph)
    before = [(t.buffer, t.data) for t in graph.nodes]
    uid = graph.uid
    assert uid != 0
    galloc.alloc_graph(graph)
    assert [(t.buffer, t.data) for t in graph.nodes] == before
    assert graph.uid not in (0, uid)
    assert galloc.n_plans == 1
    uid = graph.uid
    galloc.alloc_graph(graph, stamp=False)
    assert graph.uid == uid


def test_a_graph_in_memory_that_was_replaced_is_placed_anew() -> None:
    galloc = Gallocr([mock_buft()])
    small, large = chain(8, 8, 8), chain(80, 80, 80)
    galloc.alloc_graph(small)
    galloc.alloc_graph(large)
    assert small.nodes[0].buffer is not None and small.nodes[0].buffer.freed
    galloc.alloc_graph(small)
    assert memory_errors(small) == []


def test_weights_in_memory_that_was_freed_are_an_error() -> None:
    graph = chain(8, 8)
    weights = mock_buft("weights").alloc_buffer(32)
    graph.leafs[0].buffer, graph.leafs[0].data = weights, 0
    galloc = Gallocr([mock_buft()])
    assert galloc.alloc_graph(graph)
    weights.free()
    with pytest.raises(AllocationError, match=r"'x' lies in a weights buffer of 32 bytes that was"):
        galloc.alloc_graph(graph)


# ---- refusals -----------------------------------------------------------------------------------


def test_a_refused_reserve_raises_there_and_then() -> None:
    buft = mock_buft("card", fail_above=100)
    galloc = Gallocr([buft])
    graph = chain(8, 1000, 8)
    with pytest.raises(AllocationError) as e:
        galloc.reserve(graph)
    text = str(e.value)
    for part in ("card refused 4000 bytes", "no limit", "'n0' with 4000 bytes", "smaller ubatch"):
        assert part in text
    assert all(t.data is None for t in (*graph.leafs, *graph.nodes))
    with pytest.raises(AllocationError):
        galloc.alloc_graph(graph)


def test_after_a_refusal_a_smaller_graph_is_served() -> None:
    buft = LimitedBufferType(1000)
    galloc = Gallocr([buft])
    galloc.alloc_graph(chain(8, 8))
    with pytest.raises(AllocationError):
        galloc.alloc_graph(chain(500, 500))
    assert not galloc.has_memory(0)
    graph = chain(100, 100)
    assert galloc.alloc_graph(graph)
    assert memory_errors(graph) == []
    used = sum(n if what == "a" else -n for what, _, n in buft.log)
    assert used == galloc.buffer_size(0)


def test_nothing_is_kept_of_a_request_that_failed_half_way() -> None:
    buft = LimitedBufferType(600)
    buft.max_size = 512
    with pytest.raises(AllocationError):
        Gallocr([buft]).reserve(chain(100, 100))
    assert sum(n if what == "a" else -n for what, _, n in buft.log) == 0


def test_a_device_that_overstates_its_limit_gets_smaller_chunks() -> None:
    buft = mock_buft(fail_above=1024)
    galloc = Gallocr([buft])
    ctx, graph = Context(), Graph()
    for i in range(20):
        graph.build_forward_expand(ctx.new_tensor(Type.F32, (64,), name=f"w{i}"))  # 5120 bytes
    assert galloc.alloc_graph(graph)
    assert max(b.size for b in galloc.buffers(0)) <= 1024
    assert [e for e in buft.log if e[0] == "x"] == [["x", 0, 5120], ["x", 0, 2560], ["x", 0, 1280]]
    assert memory_errors(graph) == []


def test_too_many_pieces_name_the_tensor() -> None:
    ctx, graph = Context(4000), Graph(4000)
    kept = []
    for i in range(300):
        a = ctx.new_tensor(Type.F32, (8,), name=f"a{i}")
        kept += [a, ctx.new_tensor(Type.F32, (8,), name=f"b{i}")]
    for t in kept:
        graph.build_forward_expand(t)
    target = ctx.new_tensor(Type.F32, (64,), name="target")
    target.buffer, target.data = mock_buft().alloc_buffer(256), 0
    for i in range(0, 600, 2):
        v = ctx.new_view(target, Type.F32, (8, 1, 1, 1))
        v.op, v.src = Op.CPY, [kept[i], target]
        graph.build_forward_expand(v)
    with pytest.raises(PlanError, match=r"tensor 'a\d+'.*more than 256 free blocks"):
        Gallocr([mock_buft()]).reserve(graph)


# ---- the plan as data ---------------------------------------------------------------------------


def test_the_plan_can_be_read_compared_and_stored() -> None:
    galloc = Gallocr([mock_buft()])
    galloc.reserve(chain(8, 16, 8))
    plan = galloc.plan
    assert plan.leafs == [Place(0, 0, 0, 32)]
    assert plan.nodes == [Place(0, 0, 32, 64), Place(0, 0, 0, 32)]
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    other = Gallocr([mock_buft()])
    other.reserve(chain(8, 16, 4))
    assert other.plan != plan
    lines = str(plan).splitlines()
    assert lines[0] == "buffer 0: 96 bytes in chunks [96]"
    assert lines[3].split() == ["n0", "0", "0", "32", "64"]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_debug_output(
    level: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WGGML_ALLOC_DEBUG", str(level))
    Gallocr([mock_buft()]).reserve(chain(8, 16, 8))
    err = capsys.readouterr().err
    assert ("buffer 0: 96 bytes" in err) == (level >= 1)
    assert ("alloc n0: 64 bytes at (0, 32) of buffer 0" in err) == (level >= 2)
    assert ("free x: 32 bytes" in err) == (level >= 2)


def test_free_gives_all_back_and_the_allocator_can_go_on() -> None:
    buft = mock_buft()
    galloc = Gallocr([buft])
    graph = chain(8, 8)
    galloc.alloc_graph(graph)
    galloc.free()
    galloc.free()
    assert buft.log == [["a", 0, 64], ["f", 0, 64]]
    assert galloc.alloc_graph(graph)
    assert memory_errors(graph) == []


def test_unplace_takes_only_its_own() -> None:
    galloc = Gallocr([mock_buft()])
    graph = chain(8, 8)
    elsewhere = mock_buft().alloc_buffer(32)
    graph.leafs[0].buffer, graph.leafs[0].data = elsewhere, 0
    galloc.alloc_graph(graph)
    assert galloc.owns(graph.nodes[0]) and not galloc.owns(graph.leafs[0])
    galloc.unplace([*graph.leafs, *graph.nodes])
    assert graph.leafs[0].buffer is elsewhere
    assert graph.nodes[0].buffer is None and graph.nodes[0].data is None
