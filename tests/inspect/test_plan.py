"""What is drawn equals the engine: places, sizes, lifetimes, backends, causes, copies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from wggml import inspect
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.types import Type
from wggml.errors import UsageError
from wggml.hal.registry import default_registry
from wggml.inspect.data import BEFORE, GraphPlan
from wggml.inspect.plan_text import plan_text
from wggml.llama import Llama
from wggml.sched import Sched

Open = Callable[..., Llama]


def places(plan: GraphPlan) -> list[tuple[str, int, int, int, int]]:
    return sorted((r.name, r.buffer, r.chunk, r.offset, r.size) for r in plan.memory.rects)


def engine_places(sched: Sched) -> list[tuple[str, int, int, int, int]]:
    plan = sched.memory_plan
    assert plan is not None
    names, found = [*plan.leaf_names, *plan.node_names], [*plan.leafs, *plan.nodes]
    return sorted((n, *p) for n, p in zip(names, found, strict=True) if p is not None)


def check_no_overlap(plan: GraphPlan) -> None:
    """Bytes belong to one tensor at a time; where one takes another's over, for the step in which
    it reads it both have them."""
    rects = plan.memory.rects
    for i, a in enumerate(rects):
        for b in rects[i + 1 :]:
            if (a.buffer, a.chunk) != (b.buffer, b.chunk) or not a.size or not b.size:
                continue
            together = a.start <= b.end and b.start <= a.end
            overlap = a.offset < b.offset + b.size and b.offset < a.offset + a.size
            if together and overlap:
                assert b.inplace == a.name and b.start == a.end, (a, b)


@pytest.mark.parametrize("n_tokens", [1, 32])
@pytest.mark.parametrize("ngl", [0, 2, -1])
def test_map_is_the_allocators_plan(open_tiny: Open, gpu: str, ngl: int, n_tokens: int):
    with open_tiny(gpu, n_gpu_layers=ngl, fill_weights=False) as llama:
        context = llama.context
        taken = inspect.plan_context(context, n_tokens)
        assert [b.counters.graphs for b in context.backends] == [0] * len(context.backends)
        # with one backend per kind of memory, buffer indices are backend indices
        assert places(taken) == engine_places(context.sched)
        for i, buffer in enumerate(taken.memory.buffers):
            real = [b.size for b in context.sched.buffers(context.backends[i])]
            assert [c.size for c in buffer.chunks] == real
            assert all(c.peak <= c.size for c in buffer.chunks)
            mine = [r for r in taken.memory.rects if r.buffer == i]
            tops = Counter[int]()
            for r in mine:
                tops[r.chunk] = max(tops[r.chunk], r.offset + r.size)
            align = context.sched.bufts[i].alignment
            for chunk, c in enumerate(buffer.chunks):
                assert c.peak == -(-tops[chunk] // align) * align
            assert buffer.tensor_bytes == sum(r.size for r in mine)
            assert max(taken.memory.usage(i), default=0) <= buffer.peak
        check_no_overlap(taken)


def test_high_water_is_the_real_buffers_size(open_tiny: Open, gpu: str):
    """Of the graph that was reserved last and needs most, the high-water mark is all there is."""
    with open_tiny(gpu, n_gpu_layers=2, fill_weights=False) as llama:
        taken = inspect.plan_context(llama.context, llama.context.n_ubatch)
        sizes = llama.context.compute_buffer_sizes()
        for buffer in taken.memory.buffers:
            (b,) = buffer.backends
            assert buffer.peak == buffer.size == sizes[taken.splits.backends[b].name] > 0


def test_live_graph_is_drawn_where_its_tensors_lie(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2) as llama:
        llama.eval([3, 5, 9])
        llama.eval([7], position=3)
        sched = llama.context.sched
        taken = inspect.snapshot_context(llama.context)
        g = sched.alloc_graph_copy
        assert g is not None and sched.is_allocated
        found = Counter(
            (t.name, sched.buffers(b).index(t.buffer), t.data)
            for t in {*g.graph.nodes, *g.graph.leafs}
            for b in sched.backends
            if t.view_src is None and t.buffer in sched.buffers(b)
        )
        drawn = Counter((r.name, r.chunk, r.offset) for r in taken.memory.rects)
        assert drawn == found and len(drawn) > 50


def test_sources_live_while_they_are_read(open_tiny: Open):
    with open_tiny("cpu", "gemma3") as llama:
        taken = inspect.plan_context(llama.context, 8)
        rects = {r.node: r for r in taken.memory.rects if r.node != BEFORE}
        step_of = {n.name: n.step for n in taken.splits.nodes}
        checked = 0
        for n in taken.splits.nodes:
            for s in n.sources:
                rect = rects.get(step_of.get(s, BEFORE))
                if rect is not None and not n.is_view:
                    assert rect.start <= n.step <= rect.end, (n, rect)
                    checked += 1
        assert checked > 100
        assert any(r.inplace for r in taken.memory.rects)
        reused = [r for r in taken.memory.rects if r.reused]
        by_name = {r.name: r for r in taken.memory.rects}
        for r in reused:
            assert all(by_name[n].end < r.start for n in r.reused), r
        inplace = sum(bool(r.inplace) for r in taken.memory.rects)
        assert len(reused) + inplace > 0.8 * len(taken.memory.rects)


def test_split_map_is_the_schedulers(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2, fill_weights=False) as llama:
        taken = inspect.plan_context(llama.context, 8)
        told = llama.context.sched.to_json()
        n_leafs = told["n_leafs"]
        nodes = told["tensors"][n_leafs : n_leafs + told["n_nodes"]]
        mine = sorted(taken.splits.nodes, key=lambda n: n.index)
        assert [(n.name, n.backend, n.cause) for n in mine] == [
            (t["name"], t["backend"], t["cause"]) for t in nodes
        ]
        assert taken.splits.copied_bytes == told["copied_bytes"] > 0
        copies = [(i["name"], i["nbytes"]) for s in told["splits"] for i in s["inputs"]]
        assert [(c.name, c.nbytes) for c in taken.splits.copies] == copies
        assert [(s.start, s.end) for s in taken.splits.splits] == [
            (s["i_start"], s["i_end"]) for s in told["splits"]
        ]
        computing = Counter(n.backend for n in taken.splits.nodes if not n.is_view)
        rows = Counter[int]()
        for r in taken.ops.rows:
            rows[r.backend] += r.count
            assert sum(r.causes.values()) == r.count
        assert rows == computing


def test_why_a_node_left_the_gpu(gpu: str):
    """A weight that no binding holds stays on the CPU, and so does the node, by name of the limit;
    what follows it says which cause put it where it is."""
    masked = default_registry().find(gpu).with_mask("binding=16K")  # type: ignore[attr-defined]
    backends = [masked.init_backend(), default_registry().cpu().init_backend()]
    ctx = Context(16)
    x = ctx.new_tensor(Type.F32, [64, 128], name="x").set_input()
    y = ops.cumsum(ctx, x).set_name("y").set_output()
    graph = Graph(8)
    graph.build_forward_expand(y)
    with Sched(backends) as sched:
        taken = inspect.plan(graph, sched, "a small graph")
    (node,) = taken.splits.nodes
    assert taken.title == "a small graph"
    assert node.backend == 1 and "16384" in node.left and masked.name in node.left, node
    (row,) = taken.ops.rows
    assert row.left == [node.left]
    assert "16384" in plan_text(taken)


def test_causes_in_words():
    for cause in ("1.wgt0", "1.inp", "2.sup", "3.root", "4.cpy", "usr"):
        assert inspect.explain_cause(cause)
    assert "source 1" in inspect.explain_cause("1.wgt1")
    assert inspect.explain_cause("9.none") == ""


def test_json_says_the_same(open_tiny: Open):
    with open_tiny("cpu") as llama:
        taken = inspect.plan_context(llama.context, 4)
    data = json.loads(json.dumps(taken.to_json()))
    assert len(data["memory"]["rects"]) == len(taken.memory.rects)
    assert data["memory"]["buffers"][0]["peak"] == taken.memory.buffers[0].peak
    assert {f["what"] for f in data["fixed"]} == {"weights", "KV cache"}


def test_decoding_goes_on_after_a_plan(open_tiny: Open):
    with open_tiny("cpu") as llama:
        before = llama.eval([3, 5, 9])
        llama.context.kv.clear()
        inspect.plan_context(llama.context, 16)
        assert np.array_equal(llama.eval([3, 5, 9]), before)


def test_refusals(open_tiny: Open):
    with open_tiny("cpu") as llama:
        with pytest.raises(UsageError, match="1 to 32 tokens"):
            inspect.plan_context(llama.context, 33)
        with Sched(llama.context.backends) as sched, pytest.raises(UsageError, match="no graph"):
            inspect.snapshot(sched)


def test_text_shows_memory_splits_and_ops(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2, fill_weights=False) as llama:
        taken = inspect.plan_context(llama.context, 16, "this one")
    lines = plan_text(taken).splitlines()
    assert lines[0] == "this one"
    assert sum("high-water mark" in line for line in lines) == 2
    assert any("█" in line for line in lines)
    assert any(line.startswith("  split 1:") for line in lines)
    assert any("MUL_MAT" in line and "1.wgt0" in line for line in lines)
