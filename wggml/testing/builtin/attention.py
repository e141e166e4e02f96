"""Attention, rotary positions, causal masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import RopeMode
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.quants.api import can_quantize
from wggml.testing.builtin.limits import EXACT, stored
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
# types of a cache
CACHED = tuple(
    t
    for t, x in TRAITS.items()
    if x.is_quantized and can_quantize(t) and t not in (Type.Q8_1, Type.Q8_K)
)
ATTENTION = 1e-7
"""Sums of products with K and V as they are stored, exponentials in between."""


def recipes() -> Iterator[Recipe]:
    yield from _attention()
    yield from _ropes()
    for op in ("diag_mask_inf", "diag_mask_zero"):
        yield from each(
            op.upper(),
            _diag_mask,
            max_err=0.0,
            op=op,
            ne=[(33, 5, 3, 2), (1,), (257, 300)],
            n_past=[2, 0, -1, 400],
            inplace=[False, True],
        )


def _attention() -> Iterator[Recipe]:
    base: Mapping[str, object] = {
        "head": 64,
        "head_v": 64,
        "n_head": 4,
        "n_kv_head": 2,
        "n_kv": 113,
        "n_q": 3,
        "n_seq": 1,
        "mask": "causal",
        "max_bias": 0.0,
        "softcap": 0.0,
        "sinks": False,
        "type_k": F16,
        "type_v": F16,
        "layout": "dense",
    }

    def vary(**axes: object) -> Iterator[Recipe]:
        return each("FLASH_ATTN_EXT", _flash_attn, max_err=ATTENTION, **{**base, **axes})

    yield from vary(
        n_kv=[113, 1, 7, 64, 256, 300],
        n_q=[3, 1, 2, 8, 33],
        n_seq=[1, 3],
        mask=["causal", "none", "hidden rows", "per head", "longer"],
        max_bias=[0.0, 8.0],
        softcap=[0.0, 10.0],
        sinks=[False, True],
        layout=["dense", "permuted", "strided"],
    )
    yield from vary(n_head=[8, 1, 3, 16], n_kv_head=1, n_q=[1, 5])
    for head, head_v in (
        (40, 40),
        (80, 80),
        (96, 96),
        (128, 128),
        (192, 128),
        (256, 256),
        (576, 512),
    ):
        yield from vary(head=head, head_v=head_v, n_q=[1, 5], type_k=F16)
    yield from every(
        "FLASH_ATTN_EXT",
        _flash_attn,
        max_err=ATTENTION,
        **{
            **base,
            "n_q": [4, 9],
            "max_bias": [0.0, 8.0],
            "softcap": [0.0, 10.0],
            "sinks": [False, True],
        },
    )
    for type_ in (F32, BF16, *CACHED):
        head = 256 if TRAITS[type_].blck_size > 64 else 64
        for kinds in ((type_, type_), (type_, F16), (F16, type_)):
            yield from vary(
                head=head,
                head_v=head,
                n_q=[1, 7] if kinds[0] == kinds[1] else 2,
                type_k=kinds[0],
                type_v=kinds[1],
            )


def _flash_attn(
    m: Maker, head: int, head_v: int, n_head: int, n_kv_head: int, n_kv: int, n_q: int,
    n_seq: int, mask: str, max_bias: float, softcap: float, sinks: bool, type_k: Type,
    type_v: Type, layout: str,
) -> Tensor:  # fmt: skip
    q = m.laid(
        "permuted" if layout != "dense" else layout, (head, n_q, n_head, n_seq), lo=-2.0, hi=2.0
    )
    k = m.laid(layout, (head, n_kv, n_kv_head, n_seq), type_k)
    v = m.laid(layout, (head_v, n_kv, n_kv_head, n_seq), type_v)
    hidden = None
    if mask != "none":
        heads = n_head if mask == "per head" else 1
        rows = n_q + (5 if mask == "longer" else 0)
        values = m.rng.uniform(-1.0, 1.0, (n_seq, heads, rows, n_kv))
        position = np.arange(rows)[:, None] + max(n_kv - n_q, 0)
        values[:, :, np.arange(n_kv)[None, :] > position] = -np.inf
        if mask == "hidden rows":
            values[:, :, 1] = -np.inf
            values[..., : n_kv // 2] = -np.inf
        hidden = m.array(values.astype(np.float32), F16)
    return ops.flash_attn_ext(
        m.ctx,
        q,
        k,
        v,
        hidden,
        head**-0.5,
        max_bias=max_bias if hidden is not None else 0.0,
        logit_softcap=softcap,
        sinks=m.leaf((n_head,)) if sinks else None,
    )


# ---- rotary positions ---------------------------------------------------------------------------

_SECTIONS = {
    RopeMode.MROPE: (4, 3, 5, 4),
    RopeMode.IMROPE: (6, 5, 5, 0),
    RopeMode.VISION: (8, 8, 0, 0),
}


def _ropes() -> Iterator[Recipe]:
    for op in ("rope", "rope_back"):
        places: list[object] = [False, True] if op == "rope" else [False]
        for mode in RopeMode:
            n_dims: list[object] = [16] if mode == RopeMode.VISION else [32, 20]
            offset: list[object] = [0] if mode == RopeMode.VISION else [0, 4]
            for type_ in (F32, F16):
                yield from each(
                    op.upper(),
                    _rope,
                    max_err=max(stored(type_), EXACT),
                    op=op,
                    type=type_,
                    mode=mode,
                    ne=[(32, 3, 5), (64, 1, 1), (36, 2, 3, 2), (128, 9, 33)],
                    n_dims=n_dims,
                    ext_factor=[0.0, 0.75],
                    factors=[False, True],
                    offset=offset,
                    layout=["dense", "strided", "permuted"],
                    inplace=places,
                )


def _rope(
    m: Maker, op: str, type: Type, mode: RopeMode, ne: Shape, n_dims: int, ext_factor: float,
    factors: bool, offset: int, layout: str, inplace: bool,
) -> Tensor:  # fmt: skip
    if mode == RopeMode.VISION:
        n_dims = ne[0] // 2
    elif offset:
        n_dims = min(n_dims, ne[0] - offset)
    n_dims = min(n_dims, ne[0]) // 2 * 2
    a = m.laid(layout, ne, type)
    params = ops.RopeParams(
        n_dims=n_dims,
        mode=mode,
        n_ctx_orig=64,
        freq_scale=0.8,
        ext_factor=ext_factor,
        attn_factor=1.2,
        sections=_SECTIONS.get(mode, (0, 0, 0, 0)),
        offset=offset,
    )
    positions = m.ints((ne[2] * (4 if mode & RopeMode.MROPE else 1),), 200)
    divisors = m.leaf((max(n_dims // 2, 1) * 2,), lo=0.5, hi=2.0) if factors else None
    if op == "rope_back":
        return ops.rope_back(m.ctx, a, positions, params, freq_factors=divisors)
    return ops.rope(m.ctx, a, positions, params, freq_factors=divisors, inplace=inplace)


def _diag_mask(m: Maker, op: str, ne: Shape, n_past: int, inplace: bool) -> Tensor:
    make = ops.diag_mask_inf if op == "diag_mask_inf" else ops.diag_mask_zero
    return make(m.ctx, m.leaf(ne), n_past, inplace=inplace)
