"""Shapes of models, for measuring: what a prompt and a token ask of each kernel.

4096 wide as models of 7 to 8 billion parameters are, or 2048 where software adapters would take
seconds. They have no reference values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wggml.core import ops
from wggml.core.opcodes import GluOp, RopeMode, ScaleMode, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.attention import CACHED
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.matmul import BLOCKS, FLOATS
from wggml.testing.builtin.recipe import Recipe, every
from wggml.testing.builtin.recurrent import _gla, _ssm_conv, _ssm_scan, _wkv6, _wkv7

F32, F16 = Type.F32, Type.F16
WIDE, PROMPT = 4096, 512


def recipes() -> Iterator[Recipe]:
    """All of them with `perf` set."""
    yield from (replace(r, perf=True) for r in _recipes())


def _recipes() -> Iterator[Recipe]:
    yield from _products()
    yield from _rows_and_copies()
    yield from _attention()
    yield from _elementwise()
    yield from _others()


def _products() -> Iterator[Recipe]:
    for type_ in (*FLOATS, *BLOCKS):
        yield from every("MUL_MAT", _product, type_a=type_, m=WIDE, n=1, k=WIDE)
    for type_ in (F32, F16, Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q6_K):
        yield from every("MUL_MAT", _product, type_a=type_, m=2048, n=[8, 512], k=2048)
    for type_ in (F16, Type.Q4_0, Type.Q4_K):
        yield from every(
            "MUL_MAT_ID",
            _product_by_id,
            type_a=type_,
            m=768,
            k=2048,
            n_expert=32,
            n_used=4,
            n_tokens=[1, 128],
        )


def _rows_and_copies() -> Iterator[Recipe]:
    for type_ in (F32, F16, Type.Q4_0, Type.Q8_0, Type.Q6_K):
        yield from every("GET_ROWS", _read_rows, type=type_, n=WIDE, rows=8192, r=PROMPT)
    for type_ in (F32, F16, Type.Q8_0, Type.Q4_0):
        yield from every("SET_ROWS", _write_rows, type_dst=type_, n=1024, rows=4096, r=PROMPT)
    for pair in ((F32, F16), (F16, F32), (F32, Type.Q8_0), (Type.Q8_0, F32)):
        yield from every("CPY", _cpy, type_src=pair[0], type_dst=pair[1], ne=(WIDE, 1024))
    yield from every("CONT", _cont, ne=(WIDE, PROMPT), layout=["transposed", "permuted"])


def _attention() -> Iterator[Recipe]:
    for kind, queries in ((F16, [1, 128]), (F32, [1]), *((t, [1]) for t in CACHED[:5])):
        yield from every(
            "FLASH_ATTN_EXT",
            _attend,
            head=128,
            n_head=32,
            n_kv_head=8,
            n_kv=2048,
            n_q=list(queries),
            type_kv=kind,
        )
    yield from every("ROPE", _rope, ne=(128, 32, PROMPT), mode=[RopeMode.NORMAL, RopeMode.NEOX])
    yield from every("SOFT_MAX", _one(ops.soft_max), ne=[(2048, 128, 32), (32000, 8)])


def _elementwise() -> Iterator[Recipe]:
    for op in ("add", "mul"):
        yield from every(op.upper(), _binary(op), type=[F32, F16], ne=(WIDE, PROMPT), row=False)
        yield from every(op.upper(), _binary(op), type=F32, ne=(WIDE, PROMPT), row=True)
    for op in ("rms_norm", "norm", "l2_norm"):
        yield from every(op.upper(), _norm(op), ne=[(WIDE, PROMPT), (WIDE, 1)])
    for kind in (UnaryOp.SILU, UnaryOp.GELU, UnaryOp.EXP):
        yield from every(kind.name, _unary(kind), ne=(WIDE, PROMPT))
    yield from every("SWIGLU", _swiglu, ne=(14336, 64))
    yield from every("SCALE", _scale, ne=(WIDE, PROMPT))


def _others() -> Iterator[Recipe]:
    yield from every("SUM_ROWS", _one(ops.sum_rows), ne=(WIDE, PROMPT))
    yield from every("SUM", _one(ops.sum), ne=(WIDE, PROMPT))
    yield from every("ARGSORT", _one(ops.argsort), ne=[(32000, 1), (128, PROMPT)])
    yield from every("TOP_K", _top_k, ne=(32000, 1), k=40)
    yield from every("CUMSUM", _one(ops.cumsum), ne=(WIDE, PROMPT))
    yield from every("CONV_2D", _conv, kernel=(3, 3, 128, 128), ne=(32, 32, 128, 1))
    yield from every("IM2COL", _unfold, kernel=(3, 3, 128), ne=(32, 32, 128, 1))
    yield from every("UPSCALE", _upscale, ne=(128, 128, 64), mode=list(ScaleMode))
    yield from every("SSM_CONV", _ssm_conv, d_conv=4, channels=2048, tokens=[1, 128], n_seq=1)
    yield from every("SSM_SCAN", _scan, d_state=128, head_dim=64, n_head=32, tokens=[1, 64])
    for op, build in (("RWKV_WKV6", _wkv6), ("RWKV_WKV7", _wkv7), ("GATED_LINEAR_ATTN", _gla)):
        yield from every(op, build, size=64, heads=32, tokens=[1, 64], n_seq=1)


# ---- builders -----------------------------------------------------------------------------------


def _product(mk: Maker, type_a: Type, m: int, n: int, k: int) -> Tensor:
    return ops.mul_mat(mk.ctx, mk.leaf((k, m), type_a), mk.leaf((k, n)))


def _product_by_id(
    mk: Maker, type_a: Type, m: int, k: int, n_expert: int, n_used: int, n_tokens: int
) -> Tensor:
    a, b = mk.leaf((k, m, n_expert), type_a), mk.leaf((k, n_used, n_tokens))
    return ops.mul_mat_id(mk.ctx, a, b, mk.distinct((n_used, n_tokens), n_expert))


def _read_rows(m: Maker, type: Type, n: int, rows: int, r: int) -> Tensor:
    return ops.get_rows(m.ctx, m.leaf((n, rows), type), m.ints((r,), rows))


def _write_rows(m: Maker, type_dst: Type, n: int, rows: int, r: int) -> Tensor:
    ids = m.distinct((r,), rows, Type.I64)
    return ops.set_rows(m.ctx, m.leaf((n, rows), type_dst), m.leaf((n, r)), ids)


def _attend(
    m: Maker, head: int, n_head: int, n_kv_head: int, n_kv: int, n_q: int, type_kv: Type
) -> Tensor:
    q = m.leaf((head, n_q, n_head))
    k, v = (m.leaf((head, n_kv, n_kv_head), type_kv) for _ in range(2))
    mask = m.leaf((n_kv, n_q), F16)
    return ops.flash_attn_ext(m.ctx, q, k, v, mask, head**-0.5)


def _conv(m: Maker, kernel: Shape, ne: Shape) -> Tensor:
    return ops.conv_2d_direct(m.ctx, m.leaf(kernel, F16), m.leaf(ne), padding=(1, 1))


def _unfold(m: Maker, kernel: Shape, ne: Shape) -> Tensor:
    return ops.im2col(m.ctx, m.leaf(kernel, F16), m.leaf(ne), padding=(1, 1))


def _scan(m: Maker, d_state: int, head_dim: int, n_head: int, tokens: int) -> Tensor:
    return _ssm_scan(m, d_state, head_dim, n_head, 1, tokens, 1, False, 1, 0)


def _cpy(m: Maker, type_src: Type, type_dst: Type, ne: Shape) -> Tensor:
    return ops.cpy(m.ctx, m.leaf(ne, type_src), m.leaf(ne, type_dst))


def _cont(m: Maker, ne: Shape, layout: str) -> Tensor:
    return ops.cont(m.ctx, m.laid(layout, ne))


def _one(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda m, ne: make(m.ctx, m.leaf(ne))


def _binary(op: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, op)
    return lambda m, type, ne, row: make(
        m.ctx, m.leaf(ne, type), m.leaf((ne[0],) if row else ne, type)
    )


def _norm(op: str) -> Callable[..., Tensor]:
    make: Callable[..., Tensor] = getattr(ops, op)
    return lambda m, ne: make(m.ctx, m.leaf(ne), 1e-5)


def _unary(kind: UnaryOp) -> Callable[..., Tensor]:
    return lambda m, ne: ops.unary(m.ctx, m.leaf(ne), kind)


def _swiglu(m: Maker, ne: Shape) -> Tensor:
    return ops.glu_split(m.ctx, m.leaf(ne), m.leaf(ne), GluOp.SWIGLU)


def _scale(m: Maker, ne: Shape) -> Tensor:
    return ops.scale(m.ctx, m.leaf(ne), 0.5)


def _top_k(m: Maker, ne: Shape, k: int) -> Tensor:
    return ops.top_k(m.ctx, m.leaf(ne), k)


def _rope(m: Maker, ne: Shape, mode: RopeMode) -> Tensor:
    positions = m.ints((ne[2],), 4096)
    return ops.rope(m.ctx, m.leaf(ne), positions, ops.RopeParams(n_dims=ne[0], mode=mode))


def _upscale(m: Maker, ne: Shape, mode: ScaleMode) -> Tensor:
    return ops.upscale(m.ctx, m.leaf(ne), 2, mode)
