"""Copies between types and layouts, repetition, joining; views and chains of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.quants.api import can_quantize
from wggml.testing.builtin.limits import BLOCKS, EXACT, stored
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16, BF16, I32 = Type.F32, Type.F16, Type.BF16, Type.I32
FLOATS = (F32, F16, BF16)
BLOCK_TYPES = tuple(
    t for t, x in TRAITS.items() if x.is_quantized and t not in (Type.Q8_1, Type.Q8_K)
)
LAYOUTS: list[object] = ["dense", "strided", "transposed", "permuted", "3210"]
SHAPES: list[object] = [(7, 5, 3, 2), (1,), (3,), (64, 3), (65, 2), (257, 3), (2, 1, 1, 400)]


def recipes() -> Iterator[Recipe]:
    yield from _copies()
    for type_ in (F32, F16, BF16, I32):
        for op in ("dup", "cont"):
            yield from each(op.upper(), _one(getattr(ops, op)), max_err=0.0, type=type_, ne=SHAPES,
                            layout=LAYOUTS)  # fmt: skip
    for type_ in (F32, F16, I32):
        yield from every("REPEAT", _repeat, max_err=0.0, type=type_, ne=(5, 3, 2, 1),
                         times=[(1, 1, 1, 1), (3, 1, 1, 1), (1, 2, 1, 1), (2, 2, 2, 3)],
                         layout=["dense", "permuted"])  # fmt: skip
    yield from every("REPEAT_BACK", _repeat_back, max_err=EXACT, ne=[(5, 3, 2, 1), (1,), (257,)],
                     times=[(1, 1, 1, 1), (3, 1, 1, 1), (1, 2, 1, 1), (2, 2, 2, 3)],
                     layout=["dense", "strided"])  # fmt: skip
    for type_ in (F32, F16, BF16, I32, Type.I8, Type.I16, Type.I64, Type.Q4_0, Type.Q8_0):
        n = TRAITS[type_].blck_size
        dims: list[object] = [0, 1, 2, 3]
        yield from every("CONCAT", _concat, max_err=0.0, type=type_, ne=(n * 3 if n > 1 else 7, 5, 3, 2),
                         more=[1, 4], dim=dims, layout=["dense", "strided"])  # fmt: skip
    yield from _views()


# ---- copies -------------------------------------------------------------------------------------


def _copies() -> Iterator[Recipe]:
    for src in (*FLOATS, I32):
        for dst in (*FLOATS, I32):
            yield from each("CPY", _cpy, max_err=stored(dst) if src != dst else 0.0, type_src=src,
                            type_dst=dst, ne=SHAPES[:6] if src == F32 else SHAPES[:3], layout=LAYOUTS,
                            layout_dst=["dense", "strided", "permuted"])  # fmt: skip
    for block in BLOCK_TYPES:
        n = TRAITS[block].blck_size
        shapes: list[object] = [(2 * n, 3, 2), (n,)]
        yield from each("CPY", _cpy, max_err=EXACT, type_src=block, type_dst=F32, ne=shapes,
                        layout=["dense", "strided"], layout_dst="dense")  # fmt: skip
        yield from each("CPY", _cpy, max_err=0.0, type_src=block, type_dst=block, ne=shapes,
                        layout="dense", layout_dst="dense")  # fmt: skip
        if can_quantize(block):
            yield from each("CPY", _cpy, max_err=BLOCKS, type_src=[F32, F16, BF16], type_dst=block, ne=shapes,
                            layout=["dense", "strided"], layout_dst="dense")  # fmt: skip
    yield from every("CPY", _cpy_reshaped, max_err=0.0, type=[F32, F16], ne=(6, 4, 5), ne_dst=(10, 12),
                     layout=["dense", "permuted", "transposed"])  # fmt: skip
    yield from every("CPY", _cast, max_err=1e-6, type_src=[F32, F16], type_dst=[F16, BF16, Type.Q8_0],
                     ne=(64, 3), layout="dense")  # fmt: skip


def _cpy(
    m: Maker, type_src: Type, type_dst: Type, ne: Shape, layout: str, layout_dst: str
) -> Tensor:
    reach = 100.0 if I32 in (type_src, type_dst) else 2.0
    a = m.laid(layout, ne, type_src, lo=-reach, hi=reach)
    return ops.cpy(m.ctx, a, m.laid(layout_dst, ne, type_dst))


def _cpy_reshaped(m: Maker, type: Type, ne: Shape, ne_dst: Shape, layout: str) -> Tensor:
    return ops.cpy(m.ctx, m.laid(layout, ne, type), m.leaf(ne_dst, type))


def _cast(m: Maker, type_src: Type, type_dst: Type, ne: Shape, layout: str) -> Tensor:
    return ops.cast(m.ctx, m.laid(layout, ne, type_src), type_dst)


def _one(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def build(m: Maker, type: Type, ne: Shape, layout: str) -> Tensor:
        return make(m.ctx, m.laid(layout, ne, type, lo=-9.0, hi=9.0))

    return build


def _repeat(m: Maker, type: Type, ne: Shape, times: Shape, layout: str) -> Tensor:
    a = m.laid(layout, ne, type, lo=-9.0, hi=9.0)
    return ops.repeat(m.ctx, a, [n * k for n, k in zip(a.ne, times, strict=True)])


def _repeat_back(m: Maker, ne: Shape, times: Shape, layout: str) -> Tensor:
    ne = (*ne, 1, 1, 1)[:4]
    a = m.laid(layout, [n * k for n, k in zip(ne, times, strict=True)])
    return ops.repeat_back(m.ctx, a, ne)


def _concat(m: Maker, type: Type, ne: Shape, more: int, dim: int, layout: str) -> Tensor:
    other = list(ne)
    other[dim] = more * (TRAITS[type].blck_size if dim == 0 else 1)
    a, b = (m.laid(layout, shape, type, lo=-9.0, hi=9.0) for shape in (ne, other))
    return ops.concat(m.ctx, a, b, dim)


# ---- views: nothing to compute by themselves, so something reads through them -------------------


def _views() -> Iterator[Recipe]:
    for type_ in FLOATS:
        yield from each("VIEW", _window, max_err=0.0, type=type_, ne=[(7, 5, 3, 2), (65, 3)])
        yield from each("RESHAPE", _reshaped, max_err=EXACT, type=type_, ne=[(6, 5, 4, 2)],
                        to=[(24, 10), (240,), (2, 3, 10, 4)])  # fmt: skip
        yield from each("TRANSPOSE", _turned, max_err=0.0, type=type_, ne=[(7, 5, 3, 2), (65, 33)])
        yield from each("PERMUTE", _permuted, max_err=0.0, type=type_, ne=(7, 5, 3, 2),
                        axes=[(0, 2, 1, 3), (2, 0, 3, 1), (3, 2, 1, 0), (1, 2, 0, 3)])  # fmt: skip


def _window(m: Maker, type: Type, ne: Shape) -> Tensor:
    """A view of a view of what a node computed, and that node written to through another one."""
    a = ops.scale(m.ctx, m.leaf(ne, type), 2.0) if type == F32 else m.leaf(ne, type)
    rows = ops.view(m.ctx, a, (ne[0], ne[1] - 1), (a.nb[1],), a.nb[1])
    return ops.cont(m.ctx, ops.view(m.ctx, rows, (ne[0] - 2, ne[1] - 1), (a.nb[1],), a.nb[0]))


def _reshaped(m: Maker, type: Type, ne: Shape, to: Shape) -> Tensor:
    return ops.sqr(m.ctx, ops.reshape(m.ctx, m.leaf(ne, type), to))


def _turned(m: Maker, type: Type, ne: Shape) -> Tensor:
    return ops.cont(m.ctx, ops.transpose(m.ctx, m.leaf(ne, type)))


def _permuted(m: Maker, type: Type, ne: Shape, axes: Shape) -> Tensor:
    return ops.cont(m.ctx, ops.permute(m.ctx, m.leaf(ne, type), *axes))
