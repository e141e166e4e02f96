"""Sums, means, running sums, orders; normalisation and softmax; their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import SortOrder
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import FUNCTIONS, SUMS
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

# rows around subgroups and workgroups, and one longer than any workgroup takes in one round
ROWS: list[object] = [
    (7, 5, 3, 2),
    (1,),
    (3, 2),
    (4, 3),
    (5, 3),
    (31, 2),
    (32,),
    (33, 3),
    (63, 2),
    (64, 5),
    (65, 2),
    (127,),
    (255, 2),
    (256, 3),
    (257, 2),
    (1023,),
    (1025, 2),
    (4097,),
    (40000,),
    (2, 700),
    (3, 1, 2, 65),
]
LAYOUTS: list[object] = ["dense", "strided", "transposed", "permuted", "3210"]


def recipes() -> Iterator[Recipe]:
    yield from each(
        "SUM", _one(ops.sum), max_err=SUMS, ne=ROWS, layout=["dense", "strided", "permuted"]
    )
    for op in ("sum_rows", "mean", "cumsum"):
        layouts = ["dense", "strided", "permuted"] if op == "cumsum" else LAYOUTS
        yield from each(op.upper(), _one(getattr(ops, op)), max_err=SUMS, ne=ROWS, layout=layouts)
    two = [ne for ne in ROWS if isinstance(ne, tuple) and len(ne) < 3]
    yield from every("ARGMAX", _argmax, max_err=0.0, ne=two, ties=[False, True])
    yield from every("SUM", _cancelling, max_err=SUMS, ne=[(999,), (513, 3)])
    # a row a workgroup, more than one dimension of a grid holds
    yield from every("SUM_ROWS", _one(ops.sum_rows), max_err=SUMS, ne=[(1, 70000)], layout="dense")
    yield from every(
        "COUNT_EQUAL",
        _count_equal,
        max_err=0.0,
        type=Type.I32,
        ne=[(33, 5, 3, 2), (1,), (257,)],
        levels=[1, 2, 7],
        layout=["dense", "permuted"],
    )
    orders = [SortOrder.ASC, SortOrder.DESC]
    yield from every("ARGSORT", _argsort, max_err=0.0, ne=ROWS, order=orders, ties=False)
    # equal values keep their order, also from one block of a row to the next
    yield from every(
        "ARGSORT", _argsort, max_err=0.0, ne=[(33, 3), (4097,)], order=orders, ties=True
    )
    for ne in ROWS:
        assert isinstance(ne, tuple)
        ks: list[object] = sorted({1, max(ne[0] // 3, 1), ne[0]})
        for recipe in every("TOP_K", _top_k, max_err=0.0, ne=ne, k=ks):
            yield Recipe(recipe.op, recipe.build, recipe.params, metric="index_set", max_err=0.0)
    yield from _norms()
    yield from _softmaxes()


def _one(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def build(m: Maker, ne: Shape, layout: str) -> Tensor:
        return make(m.ctx, m.laid(layout, ne, lo=-1.0, hi=2.0))

    return build


def _cancelling(m: Maker, ne: Shape) -> Tensor:
    """A sum near zero of large values: little more than what rounding takes on the way."""
    half = m.rng.uniform(1e4, 1e5, int(np.prod(ne)) // 2)
    small = m.rng.uniform(0, 1e-3, int(np.prod(ne)) - 2 * len(half))
    mixed = m.rng.permutation(np.concatenate([half, -half, small + 1.0]))
    return ops.sum(m.ctx, m.array(mixed.reshape(ne[::-1]).astype(np.float32)))


def _argmax(m: Maker, ne: Shape, ties: bool) -> Tensor:
    return ops.argmax(m.ctx, _ranked(m, ne, ties))


def _ranked(m: Maker, ne: Shape, ties: bool) -> Tensor:
    """Values that are all different, or many times the same three."""
    return m.array(m.rng.integers(0, 3, ne[::-1]).astype(np.float32)) if ties else m.levels(ne)


def _count_equal(m: Maker, type: Type, ne: Shape, levels: int, layout: str) -> Tensor:
    a, b = (m.laid(layout, ne, type, lo=0, hi=levels - 1) for _ in range(2))
    return ops.count_equal(m.ctx, a, b)


def _argsort(m: Maker, ne: Shape, order: SortOrder, ties: bool) -> Tensor:
    return ops.argsort(m.ctx, _ranked(m, ne, ties), order)


def _top_k(m: Maker, ne: Shape, k: int) -> Tensor:
    return ops.top_k(m.ctx, m.levels(ne), k)


# ---- norms --------------------------------------------------------------------------------------


def _norms() -> Iterator[Recipe]:
    eps = [1e-6, 0.0, 10.0]
    for op in ("norm", "rms_norm", "l2_norm"):
        yield from each(
            op.upper(),
            _norm(op),
            max_err=SUMS,
            ne=ROWS,
            eps=eps,
            layout=["dense", "strided", "permuted"],
            inplace=[False, True],
        )
    yield from each("RMS_NORM_BACK", _rms_norm_back, max_err=SUMS, ne=ROWS, eps=eps)
    yield from each(
        "GROUP_NORM",
        _group_norm,
        max_err=SUMS,
        ne=[(5, 3, 10, 2), (1, 1, 1), (9, 9, 32), (33, 1, 8, 3), (64, 64, 4)],
        groups=[2, 1, 3, 5],
        layout=["dense", "transposed"],
        inplace=[False, True],
    )


def _norm(op: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, op)

    def build(m: Maker, ne: Shape, eps: float, layout: str, inplace: bool) -> Tensor:
        return make(m.ctx, m.laid(layout, ne, lo=-1.0, hi=2.0), eps, inplace=inplace)

    return build


def _rms_norm_back(m: Maker, ne: Shape, eps: float) -> Tensor:
    return ops.rms_norm_back(m.ctx, m.leaf(ne), m.leaf(ne, lo=-1.0, hi=2.0), eps)


def _group_norm(m: Maker, ne: Shape, groups: int, layout: str, inplace: bool) -> Tensor:
    a = m.laid(layout, ne, lo=-1.0, hi=2.0)
    return ops.group_norm(m.ctx, a, min(groups, a.ne[2]), 1e-5, inplace=inplace)


# ---- softmax ------------------------------------------------------------------------------------


def _softmaxes() -> Iterator[Recipe]:
    yield from each(
        "SOFT_MAX",
        _soft_max,
        max_err=FUNCTIONS,
        ne=ROWS,
        mask="none",
        scale=[1.0, 0.1],
        max_bias=0.0,
        sinks=False,
        inplace=[False, True],
    )
    yield from every(
        "SOFT_MAX",
        _soft_max,
        max_err=FUNCTIONS,
        ne=[(33, 5, 4, 2), (256, 1, 4)],
        mask=["f32", "f16", "hidden rows", "one for all heads", "longer"],
        scale=0.3,
        max_bias=[0.0, 8.0],
        sinks=[False, True],
        inplace=False,
    )
    yield from each(
        "SOFT_MAX",
        _soft_max,
        max_err=FUNCTIONS,
        ne=[(40000, 2), (1025, 3, 3)],
        mask=["hidden rows", "f32"],
        scale=1.0,
        max_bias=[0.0, 8.0],
        sinks=False,
        inplace=[True, False],
    )
    yield from each(
        "SOFT_MAX_BACK",
        _soft_max_back,
        max_err=SUMS,
        ne=ROWS,
        scale=[1.0, 0.3],
        inplace=[False, True],
    )


def _soft_max(
    m: Maker, ne: Shape, mask: str, scale: float, max_bias: float, sinks: bool, inplace: bool
) -> Tensor:
    a = m.leaf(ne, lo=-8.0, hi=8.0)
    hidden = None
    if mask != "none":
        heads = {"one for all heads": (1, 1)}.get(mask, (a.ne[2], a.ne[3]))
        shape = (*heads[::-1], a.ne[1] + 2 * (mask == "longer"), a.ne[0])
        values = m.rng.uniform(-2.0, 2.0, shape)
        values[m.rng.uniform(0, 1, shape) < 0.3] = -np.inf
        if mask == "hidden rows":
            values[:, :, ::2] = -np.inf
        hidden = m.array(values.astype(np.float32), Type.F16 if mask == "f16" else Type.F32)
    s = m.leaf((a.ne[2],)) if sinks else None
    return ops.soft_max(m.ctx, a, hidden, scale, max_bias, sinks=s, inplace=inplace)


def _soft_max_back(m: Maker, ne: Shape, scale: float, inplace: bool) -> Tensor:
    return ops.soft_max_back(m.ctx, m.leaf(ne), m.leaf(ne, lo=0.0), scale, inplace=inplace)
