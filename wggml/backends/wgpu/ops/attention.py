"""FLASH_ATTN_EXT on wgpu.

Two kernels: `flash_attn.wgsl` gives each lane a cached position and exchanges between lanes;
`flash_attn_rows.wgsl` gives each lane a row, for software adapters without subgroup functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._blocks import READABLE, Plain, decode
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Shape4, Tensor, contiguous_nb
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

# Lanes of a workgroup where subgroup functions are missing.
SHARED_LANES, ROW_LANES = 32, 8
# Cached positions that a lane of the row kernel takes between two rescalings.
ROW_TOKENS = 4
# Accumulators (vec4) a lane may hold: bounds how many rows share one pass over K and V. A GPU has
# registers for fewer; on the host's cores what does not fit stays in the first-level cache.
ACCUMULATORS = {True: 32, False: 8}
# A software adapter's cores: with fewer workgroups than this some idle.
MIN_GROUPS = 2
# Types of K and V that can be read byte by byte (shaders/attention/blocks.wgsl).
BYTE_TYPES = frozenset({
    Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.IQ4_NL, Type.Q1_0,
    Type.Q2_0,
})  # fmt: skip
# Blocks are brought to f32 in scratch memory first where reading them more than once costs more:
# with more queries than this, and on software adapters (1024 positions of q8_0 on lavapipe: one
# query 1.8 ms directly, 64 queries 64 ms).
DIRECT_QUERIES = 8
_ELEMS = {
    "f32x4": ("vec4<f32>", 16), "f32": ("f32", 4),
    "f16x8": ("vec4<u32>", 16), "f16x4": ("vec2<u32>", 8), "f16": ("u32", 2), "bytes": ("u32", 1),
    "bf16x8": ("vec4<u32>", 16),
}  # fmt: skip


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    q, k, v = t.src[0], t.src[1], t.src[2]
    assert q is not None and k is not None and v is not None
    if q.type != Type.F32:
        return f"queries of type {type_name(q.type)}"
    for name, x in (("K", k), ("V", v)):
        if x.type not in {Type.F32, Type.F16} | BYTE_TYPES | READABLE:
            return f"{name} of type {type_name(x.type)}"
        if x.nb[0] != TRAITS[x.type].type_size:
            return f"{name} rows that are not contiguous"
        if any(nb % TRAITS[x.type].type_size for nb in x.nb):
            return f"{name} strides {x.nb} that are not whole values"
        if x.type in READABLE - BYTE_TYPES and x.n_elements * 4 > profile.max_binding:
            return f"{name} of {x.n_elements} {type_name(x.type)} values, too many for one binding"
    if q.nb[0] != 4:
        return "query rows that are not contiguous"
    if k.ne[2] != v.ne[2] or k.ne[3] != v.ne[3]:
        return "K and V with different head counts"
    return None


@dataclass(frozen=True, slots=True)
class _Modes:
    """How rows are loaded, the values of one unit (8 or 4) of K and V, and which of the two are
    brought to f32 first."""

    q: str
    k: str
    v: str
    unit: int
    decoded: tuple[bool, bool] = (False, False)


def _fits(b: PlanBuilder, t: Tensor, mode: str) -> bool:
    """True when every row of `t` starts on a whole element of `mode` and is made of them."""
    nbytes = _ELEMS[mode][1]
    row = t.ne[0] * TRAITS[t.type].type_size
    return b.starts_on(t, nbytes) and not any(nb % nbytes for nb in (row, *t.nb[1:]))


def _comes_first(profile: DeviceProfile, q: Tensor, x: Tensor) -> bool:
    """True when blocks of `x` are brought to f32 before attention."""
    if x.type not in READABLE or x.type not in BYTE_TYPES:
        return x.type in READABLE
    often = profile.is_software or q.ne[1] > DIRECT_QUERIES
    return often and x.n_elements * 4 <= profile.max_binding


def _modes(b: PlanBuilder, q: Tensor, k: Tensor, v: Tensor) -> _Modes:
    """The widest loads that alignment allows. Units of 8 need both K and V to have them; where one
    is of another type than f16 and f32, the other is read byte by byte if it has none."""
    wide = {Type.F16: "f16x8", Type.F32: "f32x4", Type.BF16: "bf16x8"}
    q_mode = "f32x4" if _fits(b, q, "f32x4") else "f32"
    k_first, v_first = (_comes_first(b.profile, q, x) for x in (k, v))

    def whole(x: Tensor, first: bool) -> str:
        if first:
            return "f32x4"
        fits = x.type in wide and _fits(b, x, wide[x.type]) and x.ne[0] % 8 == 0
        return wide[x.type] if fits else ""

    k_wide, v_wide = whole(k, k_first), whole(v, v_first)
    words = all(b.starts_on(x, 4) for x in (k, v))
    if (k_wide and v_wide) or not words or not {k.type, v.type} <= {Type.F16, Type.F32}:
        return _Modes(q_mode, k_wide or "bytes", v_wide or "bytes", 8, (k_first, v_first))
    four = {Type.F16: "f16x4", Type.F32: "f32x4"}
    narrow = {Type.F16: "f16", Type.F32: "f32"}
    k_mode, v_mode = (four[x.type] if _fits(b, x, four[x.type]) else narrow[x.type] for x in (k, v))
    return _Modes(q_mode, k_mode, v_mode, 4)


def _alibi(max_bias: float, n_head: int) -> dict[str, int | float]:
    """ALiBi slope bases, as ggml spreads them over head counts that are no power of 2."""
    n = 1 << math.floor(math.log2(n_head))
    return {"n_head_log2": n, "m0": 2.0 ** (-max_bias / n), "m1": 2.0 ** (-max_bias / 2.0 / n)}


def _decoded(b: PlanBuilder, x: Tensor, name: str) -> tuple[Operand, Shape4]:
    """The values of `x` as f32 in scratch memory, and their byte strides."""
    held = b.scratch(x.n_elements * 4, "vec4<f32>", name="dst")
    nb = contiguous_nb(Type.F32, x.ne)
    quads = (1, nb[1] // 16, nb[2] // 16, nb[3] // 16)
    out = Plain(held, Type.F32, quads, quads=True)
    decode(b, x, out, None, f"{name} of {type_name(x.type)}, values")
    return replace(held, name=name, write=False), nb


def _rows(b: PlanBuilder, x: Tensor, name: str, mode: str) -> Operand:
    """The operand that `mode` reads."""
    assert x.data is not None
    rest = x.data % 4 if mode == "bytes" else 0
    elem = _ELEMS[mode][0]
    return b.operand(x, elem, name=name, byte_offset=-rest, nbytes=x.nbytes + rest)


def _emit(b: PlanBuilder, t: Tensor) -> None:
    q, k, v, mask, sinks = (*t.src, None, None)[:5]
    assert q is not None and k is not None and v is not None
    scale, max_bias, softcap = (t.param_f32(i) for i in range(3))
    modes = _modes(b, q, k, v)
    n_head, n_head_kv, group = q.ne[2], k.ne[2], q.ne[2] // k.ne[2]
    operands = []
    params: dict[str, int | float] = {
        "n_kv": k.ne[1], "n_q": q.ne[1], "n_head": n_head, "n_head_kv": n_head_kv,
        "group": group, "n_seq": q.ne[3], "seq_per_k": q.ne[3] // k.ne[3],
        "scale": scale / softcap if softcap else scale,
    }  # fmt: skip
    for name, x, mode in (("q", q, modes.q), ("k", k, modes.k), ("v", v, modes.v)):
        nbytes = _ELEMS[mode][1]
        first = name != "q" and modes.decoded["kv".index(name)]
        op, nb = _decoded(b, x, name) if first else (_rows(b, x, name, mode), x.nb)
        operands.append(op)
        params.update({f"{name}_s{i}": nb[i] // nbytes for i in (1, 2, 3)})
    if softcap:
        params["softcap"] = softcap
    if mask is not None:
        operands.append(b.operand(mask, "u32", name="mask"))
        params.update({"mask_ne2": mask.ne[2], "mask_ne3": mask.ne[3], "mask_s2": mask.nb[2] // 2})
    if max_bias > 0.0:
        params.update(_alibi(max_bias, n_head))
    if sinks is not None:
        operands.append(b.operand(sinks, "f32", name="sinks"))
    operands.append(b.operand(t, "f32", name="dst", write=True))
    consts: dict[str, object] = {
        "U": modes.unit, "D": k.ne[0], "DV": v.ne[0], "alibi": max_bias > 0.0,
        "softcap": softcap != 0.0, "q_mode": modes.q, "k_mode": modes.k, "v_mode": modes.v,
    }  # fmt: skip
    for name, x, mode in (("k", k, modes.k), ("v", v, modes.v)):
        if mode == "bytes":
            assert x.data is not None
            params[f"{name}_byte"] = x.data % 4
            consts[f"{name}_type"] = type_name(x.type)
    shader, more, groups = _kernel(b.profile, q, k, v, mask, modes)
    b.dispatch(
        shader, operands=operands, consts={**consts, **more}, params=params, groups=groups,
        label="flash_attn",
    )  # fmt: skip


def _kernel(
    profile: DeviceProfile, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, modes: _Modes
) -> tuple[str, dict[str, object], int]:
    """Template, its constants and the number of workgroups."""
    group, outer = q.ne[2] // k.ne[2], k.ne[2] * q.ne[3]
    subgroups = profile.subgroups and profile.subgroup_size >= 4
    # Drivers that compute on the host unroll what the other kernels unroll: with the long loads of
    # blocks they would compile for half a minute.
    looped = profile.is_software and "bytes" in (modes.k, modes.v)
    if looped:
        subgroups = False
    elif profile.is_software and not subgroups:
        blocks = -(-q.ne[1] * group // ROW_LANES)
        consts: dict[str, object] = {"W": ROW_LANES, "TB": ROW_TOKENS, "skip_chunks": False}
        return "attention/flash_attn_rows.wgsl", consts, blocks * outer
    lanes = profile.subgroup_size if subgroups else ROW_LANES if looped else SHARED_LANES
    unit = modes.unit
    held = -(-v.ne[0] // (unit * lanes)) * (unit // 4)  # accumulators of one row in one lane
    limit = max(1, ACCUMULATORS[profile.is_software] // held)
    heads = _heads_at_once(group, limit, outer if q.ne[1] == 1 else MIN_GROUPS)
    queries = max(1, min(limit // heads, 4, q.ne[1]))
    per_head = mask is not None and mask.ne[2] > 1
    consts = {
        "W": lanes, "QB": queries, "HB": heads, "uses_subgroups": subgroups,
        "mask_per_head": per_head,
        "skip_chunks": subgroups and mask is not None and not per_head and k.ne[1] % 8 == 0,
    }  # fmt: skip
    groups = -(-q.ne[1] // queries) * (group // heads) * outer
    return "attention/flash_attn.wgsl", consts, groups


def _heads_at_once(group: int, limit: int, groups_per_head_block: int) -> int:
    """The largest divisor of `group` within `limit` that still leaves work for every core."""
    for n in range(min(group, limit), 1, -1):
        if group % n == 0 and group // n * groups_per_head_block >= MIN_GROUPS:
            return n
    return 1


FAMILY = {Op.FLASH_ATTN_EXT: OpImpl(_why_not, _emit)}
