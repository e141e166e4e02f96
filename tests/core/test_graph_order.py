"""Order of nodes and leafs: recorded graphs, then properties of random ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.alloc.recipes import Recipe, recipes
from wggml.core.context import Context
from wggml.core.graph import Graph, Order, next_uid
from wggml.core.opcodes import Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ContextFullError
from wggml.testing.plan_graphs import build_graphs, built_fields, compare_fields
from wggml.testing.plan_oracle import read_scenarios

COMPUTE = int(Flag.COMPUTE)


def op(ctx: Context, *sources: Tensor | None, kind: Op = Op.ADD, name: str = "") -> Tensor:
    t = ctx.new_tensor(Type.F32, (4,), name=name)
    t.op, t.src = kind, list(sources)
    return t


def leaf(ctx: Context, name: str = "") -> Tensor:
    return ctx.new_tensor(Type.F32, (4,), name=name)


def names(tensors: list[Tensor]) -> list[str]:
    return [t.name for t in tensors]


@pytest.mark.parametrize("kind", ["order", "galloc", "sched"])
def test_graphs_come_out_as_recorded(kind: str, data_dir: Path) -> None:
    scenarios = read_scenarios(data_dir / "plan" / f"{kind}.json.gz")
    wrong = [
        f"{s['name']}: {m}"
        for s in scenarios
        for b in build_graphs(s)
        for m in compare_fields(b.spec["built"], built_fields(b))
    ]
    assert wrong == []


@pytest.mark.parametrize("order", [Order.LEFT_TO_RIGHT, Order.RIGHT_TO_LEFT])
def test_sources_are_visited_in_the_order_asked_for(order: Order) -> None:
    ctx = Context()
    a, b = leaf(ctx, "a"), leaf(ctx, "b")
    left, right = op(ctx, a, name="left"), op(ctx, b, name="right")
    graph = Graph(order=order)
    graph.build_forward_expand(op(ctx, left, None, right, name="top"))
    first = ["left", "right"] if order is Order.LEFT_TO_RIGHT else ["right", "left"]
    assert names(graph.nodes) == [*first, "top"]


@settings(max_examples=150, deadline=None)
@given(recipes)
def test_sources_come_first_each_tensor_once(recipe: Recipe) -> None:
    graph = recipe.build()
    both = [*graph.leafs, *graph.nodes]
    assert len(set(both)) == len(both) == len(graph.use_counts)
    seen = set(graph.leafs)
    for t in graph.nodes:
        assert all(s is None or s in seen for s in t.src)
        assert bool(t.flags & COMPUTE) == (t.op != Op.NONE)
        seen.add(t)
    assert all(t.op == Op.NONE and not t.flags & int(Flag.PARAM) for t in graph.leafs)
    for t in both:
        assert graph.use_counts[t] == sum(s is t for u in both for s in u.src)


@settings(max_examples=60, deadline=None)
@given(recipes)
def test_expanding_again_changes_nothing(recipe: Recipe) -> None:
    graph = recipe.build()
    before = (list(graph.nodes), list(graph.leafs), dict(graph.use_counts))
    for t in before[0]:
        graph.build_forward_expand(t)
    assert (graph.nodes, graph.leafs, graph.use_counts) == before


def test_a_chain_deeper_than_the_recursion_limit() -> None:
    ctx = Context(30001)
    t = leaf(ctx)
    for _ in range(30000):
        t = op(ctx, t)
    graph = Graph(30000)
    graph.build_forward_expand(t)
    assert len(graph.nodes) == 30000 and graph.nodes[-1] is t


def test_ordered_only_is_not_computed_until_expanded() -> None:
    ctx = Context()
    a = op(ctx, leaf(ctx))
    b = op(ctx, a)
    graph = Graph()
    graph.build_forward_order(b)
    assert not a.flags & COMPUTE and not b.flags & COMPUTE
    graph.build_forward_expand(b)
    assert a.flags & COMPUTE and b.flags & COMPUTE
    assert graph.nodes == [a, b]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_select_orders_all_heads_and_computes_one(index: int) -> None:
    ctx = Context()
    shared = op(ctx, leaf(ctx), name="shared")
    heads = [op(ctx, op(ctx, shared, name=f"h{i}a"), name=f"h{i}") for i in range(3)]
    graph = Graph()
    assert graph.build_forward_select(heads, index) is heads[index]
    assert names(graph.nodes) == ["shared", "h0a", "h0", "h1a", "h1", "h2a", "h2"]
    assert [t.name for t in graph.nodes if t.flags & COMPUTE] == [
        "shared", f"h{index}a", f"h{index}",
    ]  # fmt: skip


def test_unnamed_tensors_get_names_by_their_place() -> None:
    ctx = Context()
    p = leaf(ctx).set_param()
    graph = Graph()
    graph.build_forward_expand(op(ctx, leaf(ctx), op(ctx, p), name="named"))
    assert names(graph.leafs) == ["leaf_0"]
    assert names(graph.nodes) == ["node_0", "node_1", "named"]
    assert graph.get_tensor("node_0") is p and graph.get_tensor("leaf_0") is graph.leafs[0]
    assert graph.get_tensor("nobody") is None


@pytest.mark.parametrize("kind", ["node", "leaf"])
def test_a_full_graph_says_what_did_not_fit(kind: str) -> None:
    ctx = Context()
    graph = Graph(2)
    make = leaf if kind == "leaf" else op
    for _ in range(2):
        graph.build_forward_expand(make(ctx))
    with pytest.raises(ContextFullError, match=rf"made for 2 {kind}s and 'third' is one more"):
        graph.build_forward_expand(make(ctx, name="third"))


def test_a_view_of_a_graph_shares_its_tensors() -> None:
    ctx = Context()
    t = leaf(ctx)
    graph = Graph()
    for i in range(4):
        t = op(ctx, t, name=f"n{i}")
    graph.build_forward_expand(t)
    part = graph.view(1, 3)
    assert names(part.nodes) == ["n1", "n2"] and part.leafs == [] and part.uid == 0
    graph.clear()
    assert len(graph.nodes) == 0 and t not in graph and names(part.nodes) == ["n1", "n2"]


def test_stamps_are_never_repeated() -> None:
    stamps = [next_uid() for _ in range(100)]
    assert 0 not in stamps and len(set(stamps)) == 100
