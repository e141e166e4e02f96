"""Longer stretches of models: products with what follows them, state kept in a cache, rollbacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import GluOp, OpHint, Prec
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import FUNCTIONS, SUMS
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each, every

F32, F16 = Type.F32, Type.F16
WEIGHTS = (F32, F16, Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q6_K)


def recipes() -> Iterator[Recipe]:
    """Chains are compared as a whole; products with a hint or a precision by themselves."""
    yield from _hinted_products()
    yield from (replace(r, whole_graph=True) for r in _chains())


# ---- products that a backend may compute in another precision ------------------------------------


def _hinted_products() -> Iterator[Recipe]:
    for type_ in (F32, F16):
        yield from every(
            "MUL_MAT_HADAMARD", _hadamard, max_err=SUMS, type_b=type_, k=[32, 128, 256], n=[1, 9]
        )
    for type_ in (Type.NVFP4, Type.MXFP4):
        for name, prec in (("W4A4", Prec.UNDEFINED), ("W4A8", Prec.Q8)):
            axes = {"type_a": type_, "src1_prec": prec, "m": 33, "n": [1, 9, 33], "k": 256}
            yield from every(f"MUL_MAT_{name}", _short_product, **axes)  # type: ignore[arg-type]
            yield from every(f"MUL_MAT_ID_{name}", _short_product_by_id, **axes)  # type: ignore[arg-type]


def _hadamard(mk: Maker, type_b: Type, k: int, n: int) -> Tensor:
    """Sylvester's matrix of +-1, scaled to be orthogonal."""
    h = np.ones((1, 1))
    while len(h) < k:
        h = np.block([[h, h], [h, -h]])
    a = mk.array((h / np.sqrt(k)).astype(np.float32))
    return ops.mul_mat(mk.ctx, a, mk.leaf((k, n), type_b), hint=OpHint.SRC0_IS_HADAMARD)


def _short_product(mk: Maker, type_a: Type, src1_prec: Prec, m: int, n: int, k: int) -> Tensor:
    return ops.mul_mat(mk.ctx, mk.leaf((k, m), type_a), mk.leaf((k, n)), src1_prec=src1_prec)


def _short_product_by_id(
    mk: Maker, type_a: Type, src1_prec: Prec, m: int, n: int, k: int
) -> Tensor:
    a, b, ids = mk.leaf((k, m, 4), type_a), mk.leaf((k, 1, n)), mk.distinct((2, n), 4)
    return ops.mul_mat_id(mk.ctx, a, b, ids, src1_prec=src1_prec)


# ---- chains -------------------------------------------------------------------------------------


def _chains() -> Iterator[Recipe]:
    for type_ in WEIGHTS:
        yield from each(
            "MUL_MAT_VEC_FUSION",
            _gated_product,
            max_err=FUNCTIONS,
            type=type_,
            glu=[GluOp.SWIGLU, GluOp.GEGLU, GluOp.REGLU],
            m=33,
            n=[1, 2, 9],
            k=256,
            bias=[True, False],
            gate=[True, False],
        )
        # rows in whole quads, as models have them: what one kernel of a product may do
        yield from every(
            "MUL_MAT_VEC_FUSION",
            _gated_product,
            max_err=FUNCTIONS,
            type=type_,
            glu=GluOp.SWIGLU,
            m=68,
            n=1,
            k=256,
            bias=[False, True],
            gate=[True, False],
        )
        yield from each(
            "MUL_MAT_ID_FUSION",
            _expert_sum,
            max_err=SUMS,
            type_a=type_,
            n_expert=[4, 16],
            n_used=[2, 4],
            m=33,
            n=[5, 1],
            k=256,
            products=[3, 1],
            mul=[False, True],
        )
    yield from each(
        "L2_NORM_BATCH",
        _norm_batch,
        max_err=SUMS,
        ne=[(64, 5, 4, 3), (33, 2, 1)],
        n_norms=[2, 3],
        eps=[1e-6, 0.1],
        strided=[True, False],
    )
    yield from each(
        "GATED_DELTA_NET_CACHE_FUSION",
        _delta_cache,
        max_err=SUMS,
        size=[16, 32, 8],
        heads=[4, 1],
        tokens=[5, 8],
        n_seq=[2, 1],
        n_states=[3, 4],
    )
    for r in each(
        "SSM_SCAN_ROLLBACK",
        _rollback,
        max_err=1e-7,
        d_state=[16, 32],
        head_dim=8,
        n_head=4,
        tokens=[7, 5],
        n_seq=[2, 1],
        n_states=[3, 2],
    ):
        yield replace(r, metric="maxabs_both")
    for r in every("TOPK_QSA", _topk_qsa, max_err=0.0, n_blocks=[8, 64], n_kv=256, n=[1, 2], k=200):
        yield replace(r, metric="index_set")


def _gated_product(
    mk: Maker, type: Type, glu: GluOp, m: int, n: int, k: int, bias: bool, gate: bool
) -> Tensor:
    """act(W x + b) * (V x + c), as in feed-forward layers."""
    x = mk.leaf((k, n))

    def product() -> Tensor:
        y = ops.mul_mat(mk.ctx, mk.leaf((k, m), type), x)
        return ops.add(mk.ctx, y, mk.leaf((m,))) if bias else y

    up = product()
    if gate:
        return ops.glu_split(mk.ctx, product(), up, glu)
    return ops.add(mk.ctx, up, mk.leaf((m, n)))


def _expert_sum(
    mk: Maker, type_a: Type, n_expert: int, n_used: int, m: int, n: int, k: int, products: int,
    mul: bool,
) -> Tensor:  # fmt: skip
    b, ids = mk.leaf((k, n_used, n)), mk.distinct((n_used, n), n_expert)
    found = [
        ops.mul_mat_id(mk.ctx, mk.leaf((k, m, n_expert), type_a), b, ids) for _ in range(products)
    ]
    total = found[0]
    for part in found[1:]:
        total = ops.add(mk.ctx, total, part)
    return ops.mul(mk.ctx, total, mk.leaf((1, n_used, n), lo=0.1)) if mul else total


def _norm_batch(m: Maker, ne: Shape, n_norms: int, eps: float, strided: bool) -> Tensor:
    """Norms of neighbouring windows of one tensor (or of tensors of their own), summed."""
    rows = ne[1] * n_norms
    wide = m.leaf((ne[0], rows, *ne[2:]))
    total: Tensor | None = None
    for i in range(n_norms):
        x = m.leaf(ne)
        if strided:
            x = ops.view(m.ctx, wide, ne, wide.nb[1 : len(ne)], i * ne[1] * wide.nb[1])
        y = ops.l2_norm(m.ctx, x, eps)
        total = y if total is None else ops.add(m.ctx, total, y)
    assert total is not None
    return total


def _delta_cache(m: Maker, size: int, heads: int, tokens: int, n_seq: int, n_states: int) -> Tensor:
    """The states that the op leaves behind its output, copied into a larger cache."""
    ne = (size, heads, tokens, n_seq)
    q, k = (ops.l2_norm(m.ctx, m.leaf(ne), 1e-6) for _ in range(2))
    g, beta = m.leaf((1, *ne[1:]), lo=-2.0, hi=0.0), m.leaf((1, *ne[1:]), lo=0.3)
    state = m.leaf((size, size, heads, n_seq))
    y = ops.gated_delta_net(m.ctx, q, k, m.leaf(ne), g, beta, state, n_states)
    n = size * size * heads
    cache = m.leaf((n, n_seq + 1, n_states))
    offset = size * heads * tokens * n_seq * 4
    states = ops.view(m.ctx, y, (n, n_seq, n_states), (4 * n, 4 * n * n_seq), offset)
    return ops.cpy(m.ctx, states, ops.view(m.ctx, cache, (n, n_seq, n_states), cache.nb[1:3]))


def _rollback(
    m: Maker, d_state: int, head_dim: int, n_head: int, tokens: int, n_seq: int, n_states: int
) -> Tensor:
    """Every snapshot less the state after a shorter scan: nothing but zeros when both agree."""
    s = m.leaf((d_state, head_dim, n_head, n_seq))
    x, dt = m.leaf((head_dim, n_head, tokens, n_seq)), m.leaf((n_head, tokens, n_seq))
    a = m.leaf((1, n_head), lo=-1.5, hi=-0.05)
    b, c = (m.leaf((d_state, 1, tokens, n_seq)) for _ in range(2))
    ids = m.array(np.arange(n_seq, dtype=np.int32), Type.I32)
    full = ops.ssm_scan(m.ctx, s, x, dt, a, b, c, ids, n_states)
    n = d_state * head_dim * n_head * n_seq
    total: Tensor | None = None
    for back in range(n_states):
        t = tokens - back
        y = ops.ssm_scan(
            m.ctx, s, _first(m, x, 2, t), _first(m, dt, 1, t), a, _first(m, b, 2, t),
            _first(m, c, 2, t), ids,
        )  # fmt: skip
        snapshot = ops.view(m.ctx, full, (n,), (), 4 * (x.n_elements + back * n))
        state = ops.view(m.ctx, y, (n,), (), 4 * head_dim * n_head * t * n_seq)
        miss = ops.sum(m.ctx, ops.sqr(m.ctx, ops.sub(m.ctx, snapshot, state)))
        total = miss if total is None else ops.add(m.ctx, total, miss)
    assert total is not None
    return total


def _first(m: Maker, a: Tensor, dim: int, n: int) -> Tensor:
    """The first `n` along a dimension, as a tensor of its own."""
    ne = list(a.ne)
    ne[dim] = n
    return ops.cont(m.ctx, ops.view(m.ctx, a, ne, a.nb[1:]))


def _topk_qsa(m: Maker, n_blocks: int, n_kv: int, n: int, k: int) -> Tensor:
    """Scores of blocks spread over the positions in them, masked, and the best picked."""
    scores = ops.cont(m.ctx, ops.transpose(m.ctx, m.levels((n_blocks, n))))
    block_of = m.array(np.arange(n_kv, dtype=np.int32) * n_blocks // n_kv, Type.I32)
    spread = ops.cont(m.ctx, ops.transpose(m.ctx, ops.get_rows(m.ctx, scores, block_of)))
    mask = ops.cast(m.ctx, m.array(m.rng.permutation(np.linspace(0, 1e-2, n_kv * n)).reshape(
        n, n_kv).astype(np.float32), F16), F32)  # fmt: skip
    return ops.top_k(m.ctx, ops.add(m.ctx, spread, mask), k)
