"""OUT_PROD: sums of outer products, the first operand of any type that matrix products take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._gather import Pick, gather
from wggml.backends.wgpu.ops._mm_weights import view_weights
from wggml.backends.wgpu.ops._operands import FLOATS, source, typed, why_not_strides, workgroup
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.packing import FIELDS
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

CHUNK = 32  # values a lane decodes at once
TILE = 4  # a lane of the plain kernel makes TILE x TILE values


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    a, c = source(t, 0), source(t, 1)
    if a.type not in FIELDS and a.type not in FLOATS:
        return f"no outer product kernel for {type_name(a.type)}"
    if c.type != Type.F32 or t.type != Type.F32:
        return f"a second operand of type {type_name(c.type)}"
    if a.type in FIELDS and not a.is_contiguous_rows():
        return f"a {type_name(a.type)} operand whose rows have gaps"
    if t.nb[0] != 4:
        return "a result whose rows are not contiguous"
    return why_not_strides(t)


def _shape(t: Tensor) -> dict[str, int | float]:
    """Parameters that both kernels have: sizes, and strides of the second operand and result."""
    a, c = source(t, 0), source(t, 1)
    x, y = strides_of(c), strides_of(t)
    return {
        "n": t.ne[1], "k": a.ne[1], "n2": t.ne[2],
        "ratio2": t.ne[2] // a.ne[2], "ratio3": t.ne[3] // a.ne[3],
        **{f"src1_s{i}": x[i] for i in range(4)}, **{f"dst_s{i}": y[i] for i in (1, 2, 3)},
    }  # fmt: skip


def _emit(b: PlanBuilder, t: Tensor) -> None:
    if source(t, 0).is_empty():  # no outer products: their sum is 0
        gather(b, t, None, Pick(), label="out_prod of nothing")
        return
    if source(t, 0).type in FIELDS:
        _emit_blocks(b, t)
    else:
        _emit_plain(b, t)


def _emit_plain(b: PlanBuilder, t: Tensor) -> None:
    a, c = source(t, 0), source(t, 1)
    src0, extra = typed(b, a, "src0")
    wg = workgroup(b.profile)
    units = math.ceil(t.ne[0] / TILE) * math.ceil(t.ne[1] / TILE) * t.ne[2] * t.ne[3]
    b.dispatch(
        "out_prod/plain.wgsl",
        operands=[
            src0, b.operand(c, "f32", name="src1"), b.operand(t, "f32", name="dst", write=True),
        ],
        consts={"wg": wg, "src0_type": type_name(a.type)},
        params={
            **extra, **_shape(t), "m": t.ne[0], "n_units": units,
            **{f"src0_s{i}": s for i, s in enumerate(strides_of(a))},
        },
        groups=math.ceil(units / wg),
        label=f"out_prod {type_name(a.type)} {t.ne[0]}x{t.ne[1]}",
    )  # fmt: skip


def _emit_blocks(b: PlanBuilder, t: Tensor) -> None:
    a, c = source(t, 0), source(t, 1)
    view = view_weights(b, a)
    s1, s2, s3 = view.strides
    weights, params = view.bind(b, 0, view.units(a.ne[1], a.ne[2], a.ne[3]))
    cols = 1 if t.ne[1] == 1 else 2
    chunks = t.ne[0] // CHUNK
    units = chunks * math.ceil(t.ne[1] / cols) * t.ne[2] * t.ne[3]
    wg = workgroup(b.profile)
    b.dispatch(
        "out_prod/blocks.wgsl",
        operands=[
            *weights, b.operand(c, "f32", name="src1"),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts={**view.consts, "wg": wg, "COLS": cols},
        params={
            **params, **_shape(t), "chunks": chunks, "w_s1": s1, "w_s2": s2, "w_s3": s3,
            "n_units": units,
        },
        groups=math.ceil(units / wg),
        label=f"out_prod {type_name(a.type)} ({view.mode}) {t.ne[0]}x{t.ne[1]}",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {Op.OUT_PROD: OpImpl(_why_not, _emit)}
