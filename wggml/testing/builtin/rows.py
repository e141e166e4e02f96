"""Rows read and written by index, in every type."""

from __future__ import annotations

from collections.abc import Iterator

from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.quants.api import can_quantize
from wggml.testing.builtin.limits import BLOCKS, EXACT
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each

F32, F16, BF16, I32, I64 = Type.F32, Type.F16, Type.BF16, Type.I32, Type.I64
READ = (F32, F16, BF16, I32, *(t for t, x in TRAITS.items() if x.is_quantized
                               and t not in (Type.Q8_1, Type.Q8_K)))  # fmt: skip
# types of a cache that ggml writes rows of
WRITTEN = tuple(t for t in READ if t == I32 or can_quantize(t))


def recipes() -> Iterator[Recipe]:
    for type_ in READ:
        b = TRAITS[type_].blck_size
        n: list[object] = [b, 3 * b, 1024] if b > 1 else [1, 3, 33, 256, 257]
        yield from each("GET_ROWS", _get_rows, max_err=EXACT, type=type_, n=n, rows=[7, 1, 1000],
                        r=[4, 1, 65], batch=[(1, 1), (3, 2)],
                        layout=["dense", "strided"])  # fmt: skip
    for type_ in WRITTEN:
        if type_ == I32:
            continue
        b = TRAITS[type_].blck_size
        n = [b, 3 * b, 1024] if b > 1 else [1, 3, 33, 256, 257]
        limit = BLOCKS if b > 1 else {F32: 0.0, F16: 1e-9, BF16: 1e-9}[type_]
        yield from each("SET_ROWS", _set_rows, max_err=limit, type_src=[F32, F16], type_dst=type_,
                        type_idx=[I64, I32], n=n, rows=[9, 70], r=[4, 1, 9], batch=[(1, 1), (2, 3)],
                        layout=["dense", "padded"], dst=["dense", "strided"])  # fmt: skip
    for type_ in (F32, F16):
        yield from each("GET_ROWS_BACK", _get_rows_back, max_err=EXACT, type=type_,
                        n=[33, 1, 256, 257], rows=[6, 1], r=[40, 1, 300])  # fmt: skip


def _get_rows(m: Maker, type: Type, n: int, rows: int, r: int, batch: Shape, layout: str) -> Tensor:
    reach = 1000.0 if type == I32 else 1.0
    a = m.laid(layout, (n, rows, *batch), type, lo=-reach, hi=reach)
    return ops.get_rows(m.ctx, a, m.ints((r, *batch), rows))


def _set_rows(
    m: Maker, type_src: Type, type_dst: Type, type_idx: Type, n: int, rows: int, r: int,
    batch: Shape, layout: str, dst: str,
) -> Tensor:  # fmt: skip
    a = m.laid(dst, (n, rows, *batch), type_dst)
    values = m.laid(layout, (n, min(r, rows), *batch), type_src)
    return ops.set_rows(m.ctx, a, values, m.distinct((min(r, rows), *batch), rows, type_idx))


def _get_rows_back(m: Maker, type: Type, n: int, rows: int, r: int) -> Tensor:
    like = m.leaf((n, rows))
    return ops.get_rows_back(m.ctx, m.leaf((n, r), type), m.ints((r,), rows), like)
