"""ROPE and ROPE_BACK in all modes: normal, NEOX, and the multi-position ones, with YaRN."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import optional, source, typed, why_not_strides, workgroup
from wggml.backends.wgpu.ops._rowwise import row_params
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op, RopeMode
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    a = source(t, 0)
    size = TRAITS[a.type].type_size
    if a.type not in (Type.F32, Type.F16):
        return f"values of type {type_name(a.type)}"
    if a.nb[0] != size or t.nb[0] != size:
        return "rows that are not contiguous"
    if t.param_i32(2) not in (0, *(int(m) for m in RopeMode)):
        return f"rope mode {t.param_i32(2)}"
    return why_not_strides(t)


@lru_cache(maxsize=64)
def frequencies(op_params: bytes, ne0: int) -> tuple[npt.NDArray[np.uint32], float]:
    """(table, magnitude) of a ROPE node.

    One row of four words per rotated pair: the pair's frequency in turns per position as a 64-bit
    fraction (two words, high first), which position vector it follows, and the frequency in turns
    as f32 for use with frequency factors. `magnitude` multiplies sines and cosines.

    ggml multiplies an f32 angle by f32(base^(-2/n)) from pair to pair; the same rounded factor is
    used here, in double precision, so that angles agree beyond its own rounding.
    """
    ints = np.frombuffer(op_params, np.int32)
    floats = np.frombuffer(op_params, np.float32)
    n_dims, mode, n_ctx_orig = int(ints[1]), int(ints[2]), int(ints[4])
    base, scale, ext, attn, fast, slow = (float(v) for v in floats[5:11])
    sections = [int(v) for v in ints[11:15]]
    n_pairs = (ne0 if mode == RopeMode.VISION else n_dims) // 2
    factor = float(np.float32(base) ** np.float32(-2.0 / n_dims))
    which, power = _positions(mode, sections, n_pairs)
    freq = np.power(factor, power.astype(np.float64))
    if ext != 0.0:
        mix = _ramp(n_dims, n_ctx_orig, base, fast, slow, n_pairs) * ext
        freq *= scale * (1.0 - mix) + mix
        attn *= 1.0 + 0.1 * math.log(1.0 / scale)
    else:
        freq *= scale
    turns = freq / (2.0 * math.pi)
    fraction = np.array([int(math.ldexp(x % 1.0, 64)) for x in turns.tolist()], np.uint64)
    table = np.empty((n_pairs, 4), np.uint32)
    table[:, 0] = (fraction >> np.uint64(32)).astype(np.uint32)
    table[:, 1] = (fraction & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    table[:, 2] = which
    table[:, 3] = turns.astype(np.float32).view(np.uint32)
    return table, attn


def _positions(
    mode: int, sections: list[int], n_pairs: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Per pair: the position vector (time, height, width, extra) it follows and the power of the
    frequency factor, which restarts in each section for VISION."""
    which = np.zeros(n_pairs, np.uint32)
    power = np.arange(n_pairs, dtype=np.int64)
    if not mode & RopeMode.MROPE:
        return which, power
    total = sum(sections)
    ends = np.cumsum(sections)
    starts = ends - sections
    for k in range(n_pairs):
        sector = k % total
        if mode == RopeMode.IMROPE:
            third = sector % 3
            inside = sector < 3 * sections[third]
            which[k] = third if inside else 3
        else:
            which[k] = min(int(np.searchsorted(ends, sector, side="right")), 3)
        if mode == RopeMode.VISION:
            power[k] = sector - int(starts[which[k]])
    return which, power


def _ramp(
    n_dims: int, n_ctx: int, base: float, fast: float, slow: float, n_pairs: int
) -> npt.NDArray[np.float64]:
    """YaRN's share of unscaled frequency per pair (Peng et al. 2023, as ggml rounds its bounds)."""

    def dim(rotations: float) -> float:
        x = n_dims * np.log(np.float64(n_ctx) / (rotations * 2 * math.pi)) / (2 * math.log(base))
        return float(x)

    with np.errstate(all="ignore"):  # zero rotations or an unknown context give infinite bounds
        low = max(0.0, float(np.floor(dim(fast))))
        high = min(n_dims - 1.0, float(np.ceil(dim(slow))))
        y = (np.arange(n_pairs) - low) / max(0.001, high - low)
    return np.asarray(1.0 - np.clip(y, 0.0, 1.0))


def _emit(b: PlanBuilder, t: Tensor) -> None:
    a, pos, factors = source(t, 0), source(t, 1), optional(t, 2)
    mode, n_dims, first = t.param_i32(2), t.param_i32(1), t.param_i32(15)
    table, magnitude = frequencies(t.op_params, t.ne[0])
    n_pairs = len(table)
    normal = mode == RopeMode.NORMAL
    half = 1 if normal else n_dims if mode == RopeMode.VISION else n_dims // 2
    store, atomic = _store(b, t, normal)
    src0, extra0 = typed(b, a, "src0", atomic=atomic and a.placed_in is t.placed_in)
    dst, extra1 = typed(b, t, "dst", write=True, atomic=atomic)
    operands = [
        src0, dst, b.operand(pos, "u32", name="pos"),
        b.constant(table, "vec4<u32>", name="table"),
    ]  # fmt: skip
    if factors is not None:
        operands.append(b.operand(factors, "f32", name="ff"))
    n0 = t.ne[0] // 2
    units = n0 * t.n_rows
    wg = workgroup(b.profile)
    b.dispatch(
        "rope/rope.wgsl",
        operands=operands,
        consts={
            "src0_type": type_name(a.type), "store": store, "wg": wg,
            "atomic": src0.elem.startswith("atomic"), "has_factors": factors is not None,
        },
        params={
            **row_params(t, 1, src0=a, dst=t), **extra0, **extra1,
            "n0": n0, "n_units": units, "n_pairs": n_pairs, "half": half,
            "step": 2 if normal else 1, "first": first,
            "sign": -1.0 if t.op == Op.ROPE_BACK else 1.0, "magnitude": float(magnitude),
        },
        groups=-(-units // wg),
        label="rope",
    )  # fmt: skip


def _store(b: PlanBuilder, t: Tensor, normal: bool) -> tuple[str, bool]:
    """16-bit results: a NORMAL pair fills a word where rows start on one; others share words."""
    if t.type == Type.F32:
        return "whole", False
    if normal and b.starts_on(t, 4) and not any(nb % 4 for nb in t.nb[1:]):
        return "pair", False
    return "atomic", True


FAMILY: dict[Op, OpImpl] = {
    Op.ROPE: OpImpl(_why_not, _emit),
    Op.ROPE_BACK: OpImpl(_why_not, _emit),
}
