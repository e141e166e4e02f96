"""ARGSORT and TOP_K of rows of any length.

Rows that fit workgroup memory are sorted there at once. Longer ones are sorted in blocks, which
are then merged two by two; TOP_K drops on the way what cannot be among the first k. The order is
that of a stable sort on every device: pairs (value, index) are sorted, of which no two are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_strides, workgroup
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op, SortOrder
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

PAIR = 8  # bytes of (key, index)
CAPACITIES = (64, 512, 2048)  # pairs a workgroup may hold; 2048 are WebGPU's 16 KiB
MAX_SCRATCH = 64 << 20  # bytes of pairs, each of the two times; more rows take further passes


@dataclass(frozen=True, slots=True)
class Runs:
    """Sorted runs of one row: `count` of `length` pairs each, but the last: `total` in all."""

    length: int
    count: int
    total: int

    def merged(self, keep: int) -> Runs:
        """Two by two, the first `keep` pairs of each."""
        length = min(2 * self.length, keep)
        count = -(-self.count // 2)
        rest = self.total - 2 * (count - 1) * self.length
        return Runs(length, count, (count - 1) * length + min(rest, keep))


@dataclass(frozen=True, slots=True)
class Part:
    """`rows` rows of the result from `row` on, sorted at a time."""

    row: int
    rows: int


def _capacity(profile: DeviceProfile, n: int) -> int:
    """Pairs of workgroup memory for rows of `n`."""
    possible = [c for c in CAPACITIES if c * PAIR <= profile.max_workgroup_memory]
    return next((c for c in possible if c >= n), possible[-1])


def _scratch_limit(profile: DeviceProfile) -> int:
    slack = 2 * profile.min_storage_offset_alignment + 32
    return min(MAX_SCRATCH, profile.max_binding - slack, profile.max_buffer // 2 - slack)


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    a = source(t, 0)
    if a.type != Type.F32 or t.type != Type.I32:
        return "anything but f32 in and i32 out"
    if t.nb[0] != 4:
        return "a result whose rows are not contiguous"
    n = a.ne[0]
    if n > _capacity(profile, n) and n * PAIR > _scratch_limit(profile):
        return f"rows of {n} values: their pairs exceed one binding of {profile.max_binding} bytes"
    return why_not_strides(t)


def _emit(b: PlanBuilder, t: Tensor) -> None:
    n, keep = source(t, 0).ne[0], t.ne[0]
    capacity = _capacity(b.profile, n)
    if n <= capacity:
        _sort_blocks(b, t, Runs(keep, 1, keep), Part(0, t.n_rows), None)
        return
    length, count = min(keep, capacity), -(-n // capacity)
    first = Runs(length, count, (count - 1) * length + min(keep, n - (count - 1) * capacity))
    step = max(_scratch_limit(b.profile) // (first.total * PAIR), 1)
    nbytes = min(step, t.n_rows) * first.total * PAIR
    halves = [b.scratch(nbytes, "vec2<u32>", name="dst") for _ in range(2)]
    for row in range(0, t.n_rows, step):
        _sort_long(b, t, first, Part(row, min(step, t.n_rows - row)), halves)


def _sort_long(b: PlanBuilder, t: Tensor, runs: Runs, part: Part, halves: list[Operand]) -> None:
    """Blocks into scratch memory, then merges from one half of it to the other."""
    here, there = halves
    _sort_blocks(b, t, runs, part, here)
    while runs.count > 1:
        after = runs.merged(t.ne[0])
        _merge(b, t, runs, after, part, here, there)
        runs, here, there = after, there, here


def _sort_blocks(b: PlanBuilder, t: Tensor, runs: Runs, part: Part, out: Operand | None) -> None:
    a = source(t, 0)
    capacity = _capacity(b.profile, a.ne[0])
    units = part.rows * runs.count
    size = min(1 << (a.ne[0] - 1).bit_length(), capacity)
    descending = t.op == Op.TOP_K or t.param_i32(0) == SortOrder.DESC
    b.dispatch(
        "sort/block.wgsl",
        operands=[
            b.operand(a, "u32", name="src0"), out or b.operand(t, "u32", name="dst", write=True),
        ],
        consts={"W": lanes(b.profile, size // 2), "CAPACITY": capacity, "last": out is None},
        params={
            "n": a.ne[0], "src0_s0": strides_of(a)[0], **row_params(a, 1, src0=a, dst=t),
            "row0": part.row, "blocks": runs.count, "n_units": units, "size": size,
            "keep": runs.length, "total": runs.total, "flip": 0xFFFFFFFF if descending else 0,
        },
        groups=units,
        label=f"{t.op.name.lower()} {'rows' if out is None else 'blocks'}",
    )  # fmt: skip


def _merge(
    b: PlanBuilder, t: Tensor, runs: Runs, after: Runs, part: Part, src: Operand, out: Operand
) -> None:
    last = after.count == 1
    wg = workgroup(b.profile)
    units = part.rows * runs.total
    b.dispatch(
        "sort/merge.wgsl",
        operands=[
            replace(src, name="src0", write=False),
            b.operand(t, "u32", name="dst", write=True) if last else out,
        ],
        consts={"wg": wg, "last": last},
        params={
            "n_units": units, "total": runs.total, "run": runs.length,
            "out_run": after.length, "out_total": after.total, "row0": part.row,
            **row_params(t, 1, dst=t),
        },
        groups=math.ceil(units / wg),
        label=f"{t.op.name.lower()} merge {runs.count} runs",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.ARGSORT: OpImpl(_why_not, _emit),
    Op.TOP_K: OpImpl(_why_not, _emit),
}
