"""What a matrix product of one column does with its sums besides storing them, so that the nodes
behind it need no dispatch of their own: see shaders/mul_mat/epilogue.wgsl.

Three chains: the product and the addition of the residual, then a norm whose factor the next
products apply; gate, up and the gated unit; a projection, its rotation, its place in the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu import fusion, packing
from wggml.backends.wgpu.ops._mm_inputs import Scale, Staged, stage_ahead, stage_scaled
from wggml.backends.wgpu.ops._mm_variants import Variant, choose
from wggml.backends.wgpu.ops._mm_weights import PLAIN, WeightView, view_weights
from wggml.backends.wgpu.ops.elementwise import GLU, glu_params
from wggml.backends.wgpu.ops.rope import frequencies
from wggml.core.opcodes import Op, RopeMode
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

QUAD = 4  # rows that are stored at once
LONG_LOADS = frozenset({"native", "elem"})  # several words and shifts a load
PLAIN_STORE: dict[str, object] = {
    "store": "y",
    **dict.fromkeys(
        ("fused", "scaled", "glu", "add", "rope", "stage", "squares", "next_weight"), False
    ),
}


@dataclass(slots=True)
class Epilogue:
    """Nodes that run with a product, and what the kernel needs for them.

    `dst` is stored as it is, or (`into_cache`) in a row of it; `ahead` is what later products read.
    """

    nodes: tuple[Tensor, ...]
    dst: Tensor
    into_cache: bool = False
    up: WeightView | None = None
    operands: list[Operand] = field(default_factory=list)
    consts: dict[str, object] = field(default_factory=dict)
    params: dict[str, int | float] = field(default_factory=dict)
    label: str = ""


def is_open(b: PlanBuilder, t: Tensor) -> bool:
    """True for a product of one column whose kernel can do more: a lane has whole quads of rows."""
    if t.op != Op.MUL_MAT or t.n_elements != t.ne[0] or t.ne[0] % QUAD or not b.starts_on(t, 16):
        return False
    w, x = t.src[0], t.src[1]
    if w is None or x is None or w.ne[2] * w.ne[3] != 1 or x.ne[0] % QUAD or x.type != Type.F32:
        return False
    variant = choose(b.profile, 1, long_loads=view_weights(b, w).mode in LONG_LOADS)
    return variant.name.startswith("rows") and dict(variant.consts)["R"] % QUAD == 0  # type: ignore[operator]


def find(b: PlanBuilder, t: Tensor, w: WeightView) -> Epilogue | None:
    """What can run together with the product `t`, the current node; None for nothing."""
    if not b.fusion or not is_open(b, t):
        return None
    for kind, chain in _CHAINS:
        if kind in b.fusion:
            found = chain(b, t, w)
            if found is not None and _fits(b, w, found, staged=False):
                return found
    return None


def _fits(b: PlanBuilder, w: WeightView, e: Epilogue, *, staged: bool) -> bool:
    """True when the bindings stay within the device's limits, counted without any shared ones: x
    may be a texture or a buffer."""
    fields = len(packing.FIELDS.get(w.t.type, ())) * (2 if e.up else 1) or 1
    textures = (fields if w.mode == "texel" else 0) + 1 + staged
    buffers = (0 if w.mode == "texel" else fields) + 1 + len(e.operands) + (not e.into_cache)
    limits = b.profile
    return textures <= limits.max_storage_textures and buffers <= limits.max_storage_buffers


# ---- residual -----------------------------------------------------------------------------------


def _residual(b: PlanBuilder, t: Tensor, w: WeightView) -> Epilogue | None:
    user = fusion.only_user(b, t)
    if user is None or user[1].op != Op.ADD:
        return None
    k, add = user
    res = add.src[1] if add.src[0] is t else add.src[0]
    if res is None or res is t or not _same_column(b, add, res, t):
        return None
    if not fusion.may_run_early(b, add, k, (t,)) or fusion.overlaps_badly(add, _x(t), res):
        return None
    e = Epilogue((add,), add, label=" + residual")
    e.operands.append(b.operand(res, "vec4<f32>", name="res"))
    e.consts["add"] = True
    return e


def _same_column(b: PlanBuilder, *tensors: Tensor) -> bool:
    """True for contiguous f32 columns of one length, on whole vec4s."""
    first = tensors[0]
    return all(
        s.type == Type.F32 and s.n_elements == first.ne[0] == s.ne[0] and s.is_contiguous()
        for s in tensors
    ) and all(b.starts_on(s, 16) for s in tensors[:-1])


def _x(t: Tensor) -> Tensor:
    x = t.src[1]
    assert x is not None
    return x


# ---- a norm between products --------------------------------------------------------------------


def stage(b: PlanBuilder, e: Epilogue, t: Tensor, w: WeightView, variant: Variant) -> None:
    """Let the kernel also write what later products read to a texture: the sum and with it a norm,
    or the result. Call it right before the dispatch, when `e.nodes` are marked as done."""
    out = None
    if not _fits(b, w, e, staged=True):
        return
    if "add" in e.consts and "scale" in b.fusion:
        out = _stage_norm(b, e, t, variant)
    if out is None and not e.into_cache:
        out = stage_ahead(b, e.dst, 0)
    if out is not None:
        e.operands.append(out)
        e.consts["stage"] = True


def _stage_norm(b: PlanBuilder, e: Epilogue, t: Tensor, variant: Variant) -> Operand | None:
    """Where the sum's norm, weighted, is read by products that can apply its factor and by nothing
    else, the norm need not run."""
    norm = next((u for u in b.upcoming if u.op == Op.RMS_NORM and u.src[0] is e.dst), None)
    mul = fusion.only_user(b, norm) if norm is not None and norm not in b.done else None
    if norm is None or mul is None or mul[1].op != Op.MUL or not fusion.is_inner(b, mul[1]):
        return None
    product = mul[1]
    weight = product.src[1] if product.src[0] is norm else product.src[0]
    if weight is None or weight is norm or not _same_column(b, weight, product):
        return None
    chain = {t, *e.nodes, norm, product}
    rest = [u for u in b.upcoming if u not in chain and u not in b.done]
    users = rest[: b.use_counts.get(product, 0)]
    if not users or not all(_x_is(u, product) and is_open(b, u) for u in users):
        return None
    row_groups = math.ceil(t.ne[0] / variant.rows)
    scale = Scale(t.ne[0] // QUAD, row_groups, 1.0 / t.ne[0], norm.param_f32(0))
    out = stage_scaled(b, product, scale)
    if out is None:
        return None
    b.done.update((norm, product))
    e.operands.append(b.operand(weight, "vec4<f32>", name="next"))
    e.consts.update(squares=True, next_weight=True)
    e.label += ", norm"
    return out


def _x_is(u: Tensor, x: Tensor) -> bool:
    return u.op == Op.MUL_MAT and u.src[1] is x


def scaled(held: Staged | None) -> tuple[dict[str, object], dict[str, int | float]]:
    """Constants and parameters of a product whose column lies in a texture as `held` says."""
    s = held.scale if held is not None else None
    if s is None:
        return {}, {}
    params: dict[str, int | float] = {
        "x_at": s.at, "x_parts": s.parts, "x_inv_n": s.inv_n, "x_eps": s.eps,
    }  # fmt: skip
    return {"scaled": True}, params


# ---- gated units --------------------------------------------------------------------------------


def _glu(b: PlanBuilder, t: Tensor, w: WeightView) -> Epilogue | None:
    user = fusion.only_user(b, t)
    if user is None or user[1].op != Op.GLU or user[1].src[1] is None:
        return None
    k, glu = user
    gate, up = glu.src[0], glu.src[1]
    other = up if gate is t else gate
    if glu.glu_op not in GLU or other is None or other is t or other not in b.upcoming:
        return None
    if not _x_is(other, _x(t)) or not is_open(b, other) or not _same_column(b, glu, t, other):
        return None
    if fusion.only_user(b, other) != user or not fusion.may_run_early(b, glu, k, (t, other)):
        return None
    if fusion.overlaps_badly(glu, _x(t)):
        return None
    second = view_weights(b, other.src[0])  # type: ignore[arg-type]
    if w.mode not in ("packed", "texel") or w.t.type in PLAIN:
        return None
    if second.consts != w.consts or second.strides != w.strides:
        return None
    e = Epilogue((other, glu), glu, up=second, label=f", {glu.glu_op.name.lower()}")
    e.consts.update(glu=True, function=GLU[glu.glu_op], swapped=gate is not t)
    e.params.update(glu_params(glu))
    return e


def bind_up(b: PlanBuilder, e: Epilogue, count: int) -> None:
    """The second weights, called w2."""
    assert e.up is not None
    operands, params = e.up.bind(b, 0, count)
    e.operands += [
        replace(op, name=op.name.replace("w_", "w2_", 1))
        for op in operands
        if op.name != "w_grid"  # one for both
    ]
    e.params.update({"w2_off": params["w_off"]})


# ---- rotation and cache -------------------------------------------------------------------------


def _rope(b: PlanBuilder, t: Tensor, w: WeightView) -> Epilogue | None:
    user = fusion.only_user(b, t)
    if user is None:
        return None
    e = Epilogue((), t)
    chain: tuple[Tensor, ...] = (t,)
    if user[1].op == Op.ROPE:
        k, rope = user
        if not _may_rotate(rope) or not fusion.may_run_early(b, rope, k, chain):
            return None
        chain = (t, rope)
        e = Epilogue((rope,), rope, label=", rope")
        _rotate(b, e, rope)
        user = fusion.only_user(b, rope)
    if user is not None and user[1].op == Op.SET_ROWS:
        k, rows = user
        if _may_keep(b, rows) and fusion.may_run_early(b, rows, k, chain):
            _keep(b, e, rows)
    if not e.nodes:
        return None
    if not e.into_cache and (
        not b.starts_on(e.dst, 16) or not e.dst.is_contiguous()
        or fusion.overlaps_badly(e.dst, _x(t))
    ):  # fmt: skip
        return None
    return e


def _may_rotate(rope: Tensor) -> bool:
    """Neighbouring values are pairs, all values of a head may be turned, there is one position."""
    a, pos = rope.src[0], rope.src[1]
    assert a is not None and pos is not None
    return (
        rope.type == Type.F32 and rope.param_i32(2) == RopeMode.NORMAL and rope.param_i32(15) == 0
        and rope.param_i32(1) % 2 == 0 and rope.ne[0] % QUAD == 0 and pos.n_elements == 1
    )  # fmt: skip


def _rotate(b: PlanBuilder, e: Epilogue, rope: Tensor) -> None:
    table, magnitude = frequencies(rope.op_params, rope.ne[0])
    pos, factors = rope.src[1], rope.src[2] if len(rope.src) > 2 else None
    assert pos is not None
    e.operands += [
        b.operand(pos, "u32", name="pos"), b.constant(table, "vec4<u32>", name="table"),
    ]  # fmt: skip
    if factors is not None:
        e.operands.append(b.operand(factors, "f32", name="ff"))
    e.consts.update(rope=True, has_factors=factors is not None)
    e.params.update(head_dim=rope.ne[0], n_pairs=len(table), magnitude=float(magnitude))


_WORDS = {Type.F16: ("f16", "vec2<u32>", 8), Type.F32: ("f32", "vec4<f32>", 16)}


def _may_keep(b: PlanBuilder, rows: Tensor) -> bool:
    """One row, whole quads of it, into a cache of f16 or f32."""
    src, ids = rows.src[0], rows.src[1]
    assert src is not None and ids is not None
    if rows.type not in _WORDS or src.ne[0] != src.n_elements or rows.ne[2] * rows.ne[3] != 1:
        return False
    size = _WORDS[rows.type][2]
    whole = rows.nb[1] % size == 0 and rows.nb[0] == TRAITS[rows.type].type_size
    return whole and b.starts_on(rows, size) and ids.type in (Type.I32, Type.I64)


def _keep(b: PlanBuilder, e: Epilogue, rows: Tensor) -> None:
    store, elem, size = _WORDS[rows.type]
    ids = rows.src[1]
    assert ids is not None
    e.operands += [
        b.operand(rows, elem, name="cache", write=True), b.operand(ids, "u32", name="ids"),
    ]  # fmt: skip
    e.consts["store"] = store
    e.params.update(cells=rows.ne[1], cell_size=rows.nb[1] // size)
    e.nodes, e.dst, e.into_cache = (*e.nodes, rows), rows, True
    e.label += ", to the cache"


_CHAINS = (("residual", _residual), ("glu", _glu), ("rope", _rope))
