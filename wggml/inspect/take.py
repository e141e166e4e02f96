"""Taking a `GraphPlan` from a scheduler: of a graph it is given, or of what it planned last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.core.graph import Graph
from wggml.errors import UsageError
from wggml.inspect.data import FixedMemory, GraphPlan
from wggml.inspect.memory import memory_map
from wggml.inspect.splits import execution_order, op_table, split_map
from wggml.sched import Sched

if TYPE_CHECKING:
    from wggml.runtime.context import LlamaContext


def snapshot(sched: Sched, title: str = "") -> GraphPlan:
    """What `sched` decided for the graph it split last. Changes nothing; nothing is computed.

    The memory map has rectangles once the graph was reserved or allocated. Raises `UsageError`
    while no graph was split.
    """
    plan = sched.plan
    if plan is None:
        raise UsageError(
            "the scheduler has planned no graph yet; give one to inspect.plan(), or compute it"
        )
    order = execution_order(plan)
    splits = split_map(plan, order)
    title = title or f"graph of {len(order)} nodes"
    return GraphPlan(title, memory_map(sched, plan, order), splits, op_table(plan, splits, order))


def plan(graph: Graph, sched: Sched, title: str = "") -> GraphPlan:
    """Plan `graph` on the backends of `sched`: who runs what, and where everything lies. Buffers
    are made if there are none that are large enough; nothing is computed.

    Another graph that `sched` had allocated is forgotten. Raises what `Sched.reserve` raises.
    """
    sched.reserve(graph)
    return snapshot(sched, title)


def snapshot_context(context: LlamaContext, title: str = "") -> GraphPlan:
    """`snapshot` of a model's context, with its weights and KV cache."""
    taken = snapshot(context.sched, title)
    names = {b.device.name: i for i, b in enumerate(context.backends)}
    for name, nbytes in context.model.weights.nbytes().items():
        if nbytes:
            taken.fixed.append(FixedMemory("weights", names[name], nbytes))
    per_device: dict[int, int] = {}
    for buffer in context.kv.buffers:
        device = buffer.buft.device
        i = names[device.name] if device is not None else len(context.backends) - 1
        per_device[i] = per_device.get(i, 0) + buffer.size
    taken.fixed += [FixedMemory("KV cache", i, nbytes) for i, nbytes in per_device.items()]
    taken.notes += context.model.notes
    return taken


def plan_context(context: LlamaContext, n_tokens: int, title: str = "") -> GraphPlan:
    """The plan of a model's graph for `n_tokens` tokens over a full cache, as it is reserved at
    the start. Nothing is computed; the next decode builds its graph anew.

    Raises `UsageError` when a graph of the context cannot have that many tokens.
    """
    if not 1 <= n_tokens <= context.n_ubatch:
        raise UsageError(
            f"a graph of this context has 1 to {context.n_ubatch} tokens (its ubatch), not "
            f"{n_tokens}; use a larger ubatch (-ub)"
        )
    context.reserve((n_tokens,))
    kind = "one token" if n_tokens == 1 else f"{n_tokens} tokens"
    title = title or f"{context.model.path.name}, {kind} over {context.params.n_ctx} cells"
    return snapshot_context(context, title)
