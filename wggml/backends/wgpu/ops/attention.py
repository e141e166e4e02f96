"""FLASH_ATTN_EXT on wgpu."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

# Lanes of a workgroup without subgroup functions: enough to spread a head over, few barriers.
LANES = 32
# Accumulators (vec4) a lane may hold: rows a workgroup computes at once are cut to fit.
MAX_ACCUMULATORS = 8
_ELEMS = {
    "f32x4": ("vec4<f32>", 16),
    "f32": ("f32", 4),
    "f16x4": ("vec2<u32>", 8),
    "f16": ("u32", 2),
}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    q, k, v = t.src[0], t.src[1], t.src[2]
    assert q is not None and k is not None and v is not None
    if q.type != Type.F32:
        return f"queries of type {type_name(q.type)}"
    for name, x in (("K", k), ("V", v)):
        if x.type not in (Type.F32, Type.F16):
            return f"{name} of type {type_name(x.type)}"
        if x.nb[0] != TRAITS[x.type].type_size:
            return f"{name} rows that are not contiguous"
        if any(nb % TRAITS[x.type].type_size for nb in x.nb):
            return f"{name} strides {x.nb} that are not whole values"
    if q.nb[0] != 4:
        return "query rows that are not contiguous"
    if k.ne[2] != v.ne[2] or k.ne[3] != v.ne[3]:
        return "K and V with different head counts"
    return None


def _mode(b: PlanBuilder, t: Tensor) -> str:
    """How rows are loaded: four values at once where every row starts on such a unit."""
    wide = "f32x4" if t.type == Type.F32 else "f16x4"
    unit = _ELEMS[wide][1]
    aligned = b.starts_on(t, unit) and not any(nb % unit for nb in t.nb[1:]) and t.ne[0] % 4 == 0
    return wide if aligned else wide[:3]


def _operand(b: PlanBuilder, t: Tensor, mode: str, name: str) -> Operand:
    return b.operand(t, _ELEMS[mode][0], name=name)


def _alibi(max_bias: float, n_head: int) -> dict[str, int | float]:
    """ALiBi slope bases, as ggml spreads them over head counts that are no power of 2."""
    n = 1 << math.floor(math.log2(n_head))
    return {"n_head_log2": n, "m0": 2.0 ** (-max_bias / n), "m1": 2.0 ** (-max_bias / 2.0 / n)}


def _emit(b: PlanBuilder, t: Tensor) -> None:
    q, k, v, mask, sinks = (*t.src, None, None)[:5]
    assert q is not None and k is not None and v is not None
    scale, max_bias, softcap = (t.param_f32(i) for i in range(3))
    modes = {name: _mode(b, x) for name, x in (("q", q), ("k", k), ("v", v))}
    n_head, n_head_kv = q.ne[2], k.ne[2]
    group = n_head // n_head_kv
    subgroups = b.profile.subgroups and b.profile.subgroup_size >= 4
    lanes = b.profile.subgroup_size if subgroups else LANES
    rows = _rows_at_once(q.ne[1] * group, -(-v.ne[0] // 4), lanes)

    operands = [_operand(b, x, modes[n], n) for n, x in (("q", q), ("k", k), ("v", v))]
    params: dict[str, int | float] = {
        "n_kv": k.ne[1], "n_q": q.ne[1], "n_head": n_head, "n_head_kv": n_head_kv,
        "group": group, "n_seq": q.ne[3], "seq_per_k": q.ne[3] // k.ne[3],
        "scale": scale / softcap if softcap else scale,
    }  # fmt: skip
    for name, x in (("q", q), ("k", k), ("v", v)):
        unit = _ELEMS[modes[name]][1]
        params.update({f"{name}_s{i}": x.nb[i] // unit for i in (1, 2, 3)})
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
    blocks = -(-(q.ne[1] * group) // rows)
    b.dispatch(
        "attention/flash_attn.wgsl",
        operands=operands,
        consts={
            "W": lanes, "NQ": rows, "D": k.ne[0], "DV": v.ne[0], "alibi": max_bias > 0.0,
            "softcap": softcap != 0.0, "uses_subgroups": subgroups,
            **{f"{n}_mode": m for n, m in modes.items()},
        },
        params=params,
        groups=blocks * n_head_kv * q.ne[3],
        label="flash_attn",
    )  # fmt: skip


def _rows_at_once(n_rows: int, v4: int, lanes: int) -> int:
    """Rows that share one pass over K and V: more reuse, as long as accumulators stay few and
    there are rows enough to keep every core busy."""
    if n_rows < 16:
        return 1
    return max(1, min(4, MAX_ACCUMULATORS // -(-v4 // lanes)))


FAMILY = {Op.FLASH_ATTN_EXT: OpImpl(_why_not, _emit)}
