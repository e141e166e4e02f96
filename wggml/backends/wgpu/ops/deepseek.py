"""DeepSeek's indexer of key positions, and its hyper-connections between residual streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._mm_weights import PLAIN, view_weights
from wggml.backends.wgpu.ops._operands import (
    Bound,
    optional,
    source,
    typed,
    why_not_types,
    workgroup,
)
from wggml.backends.wgpu.ops._units import bind_units, named
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.packing import FIELDS
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

CHUNK = 32  # values of a key decoded at once
HEADS_AT_ONCE = 8  # heads that share a decoded chunk


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32}))


# ---- the indexer ------------------------------------------------------------------------------


def _why_not_indexer(profile: DeviceProfile, t: Tensor) -> str | None:
    q, k, weights, mask = (source(t, i) for i in range(4))
    if k.type not in FIELDS and k.type not in PLAIN:
        return f"keys of type {type_name(k.type)}"
    if (q.type, weights.type, mask.type) != (Type.F32, Type.F32, Type.F16):
        return "queries and weights must be f32, the mask f16"
    if k.ne[0] % CHUNK:
        return f"keys of {k.ne[0]} values, no multiple of {CHUNK}"
    if q.nb[0] != 4 or not k.is_contiguous_rows() or t.nb[0] != 4:
        return "rows of queries, keys or result that are not contiguous"
    if any(nb % 4 for s in (q, weights) for nb in s.nb) or any(nb % 2 for nb in mask.nb):
        return "strides that are not whole elements"
    return None


def _emit_indexer(b: PlanBuilder, t: Tensor) -> None:
    q, k, weights, mask = (source(t, i) for i in range(4))
    d, heads, n_q, n_s = q.ne
    n_kv = k.ne[2]
    view = view_weights(b, k)
    keys, place = view.bind(b, 0, view.units(1, n_kv, n_s))
    mask_op, mask_params = typed(b, mask, "mask")
    q_vec = 4 if b.starts_on(q, 16) and not any(nb % 16 for nb in q.nb[1:]) else 1
    wg = workgroup(b.profile)
    key_groups = -(-n_kv // wg)
    bcast = _bcast(b.profile)
    qs, ws, ms, ys = (strides_of(s) for s in (q, weights, mask, t))
    b.dispatch(
        "deepseek/indexer.wgsl",
        operands=[
            *keys, b.operand(q, "vec4<f32>" if q_vec == 4 else "f32", name="q"),
            b.operand(weights, "f32", name="weights"), mask_op,
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={
            **view.consts, "wg": wg, "HB": min(HEADS_AT_ONCE, heads), "q_vec": q_vec,
            "bcast": bcast, "uses_subgroups": bcast > 0,
        },
        params={
            **place, **mask_params, "chunks": d // CHUNK, "n_heads": heads, "n_kv": n_kv,
            "n_q": n_q, "n_groups": key_groups * n_q * n_s, "key_groups": key_groups,
            "k_s1": view.strides[1], "k_s2": view.strides[2], **named("q_s", qs),
            **named("weights_s", ws), **named("mask_s", ms), "mask_n3": mask.ne[3],
            **named("dst_s", ys),
        },
        groups=key_groups * n_q * n_s,
        label=f"lightning_indexer {type_name(k.type)}",
    )  # fmt: skip


def _bcast(profile: DeviceProfile) -> int:
    """Lanes that load a query together: adapters that compute on the host's cores load lane by
    lane, even what is the same for all."""
    if not profile.is_software or not profile.subgroups or profile.subgroup_size < 4:
        return 0
    return 8 if profile.subgroup_size >= 8 else 4


# ---- hyper-connections --------------------------------------------------------------------------


def _emit_comb(b: PlanBuilder, t: Tensor) -> None:
    operands = {name: source(t, i) for i, name in enumerate(("mixes", "scale", "base"))}
    wg = workgroup(b.profile)
    steps = {
        k: v for name, s in (*operands.items(), ("dst", t))
        for k, v in named(f"{name}_s", strides_of(s)).items()
    }  # fmt: skip
    b.dispatch(
        "deepseek/hc_comb.wgsl",
        operands=[
            *(b.operand(s, "f32", name=name) for name, s in operands.items()),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={"wg": wg},
        params={
            "n_tokens": t.ne[2], "rounds": t.param_i32(1), "eps": t.param_f32(0), **steps,
        },
        groups=-(-t.ne[2] // wg),
        label="hc_comb",
    )  # fmt: skip


def _emit_pre(b: PlanBuilder, t: Tensor) -> None:
    x, w = source(t, 0), source(t, 1)
    gated = bool(t.param_i32(1))
    ws = strides_of(w)
    bound = bind_units(b, t, {"x": x, "w": w})
    bound.consts["gated"] = gated
    bound.params.update(streams=x.ne[1], scale=t.param_f32(0), **named("x_s", strides_of(x)))
    bound.params.update(named("w_s", ws[:3] if gated else (0, ws[0], ws[1])))
    _add(b, "hc_pre", bound)


def _emit_post(b: PlanBuilder, t: Tensor) -> None:
    tensors = {name: source(t, i) for i, name in enumerate(("x", "residual", "post"))}
    comb = optional(t, 3)
    if comb is not None:
        tensors["comb"] = comb
    bound = bind_units(b, t, tensors)
    bound.consts["mixed"] = comb is not None
    bound.params["streams"] = t.ne[1]
    for name, s in tensors.items():
        bound.params.update(named(f"{name}_s", strides_of(s)))
    _add(b, "hc_post", bound)


def _add(b: PlanBuilder, shader: str, bound: Bound) -> None:
    b.dispatch(
        f"deepseek/{shader}.wgsl",
        operands=bound.operands,
        consts=bound.consts,
        params=bound.params,
        groups=bound.groups,
        label=shader,
    )


FAMILY: dict[Op, OpImpl] = {
    Op.LIGHTNING_INDEXER: OpImpl(_why_not_indexer, _emit_indexer),
    Op.DSV4_HC_COMB: OpImpl(_why_not, _emit_comb),
    Op.DSV4_HC_PRE: OpImpl(_why_not, _emit_pre),
    Op.DSV4_HC_POST: OpImpl(_why_not, _emit_post),
}
