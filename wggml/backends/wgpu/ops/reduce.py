"""SUM, SUM_ROWS, MEAN, ARGMAX, CUMSUM and COUNT_EQUAL."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._gather import Pick, gather
from wggml.backends.wgpu.ops._operands import source, why_not_strides, why_not_types
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    a = source(t, 0)
    if a.type != Type.F32 or t.type not in (Type.F32, Type.I32):
        return f"values of type {type_name(a.type)}"
    if not t.is_contiguous():
        return "a result that is not contiguous"
    return why_not_strides(t)


def _why_not_argmax(profile: DeviceProfile, t: Tensor) -> str | None:
    if source(t, 0).nb[0] != 4:
        return "rows that are not contiguous"
    return _why_not(profile, t)


def _emit_rows(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    mean = 1.0 / a.ne[0] if a.ne[0] else math.nan
    params = {"scale": mean if t.op == Op.MEAN else 1.0, **_row_sums(a)}
    b.dispatch(
        "reduce/sum_rows.wgsl",
        operands=[b.operand(a, "f32", name="src0"), b.operand(t, "f32", name="dst", write=True)],
        consts={"W": lanes(b.profile, a.ne[0])},
        params=params,
        groups=a.n_rows,
        label=t.op.name.lower(),
    )


def _row_sums(a: Tensor) -> dict[str, int | float]:
    return {"n": a.ne[0], "src0_s0": strides_of(a)[0], **row_params(a, 1, src0=a)}


def _emit_sum(b: PlanBuilder, t: Tensor) -> None:
    """ggml's SUM: a row is its first value and those that follow it in memory, whatever nb[0]."""
    _emit_total(b, t, {**_row_sums(source(t, 0)), "src0_s0": 1})


def emit_total(b: PlanBuilder, t: Tensor) -> None:
    """The sum of all values of the source, however they lie."""
    _emit_total(b, t, _row_sums(source(t, 0)))


def _emit_total(b: PlanBuilder, t: Tensor, params: dict[str, int | float]) -> None:
    """Row sums into scratch memory, then those into one value."""
    a = source(t, 0)
    if a.is_empty():
        gather(b, t, None, Pick(), label="sum of nothing")
        return
    src, dst = b.operand(a, "f32", name="src0"), b.operand(t, "f32", name="dst", write=True)
    if a.n_rows <= 1:
        _sums(b, [src, dst], 1, params, pairs=(False, False))
        return
    n = a.n_rows
    partial = b.scratch(n * 8, "vec2<f32>", name="dst")
    _sums(b, [src, partial], n, params, pairs=(False, True))
    add_up(b, [replace(partial, name="src0", write=False), dst], n)


def add_up(b: PlanBuilder, operands: list[Operand], n: int) -> None:
    """dst = sum of the `n` values of src0, an array of f32 or of (sum, rest) pairs."""
    params = {"n": n, "n1": 1, "n2": 1, "n_rows": 1, "src0_s0": 1, "src0_s1": 0, "src0_s2": 0}
    pairs = operands[0].elem == "vec2<f32>"
    _sums(b, operands, 1, {**params, "src0_s3": 0}, pairs=(pairs, False))


def _sums(
    b: PlanBuilder,
    operands: list[Operand],
    rows: int,
    params: dict[str, int | float],
    *,
    pairs: tuple[bool, bool],
) -> None:
    b.dispatch(
        "reduce/sum.wgsl",
        operands=operands,
        consts={
            "W": lanes(b.profile, int(params["n"])), "pairs_in": pairs[0], "pairs_out": pairs[1],
        },
        params={**params, "zero": 0},
        groups=rows,
        label="sum of rows" if pairs[1] else "sum",
    )  # fmt: skip


def _emit_argmax(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    b.dispatch(
        "reduce/argmax.wgsl",
        operands=[b.operand(a, "f32", name="src0"), b.operand(t, "u32", name="dst", write=True)],
        consts={"W": lanes(b.profile, a.ne[0])},
        params={"n": a.ne[0], "n_rows": a.ne[1], "src0_s1": strides_of(a)[1]},
        groups=a.ne[1],
        label="argmax",
    )


# ---- CUMSUM -----------------------------------------------------------------------------------


def _why_not_cumsum(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32}))


def _emit_cumsum(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    width = lanes(b.profile, t.ne[0])
    b.dispatch(
        "reduce/cumsum.wgsl",
        operands=[b.operand(a, "f32", name="src0"), b.operand(t, "f32", name="dst", write=True)],
        consts={"W": width},
        params={
            "n": t.ne[0], "share": -(-t.ne[0] // width), "src0_s0": strides_of(a)[0],
            "dst_s0": strides_of(t)[0], **row_params(t, 1, src0=a, dst=t),
        },
        groups=t.n_rows,
        label="cumsum",
    )  # fmt: skip


# ---- COUNT_EQUAL --------------------------------------------------------------------------------


def _why_not_count(profile: DeviceProfile, t: Tensor) -> str | None:
    a, c = source(t, 0), source(t, 1)
    if {a.type, c.type} != {Type.I32} or t.type != Type.I64:
        return "anything but i32 in and i64 out"
    return why_not_strides(t)


def _emit_count(b: PlanBuilder, t: Tensor) -> None:
    """Counts of rows into scratch memory, then those into one number of two words."""
    a, c = source(t, 0), source(t, 1)
    n = a.n_rows
    partial = b.scratch(max(n, 1) * 4, "u32", name="dst")
    b.dispatch(
        "reduce/count_equal.wgsl",
        operands=[b.operand(a, "u32", name="src0"), b.operand(c, "u32", name="src1"), partial],
        consts={"W": lanes(b.profile, a.ne[0]), "compare": True},
        params={
            "n": a.ne[0], "src0_s0": strides_of(a)[0], "src1_s0": strides_of(c)[0],
            **row_params(a, 1, src0=a, src1=c),
        },
        groups=n,
        label="count_equal of rows",
    )  # fmt: skip
    b.dispatch(
        "reduce/count_equal.wgsl",
        operands=[
            replace(partial, name="src0", write=False), b.operand(t, "u32", name="dst", write=True),
        ],
        consts={"W": lanes(b.profile, n), "compare": False},
        params={"n": n, "n_rows": 1},
        groups=1,
        label="count_equal",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.SUM: OpImpl(_why_not, _emit_sum),
    Op.SUM_ROWS: OpImpl(_why_not, _emit_rows),
    Op.MEAN: OpImpl(_why_not, _emit_rows),
    Op.ARGMAX: OpImpl(_why_not_argmax, _emit_argmax),
    Op.CUMSUM: OpImpl(_why_not_cumsum, _emit_cumsum),
    Op.COUNT_EQUAL: OpImpl(_why_not_count, _emit_count),
}
