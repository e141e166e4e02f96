"""Placed graphs run on tokens: no operand, input or output may be overwritten before it is read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alloc.recipes import Recipe, Step, bufts, mock_buft, recipes, rewired
from wggml.alloc import Gallocr
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag
from wggml.hal.interface import BufferType
from wggml.testing.plan_execute import memory_errors

INPUT, OUTPUT = int(Flag.INPUT), int(Flag.OUTPUT)


def place(galloc: Gallocr, graph: Graph, seed: int = 0) -> None:
    """Place a graph as a scheduler does, on buffer ids that follow from `seed`."""
    n = len(galloc.bufts)
    node_ids = [(seed >> (i % 13)) % n for i in range(len(graph.nodes))]
    leaf_ids = [(seed >> (i % 11)) % n for i in range(len(graph.leafs))]
    if not galloc.alloc_graph(graph, node_ids, leaf_ids):
        assert galloc.reserve_n(graph, node_ids, leaf_ids)
        assert galloc.alloc_graph(graph, node_ids, leaf_ids)


@settings(max_examples=250, deadline=None)
@given(recipes, bufts, st.integers(0, 2**13))
def test_no_memory_is_reused_too_early(recipe: Recipe, bufts: list[BufferType], seed: int) -> None:
    graph = recipe.build()
    place(Gallocr(bufts), graph, seed)
    assert memory_errors(graph) == []


@settings(max_examples=150, deadline=None)
@given(rewired(), bufts, st.integers(0, 2**13))
def test_a_plan_never_serves_a_graph_it_would_corrupt(
    pair: tuple[Recipe, Recipe], bufts: list[BufferType], seed: int
) -> None:
    galloc = Gallocr(bufts)
    for recipe in (*pair, pair[0]):
        graph = recipe.build()
        place(galloc, graph, seed)
        assert memory_errors(graph) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(recipes, min_size=2, max_size=4), bufts, st.integers(0, 2**13))
def test_graphs_in_turn_placed_again_and_again(
    many: list[Recipe], bufts: list[BufferType], seed: int
) -> None:
    galloc = Gallocr(bufts)
    graphs = [r.build() for r in many]
    for graph in [*graphs, *graphs, graphs[0]]:
        place(galloc, graph, seed)
        assert memory_errors(graph) == []


@settings(max_examples=100, deadline=None)
@given(recipes, bufts, st.sampled_from([1, 2, 4]))
def test_a_plan_for_the_largest_graph_serves_smaller_ones(
    recipe: Recipe, bufts: list[BufferType], scale: int
) -> None:
    galloc = Gallocr(bufts)
    galloc.reserve_n(recipe.build(4), None, None)
    graph = recipe.build(scale)
    assert galloc.why_realloc(graph) == ""
    assert galloc.alloc_graph(graph)
    assert galloc.n_plans == 1
    assert memory_errors(graph) == []


@settings(max_examples=60, deadline=None)
@given(recipes, st.integers(1, 30))
def test_a_graph_may_grow_after_it_was_placed(recipe: Recipe, more: int) -> None:
    """What lies in the allocator's own memory is placed anew with the rest."""
    graph = recipe.build()
    whole = list(graph.nodes)
    graph.nodes = whole[: max(len(whole) - more, 0)]
    galloc = Gallocr([mock_buft()])
    assert galloc.alloc_graph(graph)
    graph.nodes = whole
    assert galloc.alloc_graph(graph)
    assert memory_errors(graph) == []


# ---- the checker itself, and where ggml's own rules go wrong ------------------------------------


def step(kind: str, a: int = 0, b: int = 0, c: int = 0, flags: int = 0, size: int = 3) -> Step:
    return Step(kind, a, b, c, size, False, flags)


CHAIN = Recipe((step("mul_mat"), step("mul_mat"), step("mul_mat"), step("mul_mat")), ())
LATE_READER = Recipe((*CHAIN.steps[:3], step("mul_mat", 0, 2)), ())


def test_positional_rule_corrupts_a_graph_of_other_topology() -> None:
    galloc = Gallocr([mock_buft()], key="positional")
    graph = LATE_READER.build()
    assert galloc.reserve(CHAIN.build()) and galloc.alloc_graph(graph)
    assert galloc.n_plans == 1
    assert memory_errors(graph) == ["'t1', read by 't4', was overwritten"]


def test_safe_rule_does_not() -> None:
    galloc = Gallocr([mock_buft()])
    graph = LATE_READER.build()
    assert galloc.reserve(CHAIN.build()) and galloc.alloc_graph(graph)
    assert galloc.n_plans == 2
    assert memory_errors(graph) == []


# name -> a graph that ggml's rules corrupt. Operands count backwards: 0 is the tensor just made.
GGML_CORRUPTS = {
    "a leaf view read after its root's last reader": Recipe(
        (
            step("cont"),
            step("leaf_view"),
            step("mul_mat", 1, 1),
            step("mul_mat", 0, 0),
            step("mul_mat", 2, 0),
            step("add", 0, 3),
        ),
        (),
    ),
    "a view marked as output, read, then its root reused": Recipe(
        (
            step("cont"),
            step("reshape", flags=OUTPUT),
            step("cont"),
            step("cont"),
            step("cont"),
            step("cont"),
        ),
        (),
    ),
    "a parameter that earlier nodes compute over": Recipe(
        (step("cont"), step("cont"), step("cont"), step("param"), step("add", 1, 0)), ()
    ),
    "an unread leaf view marked as output": Recipe(
        (step("leaf"), step("leaf_view", flags=OUTPUT), step("scale", 1)), (1, 2)
    ),
    "an operator marked as input that takes over an operand others read": Recipe(
        (
            step("leaf"),
            step("cont"),
            step("cont"),
            step("cont"),
            step("mul_mat", 4, 0),
            step("scale", 5, flags=INPUT),
            step("mul_mat", 1, 0),
        ),
        (),
    ),
    "ADD_ID gathers rows of the operand it overwrites": Recipe(
        (step("cont", flags=OUTPUT), step("cont"), step("input"), step("add_id", 2, 1, 0)), ()
    ),
}


@pytest.mark.parametrize("name", GGML_CORRUPTS)
def test_where_the_safe_plan_departs_from_ggml(name: str) -> None:
    exact, safe = GGML_CORRUPTS[name].build(), GGML_CORRUPTS[name].build()
    assert Gallocr([mock_buft()], key="positional").alloc_graph(exact)
    assert memory_errors(exact) != [], "the example no longer shows the difference"
    assert Gallocr([mock_buft()]).alloc_graph(safe)
    assert memory_errors(safe) == []


def test_checker_sees_overlapping_places() -> None:
    graph = Recipe((step("cont"), step("cont")), ()).build()
    assert Gallocr([mock_buft()]).alloc_graph(graph)
    assert memory_errors(graph) == []
    graph.nodes[0].data = graph.leafs[0].data
    assert any("overlaps" in e for e in memory_errors(graph))
    graph.nodes[0].data = 10**6
    assert any("ends at" in e for e in memory_errors(graph))
