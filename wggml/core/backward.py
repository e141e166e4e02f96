"""`build_backward_expand`: a forward graph grows the nodes that compute gradients of its loss."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wggml.core import derivatives, gradients
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError, UnsupportedOpError

# Views that gradients pass through. Other views are in-place results, whose operand is gone by the
# time its gradient needs it.
_VIEWS_WITH_GRADIENT = VIEW_OPS | {Op.CPY}

# Sources whose values have no effect on a gradient: only their shape counts, or they are indices
# or positions, or they are overwritten.
_IGNORED_SOURCE = {
    Op.IM2COL: 0, Op.IM2COL_BACK: 0, Op.CPY: 1, Op.GET_ROWS: 1, Op.GET_ROWS_BACK: 1, Op.ROPE: 1,
}  # fmt: skip


def build_backward_expand(
    ctx: Context, graph: Graph, *, grad_accs: Mapping[Tensor, Tensor] | None = None
) -> None:
    """Append to `graph` the nodes that compute gradients of its loss.

    The graph must hold at least one node flagged by `set_loss` and one tensor flagged by
    `set_param`. Afterwards `graph.grads[t]` is the gradient of `t` (F32, shape of `t`), for every
    tensor between a parameter and the loss. The gradient of a loss is an accumulator, in
    `graph.grad_accs`; call `graph_reset` once the graph is allocated to set it to 1.

    Args:
        ctx: where gradient nodes are made.
        graph: a forward graph with room for two to three times its nodes.
        grad_accs: F32 tensors of their tensor's shape, made in a context that outlives the run.
            The gradient of such a tensor is added to it in place, run after run, until
            `graph_reset` clears it.

    Raises `ShapeError` when there is no loss or no parameter, when an accumulator does not fit,
    or when a gradient would pass a type that has none; `UnsupportedOpError` for an op without a
    rule and for in-place ops on the way.
    """
    forward = list(graph.nodes)
    _check_flags(forward)
    graph.grads.clear()
    graph.grad_accs.clear()
    needed: set[Tensor] = set()
    for node in forward:
        if _needs_gradient(node, needed):
            needed.add(node)
            _start(ctx, graph, node, grad_accs or {})
    b = gradients.Backward(ctx, graph, needed)
    for node in reversed(forward):
        if node in needed:
            gradients.apply(b, node)
            _check_shapes(graph, node, needed)


def _check_flags(nodes: list[Tensor]) -> None:
    if not any(t.flags & Flag.PARAM for t in nodes):
        raise ShapeError(
            "a backward graph needs a trainable tensor and this one has none; call set_param() on "
            "weights before build_forward_expand"
        )
    if not any(t.flags & Flag.LOSS for t in nodes):
        raise ShapeError("a backward graph needs a loss and this one has none; call set_loss()")


def _needs_gradient(node: Tensor, needed: set[Tensor]) -> bool:
    if node.type == Type.I32:
        return False
    via = next((s for s in _live_sources(node) if s in needed), None)
    if via is None and not node.flags & (Flag.PARAM | Flag.LOSS):
        return False
    if via is not None and via.type not in (Type.F32, Type.F16):
        raise ShapeError(
            f"{via.name!r} has type {via.type.name} and a gradient would pass it; only F32 and "
            "F16 have one, so train a copy in F32"
        )
    if node.view_src is not None and node.op not in _VIEWS_WITH_GRADIENT:
        raise UnsupportedOpError(
            f"{node.op.name} {node.name!r} writes in place to {node.view_src.name!r}, and a "
            "gradient passes it; build the forward graph without in-place ops (the allocator "
            "reuses memory by itself)"
        )
    return True


def _live_sources(node: Tensor) -> list[Tensor]:
    """Sources whose values a gradient of `node` depends on."""
    if node.op == Op.UNARY and node.unary_op in derivatives.FLAT_UNARY:
        return []
    dead = _IGNORED_SOURCE.get(node.op)
    return [s for i, s in enumerate(node.src) if s is not None and i != dead and s is not node]


def _start(ctx: Context, graph: Graph, node: Tensor, accs: Mapping[Tensor, Tensor]) -> None:
    """Losses, and tensors with an accumulator, have a gradient from the beginning."""
    acc = accs.get(node)
    if acc is not None and (acc.ne != node.ne or acc.type != Type.F32):
        raise ShapeError(
            f"the gradient accumulator {acc.name!r} (type {acc.type.name}, ne {list(acc.ne)}) of "
            f"{node.name!r} must be F32 with ne {list(node.ne)}"
        )
    if acc is None and node.flags & Flag.LOSS:
        # input and output, so that an allocator of the graph never gives its memory away
        acc = ctx.new_tensor(Type.F32, node.ne, name=f"grad acc for {node.name}")
        acc.set_input().set_output()
    if acc is not None:
        graph.grad_accs[node] = graph.grads[node] = acc


def _check_shapes(graph: Graph, node: Tensor, needed: set[Tensor]) -> None:
    for s in node.src:
        g = graph.grads.get(s) if s is not None and s in needed else None
        if s is not None and g is not None and g.ne != s.ne:
            raise ShapeError(
                f"the gradient of {s.name!r} through {node.op.name} came out as ne {list(g.ne)} "
                f"instead of {list(s.ne)}"
            )


def graph_reset(graph: Graph) -> None:
    """Prepare the next accumulation: gradients of losses become 1, other accumulators 0, and the
    moments of AdamW steps 0. The graph must be allocated."""
    for node in graph.nodes:
        if node.op == Op.OPT_STEP_ADAMW:
            for moment in node.src[2:4]:
                assert moment is not None
                moment.set(np.zeros(moment.ne[::-1], np.float32))
        acc = graph.grad_accs.get(node)
        if acc is not None:
            value = 1.0 if node.flags & Flag.LOSS else 0.0
            acc.set(np.full(acc.ne[::-1], value, np.float32))
