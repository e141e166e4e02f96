"""Replays recorded allocator scenarios (kinds `galloc`, `ctx` and `order`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wggml.alloc import Gallocr, alloc_ctx_tensors, alloc_ctx_tensors_size
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError, PlanError
from wggml.hal.interface import Buffer, BufferUsage
from wggml.testing.plan_graphs import (
    BuiltGraph,
    GraphBuilder,
    MockBuffer,
    Spec,
    StepResult,
)

# ---- what an allocator did, in the words of the recorded data ------------------------------------


def galloc_fields(galloc: Gallocr) -> StepResult:
    """`chunks`, `plan_chunks`, `sizes`, `node_alloc` and `leaf_alloc` of an allocator."""
    ids = range(len(galloc.bufts))
    plan = galloc.plan
    return {
        "chunks": [
            [b.size for b in galloc.buffers(i)] if galloc.has_memory(i) else None for i in ids
        ],
        "plan_chunks": [list(sizes) for sizes in plan.chunk_sizes],
        "sizes": [galloc.buffer_size(i) for i in ids],
        "node_alloc": [p and list(p) for p in plan.nodes],
        "leaf_alloc": [p and list(p) for p in plan.leafs],
    }


def locations(
    tensors: Sequence[Tensor], galloc: Gallocr, buffers: Sequence[MockBuffer]
) -> list[list[int] | None]:
    """`loc`: [buffer id, chunk, offset], [-1, buffer, offset] for a scenario's buffer, or None."""
    known: dict[Buffer, tuple[int, int]] = {b: (-1, i) for i, b in enumerate(buffers)}
    for i in range(len(galloc.bufts)):
        for chunk, b in enumerate(galloc.buffers(i)):
            known.setdefault(b, (i, chunk))
    return [_location(t, known) for t in tensors]


def _location(t: Tensor, known: dict[Buffer, tuple[int, int]]) -> list[int] | None:
    if t.buffer is None or t.data is None or t.buffer not in known:
        return None
    return [*known[t.buffer], t.data]


# ---- kind galloc --------------------------------------------------------------------------------


def run_galloc_scenario(scenario: Spec, build: GraphBuilder) -> list[StepResult]:
    """Run all steps on one allocator with ggml's own rules."""
    graphs = build.build_graphs()
    galloc = Gallocr([build.bufts[i] for i in scenario["galloc_bufts"]], key="positional")
    results: list[StepResult] = []
    for step in scenario["steps"]:
        built = graphs[step["graph"]]
        build.take_log()
        try:
            result = _STEPS[step["do"]](galloc, built.graph, step)
        except PlanError as e:
            results.append({"abort": str(e)})
            break
        except AllocationError:
            result = {"ret": False}
        result |= galloc_fields(galloc)
        if step["do"] == "alloc" and result["ret"]:
            result["loc"] = locations(built.tensors, galloc, build.buffers)
        result["log"] = build.take_log()
        results.append(result)
    return results


def _reserve(galloc: Gallocr, graph: Graph, step: Spec) -> StepResult:
    return {"ret": galloc.reserve(graph)}


def _reserve_n(galloc: Gallocr, graph: Graph, step: Spec) -> StepResult:
    return {"ret": galloc.reserve_n(graph, step["node_buffer_ids"], step["leaf_buffer_ids"])}


def _reserve_n_size(galloc: Gallocr, graph: Graph, step: Spec) -> StepResult:
    sizes = galloc.reserve_n_size(graph, step["node_buffer_ids"], step["leaf_buffer_ids"])
    return {"ret": True, "size_out": sizes}


def _alloc(galloc: Gallocr, graph: Graph, step: Spec) -> StepResult:
    return {"ret": galloc.alloc_graph(graph)}


_STEPS: dict[str, Callable[[Gallocr, Graph, Spec], StepResult]] = {
    "reserve": _reserve,
    "reserve_n": _reserve_n,
    "reserve_n_size": _reserve_n_size,
    "alloc": _alloc,
}


# ---- kinds ctx and order ------------------------------------------------------------------------


def run_ctx_scenario(scenario: Spec, build: GraphBuilder) -> list[StepResult]:
    """Place all tensors of each graph of the scenario in buffers of its first buffer type."""
    graphs = build.build_graphs()
    return [_ctx_alloc(graphs[step["graph"]], build) for step in scenario["steps"]]


def _ctx_alloc(built: BuiltGraph, build: GraphBuilder) -> StepResult:
    buft = build.bufts[0]
    build.take_log()
    result: dict[str, Any] = {"total": alloc_ctx_tensors_size(built.tensors, buft)}
    try:
        made = alloc_ctx_tensors(built.tensors, buft, BufferUsage.ANY, exact=True)
    except AllocationError:
        made = []
    result["ret"] = bool(made)
    known: dict[Buffer, tuple[int, int]] = {b: (k, 0) for k, b in enumerate(made)}
    result["loc"] = [_location(t, known) for t in built.tensors]
    result["log"] = build.take_log()
    return result


def run_order_scenario(scenario: Spec, build: GraphBuilder) -> list[StepResult]:
    """Building is all there is: a scenario of this kind has no steps."""
    return []
