"""FILL, ARANGE, TRI, DIAG, DIAG_MASK_INF, DIAG_MASK_ZERO and TIMESTEP_EMBEDDING."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.wgpu.family import Emit, OpImpl
from wggml.backends.wgpu.ops._gather import Pick, bits_of, gather, why_not_gather
from wggml.backends.wgpu.ops._operands import FLOATS, source, why_not_types, workgroup
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op, TriType
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# Columns minus rows from a.x to a.y, both signed.
BAND = Pick(keep="i32(i.x) - i32(i.y) >= i32(a.x) && i32(i.x) - i32(i.y) <= i32(a.y)")
SEQUENCE = Pick(other="bitcast<u32>(P.start + P.step * f32(i.x))")
CONSTANT = Pick()
FAR = 1 << 30  # no diagonal lies that far out
TRIANGLES = {
    TriType.UPPER_DIAG: (0, FAR),
    TriType.UPPER: (1, FAR),
    TriType.LOWER_DIAG: (-FAR, 0),
    TriType.LOWER: (-FAR, -1),
}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_gather(t)


def _why_not_number(profile: DeviceProfile, t: Tensor) -> str | None:
    return None if t.type in FLOATS else f"a result of type {type_name(t.type)}"


def _emit_fill(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, None, CONSTANT, other=bits_of(t.param_f32(0), t.type))


def _emit_arange(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, None, SEQUENCE, extra={"start": t.param_f32(0), "step": t.param_f32(2)})


def _emit_tri(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, source(t, 0), BAND, TRIANGLES[TriType(t.param_i32(0))])


def _emit_diag(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, source(t, 0), BAND, (0, 0))  # the source has one row, so all rows read it


def _diag_mask(value: float) -> Emit:
    def emit(b: PlanBuilder, t: Tensor) -> None:
        other = bits_of(value, t.type)
        gather(b, t, source(t, 0), BAND, (-FAR, t.param_i32(0)), other=other)

    return emit


# ---- TIMESTEP_EMBEDDING ---------------------------------------------------------------------


def _why_not_f32(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32}))


def _emit_timestep(b: PlanBuilder, t: Tensor) -> None:
    """Cosines, then sines, of timestep * max_period^(-j / half); a last odd column is 0."""
    a = source(t, 0)
    half, longest = t.param_i32(0) // 2, t.param_i32(1)
    steps = np.arange(half, dtype=np.float32) / np.float32(max(half, 1))
    table = np.exp(-np.log(np.float32(longest)) * steps)
    wg = workgroup(b.profile)
    units = t.ne[0] * t.ne[1]
    b.dispatch(
        "image/timestep.wgsl",
        operands=[
            b.operand(a, "f32", name="src0"),
            b.constant(table, "f32", name="frequency"),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={"wg": wg},
        params={
            "dim": t.ne[0], "half": half, "n_units": units,
            "src0_s0": strides_of(a)[0], "dst_s1": strides_of(t)[1],
        },
        groups=math.ceil(units / wg),
        label="timestep_embedding",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.FILL: OpImpl(_why_not_number, _emit_fill),
    Op.ARANGE: OpImpl(_why_not_f32, _emit_arange),
    Op.TRI: OpImpl(_why_not, _emit_tri),
    Op.DIAG: OpImpl(_why_not, _emit_diag),
    Op.DIAG_MASK_INF: OpImpl(_why_not, _diag_mask(-math.inf)),
    Op.DIAG_MASK_ZERO: OpImpl(_why_not, _diag_mask(0.0)),
    Op.TIMESTEP_EMBEDDING: OpImpl(_why_not_f32, _emit_timestep),
}
