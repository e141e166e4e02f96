"""State-space and linear-attention layers, which walk the tokens of a sequence one by one.

Their results hold the outputs of all tokens, followed by the states after the last one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_strides
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
        if name == "bonus":
            continue
        unit = 1 if name in single else vec
        steps = strides_of(s)
        per_seq = steps[3] if kind == "delta" else steps[2] * tokens
        params.update({f"{name}_s1": steps[1] // unit, f"{name}_s2": steps[2] // unit})
        params[f"{name}_s3"] = per_seq // unit
        repeats = kind == "delta" and (s.ne[1] != heads or s.ne[3] != n_seq)
        if repeats:
            params.update({f"{name}_heads": s.ne[1], f"{name}_each": n_seq // s.ne[3]})
        vectors.append((name, repeats))
    wg = _lanes(b.profile)
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
        },
        params=params,
        groups=-(-n_seq * heads * size // wg),
        label=t.op.name.lower(),
    )  # fmt: skip


def _in_quads(b: PlanBuilder, t: Tensor) -> bool:
    return b.starts_on(t, 16) and not any(nb % 16 for nb in t.nb[1:])


def _scale(t: Tensor, size: int) -> float:
    if t.op == Op.GATED_LINEAR_ATTN:
        return t.param_f32(0)
    return 1.0 / math.sqrt(size) if t.op == Op.GATED_DELTA_NET else 1.0


FAMILY: dict[Op, OpImpl] = {
    **{op: OpImpl(_why_not, _emit) for op in KINDS},
}
