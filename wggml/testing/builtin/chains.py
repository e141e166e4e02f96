"""Chains of ops that backends may run as one, under the names of the recorded data.

Only the last result is compared, so that nodes in between may never reach memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from wggml.core import ops
from wggml.core.opcodes import RopeMode
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import FUNCTIONS, SUMS, stored
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
SHAPES: list[object] = [(64, 5, 4, 3), (1,), (7, 5, 3, 2), (129, 2, 1, 2), (257, 3), (1025, 2)]


def recipes() -> Iterator[Recipe]:
    """Every chain, compared as a whole."""
    yield from (replace(r, whole_graph=True) for r in _chains())


def _chains() -> Iterator[Recipe]:
    yield from _norms()
    for name in ("gelu", "sigmoid", "silu", "softplus"):
        for type_ in (F32, F16, BF16):
            yield from each(
                f"{name.upper()}_MUL",
                _gate(name),
                max_err=max(stored(type_), FUNCTIONS),
                type=type_,
                ne=SHAPES,
                swap=[False, True],
                repeat=[False, True],
            )
    for type_ in (F32, F16, BF16):
        limit = max(stored(type_), FUNCTIONS)
        yield from each(
            "ADD_ADD", _add_add, max_err=limit, type=type_, ne=SHAPES, broadcast=[False, True]
        )
        yield from each("RELU_SQR", _relu_sqr, max_err=limit, type=type_, ne=SHAPES)
        yield from each(
            "SNAKE_FUSE",
            _snake,
            max_err=max(limit, 1e-5 * (type_ == BF16)),
            type=type_,
            ne=[(33, 32), (128, 16), (1, 1), (257, 3)],
        )
    yield from each("SOFTCAP", _softcap, max_err=FUNCTIONS, ne=SHAPES, softcap=[30.0, 1.5])
    yield from _experts()
    yield from each(
        "SSM_CONV_BIAS_SILU",
        _ssm_conv,
        max_err=FUNCTIONS,
        d_conv=[4, 3],
        channels=[24, 1024],
        tokens=[9, 1],
        n_seq=[2, 1],
        bias=[True, False],
    )


# ---- norms --------------------------------------------------------------------------------------


def _norms() -> Iterator[Recipe]:
    for name in ("rms_norm", "norm"):
        yield from each(
            f"{name.upper()}_MUL_ADD",
            _norm_mul_add(name),
            max_err=SUMS,
            ne=SHAPES,
            eps=[1e-6, 1.0],
            broadcast=[True, False],
        )
        yield from each(
            "RMS_NORM_SCALE" if name == "rms_norm" else "NORM_SCALE",
            _norm_scale(name),
            max_err=SUMS,
            ne=SHAPES,
            eps=[1e-6, 1.0],
        )
    yield from each(
        "ADD_RMS_NORM",
        _add_rms_norm,
        max_err=SUMS,
        ne=SHAPES,
        eps=[1e-6, 1.0],
        broadcast=[False, True],
    )
    yield from each(
        "GROUP_NORM_MUL_ADD",
        _group_norm,
        max_err=SUMS,
        ne=[(5, 3, 16, 2), (9, 9, 32)],
        groups=[2, 1, 8],
    )
    yield from every(
        "RMS_NORM_MUL_ROPE",
        _norm_rope,
        max_err=1e-7,
        ne=[(64, 3, 5), (128, 1, 1), (256, 4, 2)],
        mode=[RopeMode.NORMAL, RopeMode.NEOX],
        set_rows=[False, True],
    )
    yield from every(
        "ROPE_SET_ROWS",
        _rope_rows,
        max_err=1e-7,
        ne=[(128, 2, 5), (64, 1, 1)],
        mode=[RopeMode.NORMAL, RopeMode.NEOX],
        type=[F32, F16],
        type_idx=[Type.I64, Type.I32],
    )


def _norm_mul_add(name: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, name)

    def build(m: Maker, ne: Shape, eps: float, broadcast: bool) -> Tensor:
        shape = (ne[0],) if broadcast else ne
        x = make(m.ctx, m.leaf(ne), eps)
        return ops.add(m.ctx, ops.mul(m.ctx, x, m.leaf(shape)), m.leaf(shape))

    return build


def _norm_scale(name: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, name)

    def build(m: Maker, ne: Shape, eps: float) -> Tensor:
        return ops.scale(m.ctx, make(m.ctx, m.leaf(ne), eps), 1.5)

    return build


def _add_rms_norm(m: Maker, ne: Shape, eps: float, broadcast: bool) -> Tensor:
    x = ops.add(m.ctx, m.leaf(ne), m.leaf((ne[0],) if broadcast else ne))
    return ops.add(m.ctx, ops.rms_norm(m.ctx, x, eps), x)


def _group_norm(m: Maker, ne: Shape, groups: int) -> Tensor:
    x = ops.group_norm(m.ctx, m.leaf(ne), groups, 1e-5)
    shape = (1, 1, ne[2])
    return ops.add(m.ctx, ops.mul(m.ctx, x, m.leaf(shape)), m.leaf(shape))


def _norm_rope(m: Maker, ne: Shape, mode: RopeMode, set_rows: bool) -> Tensor:
    x = ops.mul(m.ctx, ops.rms_norm(m.ctx, m.leaf(ne), 1e-6), m.leaf((ne[0],)))
    y = ops.rope(m.ctx, x, m.ints((ne[2],), 100), ops.RopeParams(n_dims=ne[0], mode=mode))
    return _stored_rows(m, y, F16, Type.I64) if set_rows else y


def _rope_rows(m: Maker, ne: Shape, mode: RopeMode, type: Type, type_idx: Type) -> Tensor:
    params = ops.RopeParams(n_dims=ne[0], mode=mode)
    return _stored_rows(
        m, ops.rope(m.ctx, m.leaf(ne), m.ints((ne[2],), 100), params), type, type_idx
    )


def _stored_rows(m: Maker, x: Tensor, type_: Type, type_idx: Type) -> Tensor:
    """Each token's heads as one row of a cache."""
    n = x.ne[0] * x.ne[1]
    rows = ops.reshape(m.ctx, x, (n, x.ne[2]))
    cache = m.leaf((n, 2 * x.ne[2] + 3), type_)
    return ops.set_rows(m.ctx, cache, rows, m.distinct((x.ne[2],), cache.ne[1], type_idx))


# ---- gates and functions ------------------------------------------------------------------------


def _gate(name: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, name)

    def build(m: Maker, type: Type, ne: Shape, swap: bool, repeat: bool) -> Tensor:
        gate, other = make(m.ctx, m.leaf(ne, type, lo=-4.0, hi=4.0)), m.leaf(ne, type)
        if repeat:
            return ops.mul(m.ctx, gate, m.leaf((1, *ne[1:]), type))
        return ops.mul(m.ctx, other, gate) if swap else ops.mul(m.ctx, gate, other)

    return build


def _add_add(m: Maker, type: Type, ne: Shape, broadcast: bool) -> Tensor:
    last = m.leaf((ne[0],) if broadcast else ne, type)
    return ops.add(m.ctx, ops.add(m.ctx, m.leaf(ne, type), m.leaf(ne, type)), last)


def _relu_sqr(m: Maker, type: Type, ne: Shape) -> Tensor:
    return ops.sqr(m.ctx, ops.relu(m.ctx, m.leaf(ne, type, lo=-2.0, hi=2.0)))


def _softcap(m: Maker, ne: Shape, softcap: float) -> Tensor:
    x = ops.scale(m.ctx, m.leaf(ne, lo=-50.0, hi=50.0), 1.0 / softcap)
    return ops.scale(m.ctx, ops.tanh(m.ctx, x), softcap)


def _snake(m: Maker, type: Type, ne: Shape) -> Tensor:
    """x + sin(a x)^2 / a, with `a` for each channel."""
    x, a = m.leaf(ne, type), m.leaf((1, ne[1]), type, lo=0.5, hi=2.0)
    inverse = m.leaf((1, ne[1]), type, lo=0.5, hi=2.0)
    wave = ops.sqr(m.ctx, ops.sin(m.ctx, ops.mul(m.ctx, x, a)))
    return ops.add(m.ctx, x, ops.mul(m.ctx, wave, inverse))


# ---- experts ------------------------------------------------------------------------------------


def _experts() -> Iterable[Recipe]:
    yield from each(
        "MOE_REDUCE",
        _moe_reduce,
        max_err=SUMS,
        n_embd=[63, 256],
        n_used=[4, 2, 8],
        n_tokens=[5, 1, 33],
    )
    for r in every(
        "TOPK_MOE",
        _topk_moe,
        max_err=FUNCTIONS,
        n_expert=[8, 31, 128],
        n_tokens=[1, 22],
        n_used=[1, 4],
        norm=[False, True],
    ):
        yield replace(r, metric="sorted_nmse")


def _moe_reduce(m: Maker, n_embd: int, n_used: int, n_tokens: int) -> Tensor:
    """The experts' answers by their weights, added up."""
    x = ops.mul(m.ctx, m.leaf((n_embd, n_used, n_tokens)), m.leaf((1, n_used, n_tokens), lo=0.1))
    parts = [ops.view(m.ctx, x, (n_embd, n_tokens), (x.nb[2],), i * x.nb[1]) for i in range(n_used)]
    total = parts[0]
    for part in parts[1:]:
        total = ops.add(m.ctx, total, part)
    return total


def _topk_moe(m: Maker, n_expert: int, n_tokens: int, n_used: int, norm: bool) -> Tensor:
    probs = ops.soft_max(m.ctx, m.levels((n_expert, n_tokens), -3.0, 3.0))
    ids = ops.argsort_top_k(m.ctx, probs, n_used)
    rows = ops.reshape(m.ctx, probs, (1, n_expert, n_tokens))
    weights = ops.get_rows(m.ctx, rows, ids)
    if not norm:
        return weights
    flat = ops.reshape(m.ctx, weights, (n_used, n_tokens))
    return ops.div(m.ctx, flat, ops.sum_rows(m.ctx, flat))


# ---- state spaces -------------------------------------------------------------------------------


def _ssm_conv(m: Maker, d_conv: int, channels: int, tokens: int, n_seq: int, bias: bool) -> Tensor:
    x = m.leaf((d_conv - 1 + tokens, channels, n_seq))
    y = ops.ssm_conv(m.ctx, x, m.leaf((d_conv, channels)))
    return ops.silu(m.ctx, ops.add(m.ctx, y, m.leaf((channels,))) if bias else y)
