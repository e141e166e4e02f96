"""Which routine reads and writes which block format: one table, merged from the families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wggml.core.types import Type
from wggml.quants import kquants, legacy
from wggml.quants.layouts import F32, Records

Reader = Callable[[Records, F32], None]
Writer = Callable[[F32, Records], None]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """`read(records [B], out f32 [B, block])`; `write(x f32 [B, block], records [B])` or None."""

    read: Reader
    write: Writer | None = None


FORMATS: dict[Type, BlockFormat] = {
    Type.Q1_0: BlockFormat(legacy.read_q1_0, legacy.write_q1_0),
    Type.Q2_0: BlockFormat(legacy.read_q2_0, legacy.write_q2_0),
    Type.Q4_0: BlockFormat(legacy.read_q4_0, legacy.write_q4_0),
    Type.Q4_1: BlockFormat(legacy.read_q4_1, legacy.write_q4_1),
    Type.Q5_0: BlockFormat(legacy.read_q5_0, legacy.write_q5_0),
    Type.Q5_1: BlockFormat(legacy.read_q5_1, legacy.write_q5_1),
    Type.Q8_0: BlockFormat(legacy.read_q8, legacy.write_q8_0),
    Type.Q8_1: BlockFormat(legacy.read_q8, legacy.write_q8_1),
    Type.Q2_K: BlockFormat(kquants.read_q2_k),
    Type.Q3_K: BlockFormat(kquants.read_q3_k),
    Type.Q4_K: BlockFormat(kquants.read_q4_k),
    Type.Q5_K: BlockFormat(kquants.read_q5_k),
    Type.Q6_K: BlockFormat(kquants.read_q6_k),
    Type.Q8_K: BlockFormat(kquants.read_q8_k),
}
