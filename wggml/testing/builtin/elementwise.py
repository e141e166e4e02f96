"""Arithmetic with broadcasting, element functions, gated units, scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, every

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
# one, odd, around a workgroup of 64 and of 256, several rows, many rows
SHAPES = [(1,), (3,), (63, 2), (65, 1, 3), (255,), (257, 3), (7, 5, 3, 2), (2, 1, 1, 400)]
LAYOUTS = ["dense", "strided", "transposed", "permuted", "3210"]


def _binary(
    m: Maker, op: str, type: Type, ne: Shape, ne_b: Shape, layout: str, inplace: bool
) -> Tensor:
    lo = 0.5 if op == "div" else -1.0
    a, b = m.laid(layout, ne, type), m.leaf(ne_b, type, lo=lo, hi=2.0)
    make: Callable[..., Tensor] = getattr(ops, op)
    return make(m.ctx, a, b, inplace=inplace)


def recipes() -> Iterator[Recipe]:
    for op in ("add", "sub", "mul", "div"):
        for ne in SHAPES:
            yield from _one(op, F32, ne, ne)


def _one(op: str, type_: Type, ne: Shape, ne_b: Shape, layout: str = "dense") -> Iterator[Recipe]:
    yield from every(op.upper(), lambda m, **p: _binary(m, op, **p), type=type_, ne=ne, ne_b=ne_b,
                     layout=layout, inplace=[False, True])  # fmt: skip
