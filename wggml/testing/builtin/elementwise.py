"""Arithmetic with broadcasting, element functions, gated units, blocks written into tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wggml.core import ops
from wggml.core.opcodes import GluOp, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import FUNCTIONS, stored
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
FLOATS = (F32, F16, BF16)
# one element, odd, around workgroups of 64 and of 256, several dimensions, many rows
SHAPES: list[object] = [
    (7, 5, 3, 2), (1,), (3,), (63, 2), (65, 1, 3), (255,), (257, 3), (2, 1, 1, 400),
]  # fmt: skip
LAYOUTS: list[object] = ["dense", "strided", "transposed", "permuted", "3210"]
ROW_LAYOUTS: list[object] = ["dense", "strided", "permuted", "0321"]
# second operands that repeat to (8, 6, 4, 2)
REPEATED: list[object] = [
    (1,), (8,), (1, 6), (4, 3), (8, 6), (8, 1, 4), (1, 1, 1, 2), (8, 6, 4), (8, 3, 2, 1),
]  # fmt: skip


def recipes() -> Iterator[Recipe]:
    for op in ("add", "sub", "mul", "div"):
        yield from _binaries(op)
    yield from _other_sums()
    for name in ("sqr", "sqrt", "log", "sin", "cos", "clamp", "leaky_relu", "scale"):
        layouts = ["dense", "padded"] if name in ("scale", "leaky_relu") else ROW_LAYOUTS
        yield from _functions(name.upper(), _simple(name), layouts, [False, True])
    for kind in (k for k in UnaryOp if k is not UnaryOp.XIELU):
        yield from _functions(kind.name, _unary(kind), ROW_LAYOUTS, [False, True])
    yield from _functions("XIELU", _xielu, ROW_LAYOUTS, [False])
    for glu in GluOp:
        yield from _gated(glu)


# ---- two operands -------------------------------------------------------------------------------


def _binaries(op: str) -> Iterator[Recipe]:
    make: Callable[..., Tensor] = getattr(ops, op)

    def build(
        m: Maker, type: Type, ne: Shape, ne_b: Shape, layout: str, layout_b: str, inplace: bool
    ) -> Tensor:
        a = m.laid(layout, ne, type, lo=0.5, hi=2.0)
        b = m.laid(layout_b, ne_b or ne, type, lo=0.5, hi=3.0)
        return make(m.ctx, a, b, inplace=inplace)

    def same(m: Maker, type: Type, ne: Shape, alias: str, inplace: bool) -> Tensor:
        """Both operands in one memory: the same tensor, or two windows of one."""
        a = m.leaf((*ne[:-1], 2 * ne[-1]), type, lo=0.5, hi=3.0)
        first = ops.view(m.ctx, a, ne, a.nb[1 : len(ne)])
        second = first
        if alias == "windows":
            second = ops.view(m.ctx, a, ne, a.nb[1 : len(ne)], ne[-1] * a.nb[len(ne) - 1])
        return make(m.ctx, first, second, inplace=inplace)

    name = op.upper()
    for type_ in FLOATS:
        limit = stored(type_)
        shapes = SHAPES if type_ == F32 else SHAPES[:5]
        yield from each(name, build, max_err=limit, type=type_, ne=shapes, ne_b=(), layout=LAYOUTS,
                        layout_b=LAYOUTS, inplace=[False, True])  # fmt: skip
        yield from every(name, build, max_err=limit, type=type_, ne=(8, 6, 4, 2), ne_b=REPEATED,
                         layout="dense", layout_b=["dense", "strided"],
                         inplace=type_ == F32)  # fmt: skip
    yield from every(name, same, max_err=stored(F32), type=F32, ne=(33, 5),
                     alias=["same", "windows"], inplace=[False, True])  # fmt: skip


def _other_sums() -> Iterator[Recipe]:
    for type_ in (Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.F16, Type.BF16):
        yield from each("ADD", _add_cast, max_err=1e-9, type_a=type_, type=F32, ne=[(512, 5, 3, 2)],
                        ne_b=[(512, 5, 3, 2), (512,), (512, 1, 3)])  # fmt: skip
    yield from each("ADD1", _add1, max_err=stored(F32), type=[F32, F16, BF16], type_b=F32,
                    ne=[(7, 5, 3, 2), (1,), (257, 3)], inplace=[False, True])  # fmt: skip
    yield from each("ADD_ID", _add_id, max_err=stored(F32), n=[33, 1, 256, 2880], n_expert=[5, 1],
                    n_used=[2, 1, 4], n_tokens=[3, 1, 32])  # fmt: skip
    for op in ("acc", "set"):
        yield from each(op.upper(), _block(op), max_err=stored(F32), ne=[(33, 6, 3, 2), (5,)],
                        block=[(5, 4, 2, 1), (5,), (3, 1, 1, 1)], inplace=[False, True],
                        turned=[False, True])  # fmt: skip
    yield from each("SILU_BACK", _silu_back, max_err=1e-9, ne=SHAPES, far=[False, True])


def _add_cast(m: Maker, type_a: Type, type: Type, ne: Shape, ne_b: Shape) -> Tensor:
    return ops.add_cast(m.ctx, m.leaf(ne, type_a), m.leaf(ne_b), type)


def _add1(m: Maker, type: Type, type_b: Type, ne: Shape, inplace: bool) -> Tensor:
    return ops.add1(m.ctx, m.leaf(ne, type), m.leaf((1,), type_b, lo=0.5), inplace=inplace)


def _add_id(m: Maker, n: int, n_expert: int, n_used: int, n_tokens: int) -> Tensor:
    ids = m.ints((n_used, n_tokens), n_expert)
    return ops.add_id(m.ctx, m.leaf((n, n_used, n_tokens)), m.leaf((n, n_expert)), ids)


def _block(op: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, op)

    def build(m: Maker, ne: Shape, block: Shape, inplace: bool, turned: bool) -> Tensor:
        a = m.leaf(ne)
        b = m.laid("transposed" if turned else "dense", [min(n, k) for n, k in zip(
            (*block, 1, 1, 1)[:4], (*ne, 1, 1, 1)[:4], strict=True)])  # fmt: skip
        offset = a.nb[1] + 4 if len(ne) > 1 else 0
        return make(m.ctx, a, b, a.nb[1:], offset, inplace=inplace)

    return build


def _silu_back(m: Maker, ne: Shape, far: bool) -> Tensor:
    reach = 90.0 if far else 3.0
    return ops.silu_back(m.ctx, m.leaf(ne), m.leaf(ne, lo=-reach, hi=reach))


# ---- one operand --------------------------------------------------------------------------------

_RANGES = {"sqrt": (0.01, 4.0), "log": (0.01, 4.0), "sin": (-30.0, 30.0), "cos": (-30.0, 30.0)}
_SETTINGS: dict[str, tuple[float, ...]] = {
    "clamp": (-0.4, 0.6), "leaky_relu": (0.2,), "scale": (2.5,),
}  # fmt: skip


def _simple(name: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, name)

    def build(m: Maker, type: Type, ne: Shape, layout: str, inplace: bool) -> Tensor:
        lo, hi = _RANGES.get(name, (-2.0, 2.0))
        a = m.laid(layout, ne, type, lo=lo, hi=hi)
        return make(m.ctx, a, *_SETTINGS.get(name, ()), inplace=inplace)

    return build


def _unary(kind: UnaryOp) -> Callable[..., Tensor]:
    def build(m: Maker, type: Type, ne: Shape, layout: str, inplace: bool) -> Tensor:
        return ops.unary(m.ctx, m.laid(layout, ne, type, lo=-5.0, hi=5.0), kind, inplace=inplace)

    return build


def _xielu(m: Maker, type: Type, ne: Shape, layout: str, inplace: bool) -> Tensor:
    return ops.xielu(m.ctx, m.laid(layout, ne, type, lo=-5.0, hi=5.0), 4.0, 20.0, 0.5, 1e-3)


def _functions(
    op: str, build: Callable[..., Tensor], layouts: list[object], inplace: list[object]
) -> Iterator[Recipe]:
    for type_ in FLOATS:
        shapes = SHAPES if type_ == F32 else SHAPES[:4]
        yield from each(op, build, max_err=max(stored(type_), FUNCTIONS), type=type_, ne=shapes,
                        layout=layouts, inplace=inplace)  # fmt: skip


# ---- gated units --------------------------------------------------------------------------------


def _gated(kind: GluOp) -> Iterator[Recipe]:
    def halves(m: Maker, type: Type, ne: Shape, layout: str, swapped: bool) -> Tensor:
        a = m.laid(layout, (2 * ne[0], *ne[1:]), type, lo=-4.0, hi=4.0)
        if kind is GluOp.SWIGLU_OAI:
            return ops.swiglu_oai(m.ctx, a, None, alpha=1.702, limit=2.0)
        if kind is GluOp.SWIGLU_CLAMP:
            return ops.swiglu_clamp(m.ctx, a, None, limit=2.0)
        return ops.glu(m.ctx, a, kind, swapped=swapped)

    def split(m: Maker, type: Type, ne: Shape, layout: str) -> Tensor:
        a, b = (m.laid(layout, ne, type, lo=-4.0, hi=4.0) for _ in range(2))
        if kind is GluOp.SWIGLU_OAI:
            return ops.swiglu_oai(m.ctx, a, b, alpha=1.702, limit=2.0)
        if kind is GluOp.SWIGLU_CLAMP:
            return ops.swiglu_clamp(m.ctx, a, b, limit=2.0)
        return ops.glu_split(m.ctx, a, b, kind)

    for type_ in FLOATS:
        limit = max(stored(type_), FUNCTIONS)
        yield from each(kind.name, halves, max_err=limit, type=type_, ne=SHAPES,
                        layout=["dense", "padded"], swapped=[False, True])  # fmt: skip
        yield from each(kind.name, split, max_err=limit, type=type_, ne=SHAPES,
                        layout=["dense", "padded"])  # fmt: skip
