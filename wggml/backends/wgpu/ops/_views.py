"""Parts of a placed tensor under other shapes, for ops that are made of simpler ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.ops import elementwise, shape
from wggml.core.opcodes import Op
from wggml.core.tensor import Shape4, Tensor

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def part(t: Tensor, ne: Shape4, nb: Shape4, offset: int = 0) -> Tensor:
    """`t`'s memory from byte `offset` on under sizes `ne` and byte strides `nb`."""
    view = Tensor(t.type, ne, nb, view_src=t.view_src or t)
    view.view_offs = t.view_offs + offset
    view.buffer, view.name = t.buffer, t.name
    assert t.data is not None
    view.data = t.data + offset
    return view


def emit_add(b: PlanBuilder, dst: Tensor, x: Tensor, y: Tensor) -> None:
    """dst = x + y, `y` repeating; `dst` is a part made for this."""
    dst.op, dst.src = Op.ADD, [x, y]
    elementwise.FAMILY[Op.ADD].emit(b, dst)


def copy_whole(b: PlanBuilder, dst: Tensor, src: Tensor, label: str) -> None:
    """dst = src, both of one type and shape."""
    shape.copy(b, _place(dst), _place(src), label)


def _place(t: Tensor) -> shape.Place:
    return shape.Place(t, t.ne, t.nb)
