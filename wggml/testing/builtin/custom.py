"""Cases of the ops that users registered (wggml/custom.py)."""

from __future__ import annotations

from collections.abc import Iterator

from wggml import custom
from wggml.core.tensor import Tensor
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Build, Recipe


def recipes() -> Iterator[Recipe]:
    for op in custom.registered():
        yield from recipes_of(op)


def recipes_of(op: custom.CustomOp) -> Iterator[Recipe]:
    """A case for each of the op's examples."""
    for shapes, given in op.examples:
        params = {"ne": [tuple(ne) for ne in shapes], **op.params, **given}
        yield Recipe(op.name, _build(op), params, max_err=op.max_err)


def _build(op: custom.CustomOp) -> Build:
    lo, hi = op.values

    def build(m: Maker, ne: list[Shape], **params: custom.Number) -> Tensor:
        srcs = [m.leaf(s, type_, lo=lo, hi=hi) for s, type_ in zip(ne, op.types, strict=True)]
        return op(m.ctx, *srcs, **params)

    return build
