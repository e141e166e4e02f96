"""State-space and linear-attention layers, which walk the tokens of a sequence one by one.

Their results hold the outputs of all tokens, followed by the states after the last one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_strides, why_not_types
from wggml.backends.wgpu.ops._units import bind_units, named
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# Per op the kernel's variant and what it calls its operands, the state last.
KINDS: dict[Op, tuple[str, tuple[str, ...]]] = {
    Op.GATED_LINEAR_ATTN: ("gla", ("k", "v", "q", "g", "state")),
    Op.RWKV_WKV6: ("wkv6", ("k", "v", "r", "bonus", "decay", "state")),
    Op.RWKV_WKV7: ("wkv7", ("r", "decay", "k", "v", "a", "b", "state")),
    Op.GATED_DELTA_NET: ("delta", ("q", "k", "v", "g", "beta", "state")),
}
# Floats of state that one lane may hold; more would not stay in any device's registers.
MAX_STATE = 512


def _lanes(profile: DeviceProfile) -> int:
    """Lanes of a workgroup. Few on software adapters, so that a single head uses all cores."""
    return 16 if profile.is_software else 64


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    for s in (t, *t.src):
        if s is not None and s.type != Type.F32:
            return f"operand {s.name!r} of type {type_name(s.type)}"
        if s is not None and not s.is_contiguous_rows():
            return f"rows of {s.name!r} that are not contiguous"
    size = source(t, 0).ne[0]
    if size > MAX_STATE:
        return f"heads of {size} values; the kernel holds {MAX_STATE}"
    names = KINDS[t.op][1]
    for name in ("state", "bonus"):
        if name in names and not source(t, names.index(name)).is_contiguous():
            return f"a {name} that is not contiguous"
    return why_not_strides(t)


def _emit(b: PlanBuilder, t: Tensor) -> None:
    kind, names = KINDS[t.op]
    tensors = {name: source(t, i) for i, name in enumerate(names)}
    v, state = tensors["v"], tensors.pop("state")
    size, heads = v.ne[0], v.ne[1]
    n_seq = v.ne[3] if kind == "delta" else state.n_elements // (heads * size * size)
    tokens = v.ne[2] if kind == "delta" else v.ne[2] // n_seq
    single = {name for name in ("g", "beta") if kind == "delta" and tensors[name].ne[0] == 1}
    wide = {name: s for name, s in tensors.items() if name not in single}
    vec = 4 if size % 4 == 0 and all(_in_quads(b, s) for s in wide.values()) else 1
    elem = "vec4<f32>" if vec == 4 else "f32"
    params: dict[str, int | float] = {
        "heads": heads, "tokens": tokens, "n_lanes": n_seq * heads * size,
        "states_at": v.n_elements, "slots": t.param_i32(0) if kind == "delta" else 1,
        "slot_size": n_seq * heads * size * size, "scale": _scale(t, size),
    }  # fmt: skip
    vectors = []
    for name, s in tensors.items():
        if name != "bonus":
            unit = 1 if name in single else vec
            vectors.append((name, _add_steps(params, t, name, s, unit, heads, n_seq, tokens)))
    wg = _lanes(b.profile)
    bcast = _together(b.profile, size, size, vec, wg)
    b.dispatch(
        "recurrent/linear_attn.wgsl",
        operands=[
            *(b.operand(s, elem if n in wide else "f32", name=n) for n, s in tensors.items()),
            b.operand(state, "f32", name="state"),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={
            "kind": kind, "vec": vec, "elem": elem, "size": size, "n": size // vec, "wg": wg,
            "vectors": tuple(vectors), "by_key": "g" in wide and kind == "delta",
            "bcast": bcast, "uses_subgroups": bcast > 0,
        },
        params=params,
        groups=-(-n_seq * heads * size // wg),
        label=t.op.name.lower(),
    )  # fmt: skip


def _add_steps(
    params: dict[str, int | float], t: Tensor, name: str, s: Tensor, unit: int, heads: int,
    n_seq: int, tokens: int,
) -> bool:  # fmt: skip
    """Steps of a vector in `unit`s; True when it is given for fewer heads or sequences."""
    by_seq = t.op == Op.GATED_DELTA_NET  # the others have their sequences one after the other
    _, head, token, seq = strides_of(s)
    params[f"{name}_s1"] = head // unit
    params[f"{name}_s2"] = token // unit
    params[f"{name}_s3"] = (seq if by_seq else token * tokens) // unit
    repeats = by_seq and (s.ne[1] != heads or s.ne[3] != n_seq)
    if repeats:
        params.update({f"{name}_heads": s.ne[1], f"{name}_each": n_seq // s.ne[3]})
    return repeats


def _together(profile: DeviceProfile, same: int, size: int, vec: int, wg: int) -> int:
    """Lanes that load a vector of `size` values together, when `same` neighbours want the same.

    Adapters that compute on the host's cores load lane by lane, even what is the same for all; a
    GPU does such loads at once.
    """
    if not profile.is_software or not profile.subgroups or vec != 4 or same % wg:
        return 0
    return next((w for w in (8, 4) if profile.subgroup_size >= w and size // vec % w == 0), 0)


def _in_quads(b: PlanBuilder, t: Tensor) -> bool:
    return b.starts_on(t, 16) and not any(nb % 16 for nb in t.nb[1:])


def _scale(t: Tensor, size: int) -> float:
    if t.op == Op.GATED_LINEAR_ATTN:
        return t.param_f32(0)
    return 1.0 / math.sqrt(size) if t.op == Op.GATED_DELTA_NET else 1.0


# ---- state spaces ---------------------------------------------------------------------------

# On a GPU a state is shared by lanes of this many values each, so that it stays in registers.
VALUES_A_LANE = 16
TOKENS_AT_ONCE = 8


def _why_not_scan(profile: DeviceProfile, t: Tensor) -> str | None:
    *floats, ids = t.src
    for s in (t, *floats):
        if s is not None and s.type != Type.F32:
            return f"operand {s.name!r} of type {type_name(s.type)}"
    if ids is None or ids.type != Type.I32:
        return "ids that are not i32"
    for i, name in ((0, "s"), (2, "dt"), (3, "a")):
        if not source(t, i).is_contiguous():
            return f"operand {name} that is not contiguous"
    x = source(t, 1)
    if x.nb[0] != 4 or x.nb[1] != 4 * x.ne[0]:
        return "heads of x that do not follow each other"
    if any(source(t, i).nb[0] != 4 for i in (4, 5)):
        return "rows of b or c that are not contiguous"
    if source(t, 0).ne[0] > MAX_STATE:
        return f"states of {source(t, 0).ne[0]} values; the kernel holds {MAX_STATE}"
    return why_not_strides(t)


def _emit_scan(b: PlanBuilder, t: Tensor) -> None:
    state, x, dt, a, bb, cc, ids = (source(t, i) for i in range(7))
    d_state = state.ne[0]
    dim, heads, tokens, n_seq = x.ne
    groups = bb.ne[1]
    a_each = a.ne[0] > 1
    quads = [bb, cc, a] if a_each else [bb, cc]
    vec = (
        4 if d_state % 4 == 0 and b.starts_on(x, 16) and all(_in_quads(b, s) for s in quads) else 1
    )
    elem = "vec4<f32>" if vec == 4 else "f32"
    wg = _lanes(b.profile)
    bcast = _together(b.profile, dim * heads // groups, d_state, vec, wg)
    sharing = 1 if b.profile.is_software else _sharing(d_state, vec)
    xs, dts = strides_of(x), strides_of(dt)
    n_lanes = n_seq * heads * dim * sharing
    params: dict[str, int | float] = {
        "heads": heads, "dim": dim, "rows": heads * dim, "n_lanes": n_lanes, "tokens": tokens,
        "heads_per_group": heads // groups, "n_states": state.ne[3], "n_seq": n_seq,
        "slots": t.param_i32(0), "states_at": x.n_elements, "x_s2": xs[2], "x_s3": xs[3],
        "dt_s1": dts[1], "dt_s2": dts[2],
    }  # fmt: skip
    for name, s in (("b", bb), ("c", cc)):
        params.update({f"{name}_s{i}": strides_of(s)[i] // vec for i in (1, 2, 3)})
    b.dispatch(
        "recurrent/ssm_scan.wgsl",
        operands=[
            b.operand(state, "f32", name="state"), b.operand(x, elem, name="x"),
            b.operand(dt, "f32", name="dt"), b.operand(a, elem if a_each else "f32", name="a"),
            b.operand(bb, elem, name="b"), b.operand(cc, elem, name="c"),
            b.operand(ids, "u32", name="ids"), b.operand(t, "f32", name="dst", write=True),
        ],
        consts={
            "d_state": d_state, "vec": vec, "elem": elem, "n": d_state // vec // sharing,
            "wg": wg, "L": sharing, "TB": TOKENS_AT_ONCE, "a_each": a_each, "bcast": bcast,
            "uses_subgroups": bcast > 0,
        },
        params=params,
        groups=-(-n_lanes // wg),
        label="ssm_scan",
    )  # fmt: skip


def _sharing(d_state: int, vec: int) -> int:
    """Lanes that share a state: a power of 2 that divides it evenly."""
    n = 1
    while d_state > VALUES_A_LANE * n and d_state // vec % (2 * n) == 0:
        n *= 2
    return n


def _emit_conv(b: PlanBuilder, t: Tensor) -> None:
    x, w = source(t, 0), source(t, 1)
    bound = bind_units(b, t, {"x": x, "w": w})
    steps = {**named("x_s", strides_of(x)), **named("w_s", strides_of(w))}
    b.dispatch(
        "recurrent/ssm_conv.wgsl",
        operands=bound.operands,
        consts=bound.consts,
        params={**bound.params, **steps, "taps": w.ne[0]},
        groups=bound.groups,
        label="ssm_conv",
    )


# ---- triangular systems ---------------------------------------------------------------------


def _why_not_f32(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32}))


def _emit_solve(b: PlanBuilder, t: Tensor) -> None:
    a, c = source(t, 0), source(t, 1)
    wg = _lanes(b.profile)
    n_lanes = t.ne[0] * t.ne[2] * t.ne[3]
    b.dispatch(
        "recurrent/solve_tri.wgsl",
        operands=[
            b.operand(a, "f32", name="a"), b.operand(c, "f32", name="b"),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={"wg": wg},
        params={
            "n": t.ne[1], "columns": t.ne[0], "n2": t.ne[2], "n_lanes": n_lanes,
            **named("a_s", strides_of(a)), **named("b_s", strides_of(c)),
            **named("dst_s", strides_of(t)),
        },
        groups=-(-n_lanes // wg),
        label="solve_tri",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    **{op: OpImpl(_why_not, _emit) for op in KINDS},
    Op.SSM_SCAN: OpImpl(_why_not_scan, _emit_scan),
    Op.SSM_CONV: OpImpl(_why_not_f32, _emit_conv),
    Op.SOLVE_TRI: OpImpl(_why_not_f32, _emit_solve),
}
