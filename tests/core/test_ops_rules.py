"""What constructors refuse, and in which words; ops that are made of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import op_nodes
from tests.core.remake import REMAKE, Call
from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op, OpHint, PoolOp, Prec, RopeMode, ScaleMode
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import ShapeError
from wggml.hal.interface import Backend, BufferUsage
from wggml.hal.registry import default_registry


def leaf(ctx: Context, *ne: int, name: str = "", type_: Type = Type.F32) -> Tensor:
    return ctx.new_tensor(type_, ne, name=name)


# ---- any operand, however wrong ------------------------------------------------------------------


@cache
def one_of_each() -> list[tuple[Op, int, int]]:
    """(op, case, tensor) of up to six recorded nodes of each op."""
    found: dict[Op, list[tuple[Op, int, int]]] = {}
    for i, packed in enumerate(cases()):
        for j, record in enumerate(packed[1]):
            op = Op[record[0]]
            some = found.setdefault(op, [])
            if op != Op.NONE and (not some or some[-1][1] != i) and len(some) < 6:
                some.append((op, i, j))
    return [entry for some in found.values() for entry in some]


@cache
def cases() -> list[op_nodes.PackedCase]:
    return op_nodes.read()


SIZES = st.one_of(st.integers(0, 8), st.sampled_from([31, 32, 33, 64, 256, 2**31]))


def respoil(t: Tensor, ne: tuple[int, int, int, int], type_: Type) -> None:
    """Give an operand another shape and type, with strides without gaps."""
    traits = TRAITS[type_]
    t.type, t.ne = type_, (ne[0] * traits.blck_size, ne[1], ne[2], ne[3])
    row = ne[0] * traits.type_size
    t.nb = (traits.type_size, row, row * ne[1], row * ne[1] * ne[2])


@settings(max_examples=1500, deadline=None)
@given(data=st.data())
def test_wrong_operands_are_refused_in_words_or_accepted(data: st.DataObject) -> None:
    """No other error than `ShapeError` comes out, and what is accepted is a sound record."""
    op, case, index = data.draw(st.sampled_from(one_of_each()), label="node")
    t = op_nodes.build(cases()[case])[index]
    operands = [s for s in t.src if s is not None and s is not t]
    for s in operands:
        how = data.draw(st.sampled_from(["keep", "size", "shape", "type", "strides"]))
        ne = s.ne
        if how == "size":
            i = data.draw(st.integers(0, 3))
            ne = tuple(data.draw(SIZES) if k == i else n for k, n in enumerate(ne))
        elif how == "shape":
            ne = tuple(data.draw(SIZES) for _ in range(4))
        elif how == "strides":
            s.nb = tuple(data.draw(st.permutations(s.nb)))
            continue
        elif how == "keep":
            continue
        type_ = data.draw(st.sampled_from(list(Type))) if how == "type" else s.type
        respoil(s, ne, type_)
    try:
        made = REMAKE[op](Call(Context(1), t))
    except ShapeError as e:
        assert str(e)
        return
    assert made.op == op
    assert len(made.op_params) == 64
    assert min(made.ne) >= 0
    assert len(made.src) <= 10


# ---- messages ------------------------------------------------------------------------------------

MESSAGES: dict[str, tuple[Callable[[Context], Tensor], str]] = {
    "mul_mat": (
        lambda c: ops.mul_mat(c, leaf(c, 4, 2, name="w"), leaf(c, 5, 2, name="x")),
        r"MUL_MAT: ne\[0\] must agree.*got 'w' \(type F32, ne \[4, 2, 1, 1\]\), 'x' \(type F32",
    ),
    "add_cast": (
        lambda c: ops.add_cast(c, leaf(c, 4), leaf(c, 4), Type.F16),
        "ADD: a sum in another type needs a quantised, F16 or BF16 first operand",
    ),
    "add1": (lambda c: ops.add1(c, leaf(c, 4), leaf(c, 2)), "ADD1: .* must have one element"),
    "acc outside": (
        lambda c: ops.acc(c, leaf(c, 4, 4), leaf(c, 2, 2), (16, 64, 64), 44),
        r"ACC: a block of b's shape, strides \[16, 64, 64\] and offset 44 must lie inside a",
    ),
    "set of another type": (
        lambda c: ops.set(c, leaf(c, 4), leaf(c, 2, type_=Type.I32), (16, 16, 16), 0),
        "SET: types must agree",
    ),
    "concat": (
        lambda c: ops.concat(c, leaf(c, 4, 2), leaf(c, 3, 2), 1),
        "CONCAT: all but dimension 1 must agree",
    ),
    "concat without a dimension": (
        lambda c: ops.concat(c, leaf(c, 4), leaf(c, 4), -1),
        "CONCAT: all but dimension -1",
    ),
    "repeat": (
        lambda c: ops.repeat(c, leaf(c, 3), (4,)),
        r"REPEAT: sizes must divide the target's \[4, 1, 1, 1\]",
    ),
    "top_k": (lambda c: ops.top_k(c, leaf(c, 4), 5), r"TOP_K: k = 5 must be from 1 to ne\[0\]"),
    "arange": (lambda c: ops.arange(c, 2.0, 1.0), "ARANGE: stop must lie above start"),
    "fill": (
        lambda c: ops.fill(c, leaf(c, 4, type_=Type.I32), 1.0),
        "FILL: a must be F32 or F16; got an unnamed tensor .type I32",
    ),
    "roll": (lambda c: ops.roll(c, leaf(c, 4), (4,)), r"ROLL: shifts \[4\] must be smaller"),
    "pad": (lambda c: ops.pad(c, leaf(c, 4), (-1,)), r"PAD: \[\] before and \[-1\] after"),
    "antialias": (
        lambda c: ops.interpolate(c, leaf(c, 4, 4), (8, 8), ScaleMode.NEAREST, antialias=True),
        "UPSCALE: antialiasing needs the mode BILINEAR",
    ),
    "rope offset": (
        lambda c: ops.rope(
            c, leaf(c, 8, 1, 1), leaf(c, 4, type_=Type.I32),
            ops.RopeParams(n_dims=4, mode=RopeMode.VISION, offset=2),
        ),
        "ROPE: the offset 2 must not be negative, and 0 in VISION mode",
    ),
    "rope odd mode": (
        lambda c: ops.rope(
            c, leaf(c, 8, 1, 1), leaf(c, 1, type_=Type.I32), ops.RopeParams(n_dims=4, mode=1)
        ),
        "ROPE: mode 1 is odd",
    ),
    "im2col": (
        lambda c: ops.im2col(c, leaf(c, 5, 5, 2), leaf(c, 3, 3, 2)),
        "IM2COL: the image is smaller than the kernel",
    ),
    "conv stride": (
        lambda c: ops.conv_2d_direct(c, leaf(c, 2, 2, 1), leaf(c, 3, 3, 1), stride=(0, 1)),
        r"CONV_2D: strides \[0, 1\] must be at least 1",
    ),
    "pool": (
        lambda c: ops.pool_1d(c, leaf(c, 2), PoolOp.MAX, 5, 1), "POOL_1D: no window of 5 fits",
    ),
    "adamw": (
        lambda c: ops.opt_step_adamw(c, *[leaf(c, 4) for _ in range(4)], leaf(c, 7)),
        r"OPT_STEP_ADAMW: the tensor must be trainable; call set_param\(\)",
    ),
    "solve_tri": (
        lambda c: ops.solve_tri(c, leaf(c, 3, 4), leaf(c, 2, 4)),
        "SOLVE_TRI: the matrices of a must be square",
    ),
    "flash attention": (
        lambda c: ops.flash_attn_ext(
            c, leaf(c, 4, 2, 2), leaf(c, 4, 3, 2), leaf(c, 4, 3, 2), leaf(c, 3, 2), 1.0
        ),
        "FLASH_ATTN_EXT: the mask must be contiguous F16",
    ),
    "a parameter too large": (
        lambda c: ops.diag_mask_inf(c, leaf(c, 4, 4), 2**31),
        r"op parameters \[2147483648\] do not fit",
    ),
    "a float too large": (lambda c: ops.scale(c, leaf(c, 4), 1e39), "do not fit 16 int32"),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_names_op_rule_and_operands(name: str) -> None:
    make, message = MESSAGES[name]
    with pytest.raises(ShapeError, match=message):
        make(Context())


# ---- parameters ----------------------------------------------------------------------------------


def test_rope_parameters_survive_a_node() -> None:
    ctx = Context()
    params = ops.RopeParams(
        n_dims=8, mode=RopeMode.IMROPE, n_ctx_orig=32, freq_base=5e5, freq_scale=0.5,
        ext_factor=1.0, attn_factor=0.25, beta_fast=16.0, beta_slow=2.0, sections=(1, 2, 1, 0),
        offset=4,
    )  # fmt: skip
    node = ops.rope(ctx, leaf(ctx, 16, 2, 3), leaf(ctx, 12, type_=Type.I32), params)
    assert ops.RopeParams.of(node) == params


def test_sections_only_count_where_positions_are_many() -> None:
    ctx = Context()
    params = ops.RopeParams(n_dims=8, sections=(1, 2, 1, 0))
    node = ops.rope(ctx, leaf(ctx, 16, 2, 3), leaf(ctx, 3, type_=Type.I32), params)
    assert ops.RopeParams.of(node).sections == (0, 0, 0, 0)


def test_precision_and_hints_of_products() -> None:
    ctx = Context()
    w, x = leaf(ctx, 4, 2), leaf(ctx, 4, 3)
    node = ops.mul_mat(ctx, w, x, prec=Prec.F32, hint=OpHint.SRC0_IS_HADAMARD, src1_prec=Prec.Q8)
    assert [node.param_i32(i) for i in range(4)] == [10, 1, 0, 30]
    assert ops.mul_mat(ctx, w, x).op_params == bytes(64)


def test_half_a_padding_counts_for_the_size_of_a_pooled_image() -> None:
    ctx = Context()
    node = ops.pool_2d(ctx, leaf(ctx, 6, 6, 1), PoolOp.AVG, (3, 3), (2, 2), (0.5, 0.5))
    assert node.ne[:2] == (3, 3)
    assert [node.param_i32(i) for i in (5, 6)] == [0, 0]


def test_the_largest_are_a_view_of_a_descending_order() -> None:
    ctx = Context()
    best = ops.argsort_top_k(ctx, leaf(ctx, 5, 3), 2)
    order = best.src[0]
    assert order is not None
    assert (best.op, best.ne, best.nb[1]) == (Op.VIEW, (2, 3, 1, 1), order.nb[1])
    assert (order.op, order.param_i32(0)) == (Op.ARGSORT, 1)


# ---- convolutions made of several ops -----------------------------------------------------------


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    b = default_registry().cpu().init_backend()
    yield b
    b.close()


def compute(backend: Backend, ctx: Context, *results: Tensor) -> list[np.ndarray]:
    graph = Graph()
    for t in results:
        graph.build_forward_expand(t)
    buffers = alloc_ctx_tensors(ctx, backend.buffer_type(), BufferUsage.COMPUTE)
    rng = np.random.default_rng(2)
    for t in graph.leafs:
        t.set(rng.uniform(-1, 1, t.ne[::-1]).astype(np.float32))
    backend.graph_compute(graph)
    values = [t.numpy() for t in results]
    for b in buffers:
        b.free()
    return values


PAIR_2D: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}


def test_conv_2d_is_the_direct_one(backend: Backend) -> None:
    ctx = Context()
    kernel, x = leaf(ctx, 3, 2, 4, 5, type_=Type.F32), leaf(ctx, 7, 6, 4, 2)
    chain = ops.conv_2d(ctx, kernel, x, **PAIR_2D)
    direct = ops.conv_2d_direct(ctx, kernel, x, **PAIR_2D)
    assert chain.ne == direct.ne
    a, b = compute(backend, ctx, chain, direct)
    np.testing.assert_allclose(a, b, atol=1e-2)  # the chain goes through F16


def test_conv_2d_dw_is_the_direct_one(backend: Backend) -> None:
    ctx = Context()
    kernel, x = leaf(ctx, 3, 2, 1, 4), leaf(ctx, 7, 6, 4, 2)
    chain = ops.conv_2d_dw(ctx, kernel, x, **PAIR_2D)
    direct = ops.conv_2d_dw_direct(ctx, kernel, x, **PAIR_2D)
    assert chain.ne == direct.ne
    a, b = compute(backend, ctx, chain, direct)
    np.testing.assert_allclose(a, b, atol=1e-2)


def test_conv_3d_is_the_direct_one(backend: Backend) -> None:
    ctx = Context()
    how: dict[str, Any] = {"stride": (1, 2, 1), "padding": (1, 0, 1), "dilation": (1, 1, 2)}
    kernel, x = leaf(ctx, 2, 3, 2, 3 * 4), leaf(ctx, 5, 6, 4, 3 * 2)
    chain = ops.conv_3d(ctx, kernel, x, 3, **how)
    direct = ops.conv_3d_direct(ctx, kernel, x, 3, 2, 4, **how)
    assert chain.ne == direct.ne
    a, b = compute(backend, ctx, chain, direct)
    np.testing.assert_allclose(a, b, atol=1e-2)


def test_conv_1d_is_numpys(backend: Backend) -> None:
    ctx = Context()
    kernel, x = leaf(ctx, 3, 2, 4), leaf(ctx, 9, 2, 1)
    y = ops.conv_1d(ctx, kernel, x, padding=1)
    k, v, got = compute(backend, ctx, kernel, x, y)
    padded = np.pad(v, ((0, 0), (1, 1)))
    want = [sum(np.correlate(padded[i], k[o, i], "valid") for i in range(2)) for o in range(4)]
    np.testing.assert_allclose(got, want, atol=1e-2)


def test_transposed_product_of_columns_is_a_transposed_convolution(backend: Backend) -> None:
    ctx = Context()
    kernel, x = leaf(ctx, 3, 4, 2), leaf(ctx, 5, 2)
    direct = ops.conv_transpose_1d(ctx, kernel, x, stride=2)
    flat = ops.cont(ctx, ops.transpose(ctx, ops.reshape(ctx, kernel, (12, 2))))
    columns = ops.mul_mat(ctx, flat, ops.cont(ctx, ops.transpose(ctx, x)))
    added = ops.col2im_1d(ctx, columns, 2, 4)
    assert added.ne == direct.ne
    a, b = compute(backend, ctx, added, direct)
    np.testing.assert_allclose(a, b, atol=1e-5)
