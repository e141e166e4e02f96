"""Matrix products of every type, by a matrix a row, outer products, triangular systems."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import Prec
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.testing.builtin.limits import SUMS
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
FLOATS = (F32, F16, BF16)
# Q8_1 and Q8_K hold activations only: ggml multiplies nothing by them.
BLOCKS = tuple(t for t, x in TRAITS.items() if x.is_quantized and t not in (Type.Q8_1, Type.Q8_K))
LARGE = 1e5
"""Activations past the range of f16, as some models have them."""


def recipes() -> Iterator[Recipe]:
    for type_ in (*FLOATS, *BLOCKS):
        yield from _products(type_)
        yield from _products_by_id(type_)
        yield from _outer(type_)
    for type_ in FLOATS:
        yield from _float_products(type_)
    yield from each("SOLVE_TRI", _solve_tri, max_err=SUMS, n=[37, 1, 3, 64, 65, 130],
                    columns=[9, 1, 3, 65], batch=[(2, 3), (1, 1)])  # fmt: skip


def _block(type_: Type) -> int:
    """A row length that is whole blocks and no power of two of them."""
    return TRAITS[type_].blck_size


# ---- MUL_MAT ------------------------------------------------------------------------------------


def _products(type_: Type) -> Iterator[Recipe]:
    b = _block(type_)
    k = 3 * b if b > 1 else 96
    for type_b in (F32, F16) if type_ in (F16, F32, Type.Q4_0, Type.Q4_K) else (F32,):
        yield from each("MUL_MAT", _mul_mat, max_err=SUMS, type_a=type_, type_b=type_b, m=[33, 1, 64, 257],
                        n=[1, 2, 3, 5, 8, 9, 17, 33, 65], k=[k, b if b > 1 else 1, 512 * max(b // 256, 1)],
                        batch=[(1, 1), (2, 3)], repeat=[(1, 1), (2, 1), (3, 2)], layout=["dense", "strided"],
                        layout_b=["dense", "strided", "permuted"], big=[1.0, LARGE])  # fmt: skip
    yield from every("MUL_MAT", _mul_mat, max_err=SUMS, type_a=type_, type_b=F32, m=130,
                     n=[4, 16, 70], k=768, batch=(1, 1), repeat=(1, 1), layout="dense",
                     layout_b="dense", big=[1.0, LARGE])  # fmt: skip


def _float_products(type_: Type) -> Iterator[Recipe]:
    """Sizes that block formats cannot have, and operands in any order in memory."""
    for type_b in (F32, F16) if type_ == F16 else (F32,):
        yield from every("MUL_MAT", _mul_mat, max_err=SUMS, type_a=type_, type_b=type_b, m=[3, 65],
                         n=[1, 7, 66], k=[1, 3, 7, 63, 129], batch=(1, 1), repeat=(1, 1), layout="dense",
                         layout_b="dense", big=1.0)  # fmt: skip
        yield from every("MUL_MAT", _mul_mat, max_err=SUMS, type_a=type_, type_b=type_b, m=33, n=[1, 9],
                         k=70, batch=(3, 2), repeat=(2, 1), layout=["permuted", "0321"],
                         layout_b=["permuted", "0321", "transposed"], big=1.0)  # fmt: skip


def _mul_mat(
    mk: Maker, type_a: Type, type_b: Type, m: int, n: int, k: int, batch: Shape, repeat: Shape,
    layout: str, layout_b: str, big: float,
) -> Tensor:  # fmt: skip
    a = mk.laid(layout, (k, m, *batch), type_a)
    outer = [x * y for x, y in zip(batch, repeat, strict=True)]
    reach = min(big, 6e4) if type_b == F16 else big
    b = mk.laid(layout_b, (k, n, *outer), type_b, lo=-reach, hi=reach)
    prec = Prec.F32 if big > 1 else Prec.UNDEFINED
    return ops.mul_mat(mk.ctx, a, b, prec=prec)


# ---- MUL_MAT_ID ---------------------------------------------------------------------------------


def _products_by_id(type_: Type) -> Iterator[Recipe]:
    k = 2 * _block(type_) if _block(type_) > 1 else 70
    yield from each("MUL_MAT_ID", _mul_mat_id, max_err=SUMS, type_a=type_, m=[33, 64], k=[k, 512],
                    n_expert=[5, 1, 32], n_used=[2, 1, 4], n_tokens=[1, 3, 17, 40],
                    shared=[False, True], big=[1.0, LARGE])  # fmt: skip


def _mul_mat_id(
    mk: Maker, type_a: Type, m: int, k: int, n_expert: int, n_used: int, n_tokens: int,
    shared: bool, big: float,
) -> Tensor:  # fmt: skip
    n_used = min(n_used, n_expert)
    a = mk.leaf((k, m, n_expert), type_a)
    b = mk.leaf((k, 1 if shared else n_used, n_tokens), lo=-big, hi=big)
    return ops.mul_mat_id(mk.ctx, a, b, mk.distinct((n_used, n_tokens), n_expert))


# ---- OUT_PROD and SOLVE_TRI ---------------------------------------------------------------------


def _outer(type_: Type) -> Iterator[Recipe]:
    b = _block(type_)
    yield from each("OUT_PROD", _out_prod, max_err=SUMS, type_a=type_, m=[2 * b if b > 1 else 33],
                    n=[5, 1, 17], k=[7, 1, 64], batch=[(1, 1), (2, 1)], repeat=[(1, 1), (2, 3)],
                    turned=[False, True])  # fmt: skip


def _out_prod(
    mk: Maker, type_a: Type, m: int, n: int, k: int, batch: Shape, repeat: Shape, turned: bool
) -> Tensor:
    a = mk.leaf((m, k, *batch), type_a)
    outer = [x * y for x, y in zip(batch, repeat, strict=True)]
    return ops.out_prod(mk.ctx, a, mk.laid("transposed" if turned else "dense", (n, k, *outer)))


def _solve_tri(mk: Maker, n: int, columns: int, batch: Shape) -> Tensor:
    """A well-conditioned lower triangle; what lies above the diagonal is not to be read."""
    a = np.tril(mk.rng.uniform(-1, 1, (*batch[::-1], n, n))) / np.sqrt(n) + 2 * np.eye(n)
    a += np.triu(np.full((n, n), 9.0), 1)
    return ops.solve_tri(mk.ctx, mk.array(a.astype(np.float32)), mk.leaf((columns, n, *batch)))
