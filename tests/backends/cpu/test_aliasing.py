"""Results that share memory with a source, which the allocator arranges for in-place ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from graphs import cpu, graph_of, place, share

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import INPLACE_OPS, Op, UnaryOp
from wggml.core.ops._make import make_like, pack
from wggml.core.tensor import Tensor
from wggml.core.types import Type

SHAPE = (8, 6, 4, 2)  # ne
Build = Callable[[Context, Tensor, Tensor], Tensor]


def _made(op: Op, *params: int | float) -> Build:
    return lambda ctx, a, b: make_like(ctx, op, [a], a, pack(*params))


def _made2(op: Op, *params: int | float) -> Build:
    return lambda ctx, a, b: make_like(ctx, op, [a, b], a, pack(*params))


def _positions(ctx: Context, a: Tensor) -> Tensor:
    return ctx.new_tensor(Type.I32, (a.ne[2],), name="positions")


def _rope(mode: int) -> Build:
    def build(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
        return ops.rope(ctx, a, _positions(ctx, a), ops.RopeParams(n_dims=6, mode=mode))

    return build


def _rope_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    t = _rope(2)(ctx, a, b)
    t.op = Op.ROPE_BACK
    return t


def _add_id(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    flat = ctx.new_view(a, a.type, (8, 6, 8, 1), None)
    table = ctx.new_tensor(Type.F32, (8, 3), name="table")
    ids = ctx.new_tensor(Type.I32, (6, 8), name="ids")
    return make_like(ctx, Op.ADD_ID, [flat, table, ids], flat)


def _add1(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    one = ctx.new_tensor(Type.F32, (1,), name="one")
    return make_like(ctx, Op.ADD1, [a, one], a)


def _soft_max(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    mask = ctx.new_tensor(Type.F16, (a.ne[0], a.ne[1]), name="mask")
    return ops.soft_max(ctx, a, mask, 0.7, 0.0)


BUILDERS: dict[str, Build] = {
    "FILL": _made(Op.FILL, 2.5),
    "SCALE": _made(Op.SCALE, 1.5, 0.25),
    "DIAG_MASK_ZERO": _made(Op.DIAG_MASK_ZERO, 1),
    "DIAG_MASK_INF": _made(Op.DIAG_MASK_INF, 1),
    "ADD": lambda c, a, b: ops.add(c, a, b),
    "SUB": lambda c, a, b: ops.sub(c, a, b),
    "MUL": lambda c, a, b: ops.mul(c, a, b),
    "DIV": lambda c, a, b: ops.div(c, a, b),
    "ADD1": _add1,
    "ADD_ID": _add_id,
    "SQR": _made(Op.SQR),
    "SQRT": _made(Op.SQRT),
    "LOG": _made(Op.LOG),
    "CLAMP": _made(Op.CLAMP, 0.3, 0.8),
    "RMS_NORM": _made(Op.RMS_NORM, 1e-6),
    "SOFT_MAX": _soft_max,
    "ROPE": _rope(0),
    "ROPE-neox": _rope(2),
    "ROPE_BACK": _rope_back,
    "SILU_BACK": _made2(Op.SILU_BACK),
    "RMS_NORM_BACK": _made2(Op.RMS_NORM_BACK, 1e-6),
    "SOFT_MAX_BACK": _made2(Op.SOFT_MAX_BACK, 0.5, 0.0),
    **{f"UNARY-{op.name}": _made(Op.UNARY, int(op), 0.8, 0.8, 0.5, -1e-6) for op in UnaryOp},
}


def _result(build: Build, alias: int | None) -> np.ndarray:
    """The op's values, with the result in the memory of source `alias` (None: its own)."""
    ctx = Context(32)
    a = ctx.new_tensor(Type.F32, SHAPE, name="a")
    b = ctx.new_tensor(Type.F32, SHAPE, name="b")
    leafs = list(ctx.tensors)
    node = build(ctx, a, b)
    leafs += [t for t in ctx.tensors[2:] if t is not node]
    place(leafs)
    if alias is None:
        place([node])
    else:
        source = node.src[alias]
        assert source is not None
        share(node, source)
    rng = np.random.default_rng(7)
    for t in leafs:
        if t.view_src is not None:
            continue
        if t.type == Type.I32:
            t.set(rng.integers(0, 3, t.n_elements, dtype=np.int32))
        else:
            t.set(rng.uniform(0.1, 2.0, t.n_elements).astype(np.float32))
    cpu().graph_compute(graph_of(node))
    return node.numpy()


@pytest.mark.parametrize("name", BUILDERS)
def test_result_in_the_first_source(name: str) -> None:
    expected = _result(BUILDERS[name], None)
    assert np.isfinite(expected).all() or name == "DIAG_MASK_INF"
    np.testing.assert_array_equal(_result(BUILDERS[name], 0), expected)


@pytest.mark.parametrize(
    "name", ["ADD", "SUB", "MUL", "DIV", "SILU_BACK", "RMS_NORM_BACK", "SOFT_MAX_BACK"]
)
def test_result_in_the_second_source(name: str) -> None:
    np.testing.assert_array_equal(_result(BUILDERS[name], 1), _result(BUILDERS[name], None))


def test_every_inplace_op_is_covered() -> None:
    assert {name.partition("-")[0] for name in BUILDERS} == {op.name for op in INPLACE_OPS}


@pytest.mark.parametrize("where", ["input", "norm", "weight", "own"])
def test_fused_norm_and_product_in_any_source(where: str) -> None:
    ctx = Context(16)
    x = ctx.new_tensor(Type.F32, (16, 3), name="x")
    w = ctx.new_tensor(Type.F32, (16, 3), name="w")
    normed = ops.rms_norm(ctx, x, 1e-6)
    out = ops.mul(ctx, normed, w)
    place([x, w, normed])
    place([out])
    if where != "own":
        share(out, {"input": x, "norm": normed, "weight": w}[where])
    rng = np.random.default_rng(3)
    xs, ws = rng.standard_normal((2, 3, 16)).astype(np.float32)
    x.set(xs)
    w.set(ws)
    cpu().graph_compute(graph_of(out))
    expected = xs / np.sqrt((xs**2).mean(-1, keepdims=True) + 1e-6) * ws
    np.testing.assert_allclose(out.numpy(), expected, rtol=2e-6)


def test_copy_onto_itself_and_shifted() -> None:
    ctx = Context(16)
    a = ctx.new_tensor(Type.F32, (10,), name="a")
    left, right = ops.view(ctx, a, (8,)), ops.view(ctx, a, (8,), (), 8)
    moved = ops.cpy(ctx, left, right)
    place(ctx.tensors)
    a.set(np.arange(10, dtype=np.float32))
    cpu().graph_compute(graph_of(moved))
    np.testing.assert_array_equal(a.numpy(), [0, 1, 0, 1, 2, 3, 4, 5, 6, 7])
