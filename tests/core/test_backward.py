"""Backward graphs: what they hold, accumulation, memory reuse, refusals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.backward import build_backward_expand, graph_reset
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag, GluOp, Op, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ContextFullError, ShapeError, UnsupportedOpError
from wggml.hal.interface import Backend, BufferUsage
from wggml.hal.registry import default_registry
from wggml.sched import Sched
from wggml.testing.gradient_cases import CASES, Problem


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    b = default_registry().cpu().init_backend()
    yield b
    b.close()


def leaf(ctx: Context, *ne: int, name: str = "", type_: Type = Type.F32) -> Tensor:
    return ctx.new_tensor(type_, ne, name=name)


def graph_of(loss: Tensor, size: int = 256) -> Graph:
    graph = Graph(size)
    graph.build_forward_expand(loss)
    return graph


# ---- structure ----------------------------------------------------------------------------------


def test_gradients_lie_between_parameters_and_loss_only() -> None:
    ctx = Context()
    w, x = leaf(ctx, 4, 3, name="w").set_param(), leaf(ctx, 4, 2, name="x")
    data = ops.silu(ctx, x)
    y = ops.mul_mat(ctx, w, data)
    loss = ops.sum(ctx, y).set_loss()
    graph = graph_of(loss)
    n_forward = len(graph.nodes)
    build_backward_expand(ctx, graph)
    assert set(graph.grads) == {w, y, loss}
    assert set(graph.grad_accs) == {loss}
    assert graph.grads[w].name == "grad for w"
    assert graph.grads[w].op == Op.OUT_PROD
    assert graph.grads[w] in graph.nodes[n_forward:]
    assert graph.grad_accs[loss] in graph.leafs
    assert all(t.flags & Flag.COMPUTE for t in graph.nodes[n_forward:])


def test_indices_and_constant_functions_pass_no_gradient() -> None:
    ctx = Context()
    w = leaf(ctx, 4, 5, name="w").set_param()
    best = ops.argmax(ctx, w)
    picked = ops.get_rows(ctx, leaf(ctx, 3, 4), best)
    rounded = ops.add(ctx, picked, ops.sum(ctx, ops.round(ctx, w)))
    loss = ops.sum(ctx, ops.mul(ctx, rounded, leaf(ctx, 3, 5))).set_loss()
    graph = graph_of(loss)
    build_backward_expand(ctx, graph)
    assert w not in graph.grads


def test_a_second_build_starts_anew() -> None:
    ctx = Context()
    w = leaf(ctx, 4).set_param()
    loss = ops.sum(ctx, ops.sqr(ctx, w)).set_loss()
    graph = graph_of(loss)
    build_backward_expand(ctx, graph)
    first = graph.grads[w]
    graph.clear()
    assert graph.grads == {} and graph.grad_accs == {}
    graph.build_forward_expand(loss)
    build_backward_expand(ctx, graph)
    assert graph.grads[w] is not first


# ---- running ------------------------------------------------------------------------------------


def gradients_in_own_memory(name: str, backend: Backend) -> list[np.ndarray]:
    p = Problem()
    loss = ops.sum(p.ctx, CASES[name](p)).set_loss()
    graph = graph_of(loss)
    build_backward_expand(p.ctx, graph)
    buffers = alloc_ctx_tensors(p.ctx, backend.buffer_type(), BufferUsage.COMPUTE)
    for t, values in p.values.items():
        t.set(values)
    graph_reset(graph)
    backend.graph_compute(graph)
    out = [graph.grads[t].numpy() for t in p.params if t in graph.grads]
    for b in buffers:
        b.free()
    return out


def gradients_by_sched(name: str, backends: list[Backend]) -> list[np.ndarray]:
    """The same with memory planned by the scheduler, weights on the first backend."""
    p = Problem()
    loss = ops.sum(p.ctx, CASES[name](p)).set_loss()
    graph = graph_of(loss)
    build_backward_expand(p.ctx, graph)
    kept = [*p.values, *graph.grad_accs.values()]
    buffers = alloc_ctx_tensors(kept, backends[0].buffer_type(), BufferUsage.COMPUTE)
    for t, values in p.values.items():
        t.set(values)
    graph_reset(graph)
    for t in p.params:
        if t in graph.grads:
            graph.grads[t].set_output()
    sched = Sched(backends)
    sched.alloc_graph(graph)
    sched.graph_compute(graph)
    out = [graph.grads[t].numpy() for t in p.params if t in graph.grads]
    sched.close()
    for buffer in buffers:
        buffer.free()
    return out


@pytest.mark.parametrize("name", CASES)
def test_reused_memory_gives_the_same_gradients(name: str, backend: Backend) -> None:
    got, want = gradients_by_sched(name, [backend]), gradients_in_own_memory(name, backend)
    assert len(got) == len(want) > 0
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["a net", "attention"])
def test_gradients_over_a_gpu_and_the_cpu(name: str, adapter_name: str, backend: Backend) -> None:
    gpu = default_registry().find(adapter_name).init_backend()
    got, want = gradients_by_sched(name, [gpu, backend]), gradients_in_own_memory(name, backend)
    gpu.close()
    assert len(got) == len(want) > 0
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_accumulators_add_up_until_they_are_reset(backend: Backend) -> None:
    ctx, kept = Context(), Context()
    w, x = leaf(kept, 4, 3, name="w").set_param(), leaf(kept, 4, 2)
    y = ops.mul_mat(ctx, w, x)
    loss = ops.add(ctx, ops.sum(ctx, ops.sqr(ctx, y)), ops.sum(ctx, w)).set_loss()
    acc, loss_acc = leaf(kept, 4, 3, name="acc"), leaf(kept, 1)
    graph = graph_of(loss)
    build_backward_expand(ctx, graph, grad_accs={w: acc, loss: loss_acc})
    assert graph.grad_accs == {w: acc, loss: loss_acc}
    assert graph.grads[w].view_src is acc

    rng = np.random.default_rng(3)
    alloc_ctx_tensors(kept, backend.buffer_type(), BufferUsage.COMPUTE)
    wv, xv = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    w.set(wv)
    x.set(xv)
    graph_reset(graph)
    sched = Sched([backend])
    sched.alloc_graph(graph)
    want = 2 * (xv @ wv.T).T @ xv + 1
    for runs in (1, 2, 3):
        sched.graph_compute(graph)
        np.testing.assert_allclose(acc.numpy(), runs * want, rtol=1e-5)
    graph_reset(graph)
    sched.graph_compute(graph)
    np.testing.assert_allclose(acc.numpy(), want, rtol=1e-5)
    sched.close()


def test_the_gradient_of_the_loss_outlives_runs(backend: Backend) -> None:
    """Its accumulator lies in memory that the graph's allocator plans, and keeps its 1."""
    ctx, kept = Context(), Context()
    w = leaf(kept, 4, 2, name="w").set_param()  # all so small that the 1's memory would suit
    h = ops.mul_mat(ctx, w, leaf(kept, 4, 3))
    for _ in range(4):
        h = ops.tanh(ctx, ops.scale(ctx, h, 0.5))
    loss = ops.sum(ctx, ops.sqr(ctx, h)).set_loss()
    graph = graph_of(loss)
    build_backward_expand(ctx, graph)
    graph.grads[w].set_output()
    alloc_ctx_tensors(kept, backend.buffer_type(), BufferUsage.COMPUTE)
    rng = np.random.default_rng(4)
    for t in kept:
        t.set(rng.normal(size=t.ne[1::-1]))
    sched = Sched([backend])
    sched.alloc_graph(graph)
    graph_reset(graph)
    seen = []
    for _ in range(3):
        sched.graph_compute(graph)
        seen.append(graph.grads[w].numpy())
    assert np.abs(seen[0]).max() > 0
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])
    sched.close()


# ---- refusals -----------------------------------------------------------------------------------


def test_a_graph_without_parameters_or_loss_is_refused() -> None:
    ctx = Context()
    w = leaf(ctx, 4)
    with pytest.raises(ShapeError, match=r"set_param\(\)"):
        build_backward_expand(ctx, graph_of(ops.sum(ctx, w).set_loss()))
    w.set_param()
    with pytest.raises(ShapeError, match=r"set_loss\(\)"):
        build_backward_expand(ctx, graph_of(ops.sum(ctx, w)))


def test_a_loss_is_one_f32_value() -> None:
    ctx = Context()
    with pytest.raises(ShapeError, match=r"'many' has type F32 and ne \[4, 1, 1, 1\]"):
        leaf(ctx, 4, name="many").set_loss()
    with pytest.raises(ShapeError, match="must be one F32 value"):
        leaf(ctx, 1, type_=Type.I32).set_loss()


def test_in_place_ops_on_the_way_are_refused() -> None:
    ctx = Context()
    w = leaf(ctx, 4, name="w").set_param()
    loss = ops.sum(ctx, ops.sqr(ctx, w, inplace=True)).set_loss()
    with pytest.raises(UnsupportedOpError, match=r"SQR .* writes in place to 'w'"):
        build_backward_expand(ctx, graph_of(loss))


def test_in_place_ops_elsewhere_are_fine() -> None:
    ctx = Context()
    w = leaf(ctx, 4).set_param()
    data = ops.sqr(ctx, leaf(ctx, 4), inplace=True)
    graph = graph_of(ops.sum(ctx, ops.mul(ctx, w, data)).set_loss())
    build_backward_expand(ctx, graph)
    assert w in graph.grads


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("GROUP_NORM", lambda ctx, w: ops.group_norm(ctx, w, 1, 1e-5)),
        ("GELU_ERF", lambda ctx, w: ops.unary(ctx, w, UnaryOp.GELU_ERF)),
        ("GEGLU_ERF", lambda ctx, w: ops.glu(ctx, w, GluOp.GEGLU_ERF)),
    ],
)
def test_ops_without_a_rule_are_named(what: str, make) -> None:  # type: ignore[no-untyped-def]
    ctx = Context()
    w = leaf(ctx, 4, 2).set_param()
    loss = ops.sum(ctx, make(ctx, w)).set_loss()
    with pytest.raises(UnsupportedOpError, match=f"{what}.*no gradient rule.*with one: "):
        build_backward_expand(ctx, graph_of(loss))


def test_operands_without_a_gradient_are_named() -> None:
    ctx = Context()
    scores, mask = leaf(ctx, 4, 2), leaf(ctx, 4, 2, name="bias").set_param()
    loss = ops.sum(ctx, ops.soft_max(ctx, scores, mask)).set_loss()
    with pytest.raises(UnsupportedOpError, match="no gradient to its mask 'bias'"):
        build_backward_expand(ctx, graph_of(loss))


def test_types_without_a_gradient_are_refused() -> None:
    ctx = Context()
    w = leaf(ctx, 4, 2, name="w", type_=Type.BF16).set_param()
    loss = ops.sum(ctx, ops.mul_mat(ctx, w, leaf(ctx, 4, 3))).set_loss()
    with pytest.raises(ShapeError, match="'w' has type BF16"):
        build_backward_expand(ctx, graph_of(loss))


def test_an_accumulator_must_fit() -> None:
    ctx = Context()
    w = leaf(ctx, 4, name="w").set_param()
    graph = graph_of(ops.sum(ctx, w).set_loss())
    with pytest.raises(ShapeError, match=r"accumulator 'acc' .* of 'w' must be F32 with ne \[4"):
        build_backward_expand(ctx, graph, grad_accs={w: leaf(ctx, 3, name="acc")})


def test_a_view_of_what_is_not_contiguous_is_refused() -> None:
    ctx = Context()
    w = leaf(ctx, 4, 3, name="w").set_param()
    turned = ops.transpose(ctx, w)
    part = ops.view(ctx, turned, (3, 2), (turned.nb[1],))
    with pytest.raises(UnsupportedOpError, match="not contiguous"):
        build_backward_expand(ctx, graph_of(ops.sum(ctx, part).set_loss()))


def test_a_graph_too_small_says_so() -> None:
    ctx = Context()
    w = leaf(ctx, 4).set_param()
    graph = graph_of(ops.sum(ctx, ops.sqr(ctx, w)).set_loss(), size=4)
    with pytest.raises(ContextFullError, match="larger size"):
        build_backward_expand(ctx, graph)
