"""Images and constants: resizing, padding, windows, triangles, sequences; losses and steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import ScaleMode, TriType
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import EXACT, FUNCTIONS, SUMS
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16 = Type.F32, Type.F16
SHAPES: list[object] = [(7, 5, 3, 2), (1,), (3,), (64, 3), (65, 2), (257, 3), (2, 1, 1, 400)]
LAYOUTS: list[object] = ["dense", "strided", "permuted"]


def recipes() -> Iterator[Recipe]:
    yield from _resizing()
    yield from _moving()
    yield from _constants()
    yield from _windows()
    yield from _training()


# ---- resizing -----------------------------------------------------------------------------------


def _resizing() -> Iterator[Recipe]:
    targets: list[object] = [
        (11, 7, 3, 2),
        (10, 8, 3, 2),
        (4, 3, 3, 2),
        (5, 4, 6, 4),
        (5, 4, 3, 2),
        (1, 1, 3, 2),
    ]
    for mode in ScaleMode:
        yield from every("UPSCALE", _resized, max_err=1e-9, ne=(5, 4, 3, 2), to=targets, mode=mode,
                         corners=[False, True], antialias=False, layout="dense")  # fmt: skip
        yield from each("UPSCALE", _resized, max_err=1e-9, ne=[(65, 3), (1, 1, 2)], to=(33, 9, 2, 1), mode=mode,
                        corners=False, antialias=False, layout=LAYOUTS)  # fmt: skip
    yield from every("UPSCALE", _resized, max_err=1e-9, ne=(15, 14, 3, 2), to=targets, mode=ScaleMode.BILINEAR,
                     corners=[False, True], antialias=True, layout="dense")  # fmt: skip


def _resized(
    m: Maker, ne: Shape, to: Shape, mode: ScaleMode, corners: bool, antialias: bool, layout: str
) -> Tensor:
    a = m.laid(layout, ne)
    return ops.interpolate(m.ctx, a, to, mode, align_corners=corners, antialias=antialias)


# ---- moving -------------------------------------------------------------------------------------


def _moving() -> Iterator[Recipe]:
    yield from every("PAD", _pad, max_err=0.0, ne=[(7, 5, 3, 2), (65,)], after=[(1, 2), (0, 1, 0, 3), (64,)],
                     before=[(0, 0, 0, 0), (2, 0, 1, 1)], circular=[False, True],
                     layout=["dense", "strided"])  # fmt: skip
    yield from each("PAD_REFLECT_1D", _pad_reflect, max_err=0.0, ne=[(7, 5, 3, 2), (1,), (257, 3)],
                    p0=[0, 6, 3], p1=[4, 0, 6])  # fmt: skip
    yield from each("ROLL", _roll, max_err=0.0, ne=[(9, 7, 5, 4), (257, 3, 5, 4)],
                    shifts=[(3, -2, 1, -1), (0, 0, 0, 1), (-8,), (0, 0, 4)],
                    layout=["dense", "strided", "0213", "0321"])  # fmt: skip
    yield from each(
        "TRI", _tri, max_err=0.0, n=[7, 1, 33, 65], batch=[(3, 2), (1, 1)], tri=list(TriType)
    )
    yield from each("DIAG", _diag, max_err=0.0, ne=[(10, 1, 4, 3), (1,), (65, 1, 2)])


def _pad(m: Maker, ne: Shape, after: Shape, before: Shape, circular: bool, layout: str) -> Tensor:
    a = m.laid(layout, ne)
    if circular:  # at most once around
        after = [min(k, n) for k, n in zip(after, a.ne, strict=False)]
        before = [min(k, n) for k, n in zip(before, a.ne, strict=False)]
    return ops.pad(m.ctx, a, after, before, circular=circular)


def _pad_reflect(m: Maker, ne: Shape, p0: int, p1: int) -> Tensor:
    return ops.pad_reflect_1d(m.ctx, m.leaf(ne), min(p0, ne[0] - 1), min(p1, ne[0] - 1))


def _roll(m: Maker, ne: Shape, shifts: Shape, layout: str) -> Tensor:
    return ops.roll(m.ctx, m.laid(layout, ne), shifts)


def _tri(m: Maker, n: int, batch: Shape, tri: TriType) -> Tensor:
    return ops.tri(m.ctx, m.leaf((n, n, *batch)), tri)


def _diag(m: Maker, ne: Shape) -> Tensor:
    return ops.diag(m.ctx, m.leaf(ne))


# ---- constants ----------------------------------------------------------------------------------


def _constants() -> Iterator[Recipe]:
    yield from every("FILL", _fill, max_err=1e-9, type=[F32, F16], ne=SHAPES, value=[-3.25, 0.0],
                     inplace=[False, True])  # fmt: skip
    yield from each(
        "FILL", _fill, max_err=0.0, type=[F32, F16], ne=(2**22 + 131,), value=1.5, inplace=False
    )
    yield from every(
        "ARANGE", _arange, max_err=EXACT, start=[0.0, -1.5], stop=[7.0, 300.0], step=[1.0, 0.3]
    )
    yield from each("TIMESTEP_EMBEDDING", _timestep, max_err=FUNCTIONS, n=[3, 1, 65], dim=[6, 7, 320],
                    max_period=[10000, 100])  # fmt: skip


def _fill(m: Maker, type: Type, ne: Shape, value: float, inplace: bool) -> Tensor:
    return ops.fill(m.ctx, m.leaf(ne, type), value, inplace=inplace)


def _arange(m: Maker, start: float, stop: float, step: float) -> Tensor:
    return ops.arange(m.ctx, start, stop, step)


def _timestep(m: Maker, n: int, dim: int, max_period: int) -> Tensor:
    return ops.timestep_embedding(m.ctx, m.leaf((n,), lo=0.0, hi=50.0), dim, max_period)


# ---- windows ------------------------------------------------------------------------------------


def _windows() -> Iterator[Recipe]:
    sizes: list[object] = [(5, 6, 4), (3, 7, 9), (1, 1, 1), (65, 5, 3)]
    yield from every("WIN_PART", _win_part, max_err=0.0, ne=sizes, w=[2, 3, 7])
    yield from every("WIN_UNPART", _win_unpart, max_err=0.0, ne=sizes, w=[2, 3, 7])
    yield from each("GET_REL_POS", _get_rel_pos, max_err=0.0, type=F16, c=[17, 1, 64], n=[3, 1, 14])
    yield from each("ADD_REL_POS", _add_rel_pos, max_err=EXACT, n=[4, 1, 7], w=[3, 1, 5], h=[2, 4],
                    heads=[2, 1], inplace=[False, True])  # fmt: skip


def _win_part(m: Maker, ne: Shape, w: int) -> Tensor:
    return ops.win_part(m.ctx, m.leaf(ne), w)


def _win_unpart(m: Maker, ne: Shape, w: int) -> Tensor:
    n = (-(-ne[1] // w)) * (-(-ne[2] // w))
    return ops.win_unpart(m.ctx, m.leaf((ne[0], w, w, n)), ne[1], ne[2], w)


def _get_rel_pos(m: Maker, type: Type, c: int, n: int) -> Tensor:
    return ops.get_rel_pos(m.ctx, m.leaf((c, 2 * n - 1), type), n, n)


def _add_rel_pos(m: Maker, n: int, w: int, h: int, heads: int, inplace: bool) -> Tensor:
    a = m.leaf((n * n, w * h, heads))
    pw, ph = (m.leaf((n, w, h, heads)) for _ in range(2))
    return ops.add_rel_pos(m.ctx, a, pw, ph, inplace=inplace)


# ---- losses and optimiser steps -----------------------------------------------------------------


def _training() -> Iterator[Recipe]:
    yield from each("CROSS_ENTROPY_LOSS", _cross_entropy, max_err=SUMS, ne=SHAPES[:1] + SHAPES[2:])
    yield from each(
        "CROSS_ENTROPY_LOSS_BACK", _cross_entropy_back, max_err=SUMS, ne=SHAPES[:1] + SHAPES[2:]
    )
    yield from each(
        "OPT_STEP_ADAMW", _adamw, max_err=EXACT, ne=SHAPES, layout=["dense", "transposed"]
    )
    yield from each("OPT_STEP_SGD", _sgd, max_err=EXACT, ne=SHAPES, layout=["dense", "transposed"])


def _labels(m: Maker, ne: Shape) -> Tensor:
    v = m.rng.uniform(0, 1, tuple(ne)[::-1]).astype(np.float32)
    return m.array(v / v.sum(-1, keepdims=True))


def _cross_entropy(m: Maker, ne: Shape) -> Tensor:
    return ops.cross_entropy_loss(m.ctx, m.leaf(ne, lo=-4.0, hi=4.0), _labels(m, ne))


def _cross_entropy_back(m: Maker, ne: Shape) -> Tensor:
    grad, logits = m.leaf((1,), lo=0.5), m.leaf(ne, lo=-4.0, hi=4.0)
    return ops.cross_entropy_loss_back(m.ctx, grad, logits, _labels(m, ne))


def _adamw(m: Maker, ne: Shape, layout: str) -> Tensor:
    w = m.leaf(ne).set_param()
    g = m.laid(layout, ne)
    moment, square = m.compare(m.leaf(ne)), m.compare(m.leaf(ne, lo=0.0))
    settings = m.array(np.array([0.1, 0.9, 0.99, 1e-4, 0.2, 4.0, 9.0], np.float32))
    return ops.opt_step_adamw(m.ctx, w, g, moment, square, settings)


def _sgd(m: Maker, ne: Shape, layout: str) -> Tensor:
    w, g = m.leaf(ne).set_param(), m.laid(layout, ne)
    return ops.opt_step_sgd(m.ctx, w, g, m.array(np.array([0.5, 0.1], np.float32)))
