"""Which routine reads and writes which block format: one table, merged from the families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wggml.core.types import Type
from wggml.quants import (
    codebook_write,
    fourbit,
    iq1_write,
    iquants,
    kquants,
    kquants_write,
    legacy,
    ternary,
    weighted_write,
)
from wggml.quants.layouts import F32, Records

Reader = Callable[[Records, F32], None]
Writer = Callable[[F32, Records], None]
WeightedWriter = Callable[[F32, Records, F32], None]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """`read(records [B], out f32 [B, block])`; `write(x f32 [B, block], records [B])` or None;
    `weigh(x, records, weights f32 [B, block])` or None; with `row_energy` the weights arrive times
    sqrt(mean square of the row + x^2)."""

    read: Reader
    write: Writer | None = None
    weigh: WeightedWriter | None = None
    row_energy: bool = False


# ggml stores these the same with and without importance weights.
IGNORE_WEIGHTS = frozenset(
    {
        Type.F32, Type.F64, Type.F16, Type.BF16, Type.Q1_0, Type.Q2_0, Type.Q8_0, Type.TQ1_0,
        Type.TQ2_0, Type.MXFP4, Type.NVFP4,
    }
)  # fmt: skip


FORMATS: dict[Type, BlockFormat] = {
    Type.Q1_0: BlockFormat(legacy.read_q1_0, legacy.write_q1_0),
    Type.Q2_0: BlockFormat(legacy.read_q2_0, legacy.write_q2_0),
    Type.Q4_0: BlockFormat(
        legacy.read_q4_0, legacy.write_q4_0, weighted_write.write_q4_0, row_energy=True
    ),
    Type.Q4_1: BlockFormat(
        legacy.read_q4_1, legacy.write_q4_1, weighted_write.write_q4_1, row_energy=True
    ),
    Type.Q5_0: BlockFormat(
        legacy.read_q5_0, legacy.write_q5_0, weighted_write.write_q5_0, row_energy=True
    ),
    Type.Q5_1: BlockFormat(
        legacy.read_q5_1, legacy.write_q5_1, weighted_write.write_q5_1, row_energy=True
    ),
    Type.Q8_0: BlockFormat(legacy.read_q8, legacy.write_q8_0),
    Type.Q8_1: BlockFormat(legacy.read_q8, legacy.write_q8_1),
    Type.Q2_K: BlockFormat(kquants.read_q2_k, kquants_write.write_q2_k, weighted_write.write_q2_k),
    Type.Q3_K: BlockFormat(kquants.read_q3_k, kquants_write.write_q3_k, weighted_write.write_q3_k),
    Type.Q4_K: BlockFormat(kquants.read_q4_k, kquants_write.write_q4_k, weighted_write.write_q4_k),
    Type.Q5_K: BlockFormat(kquants.read_q5_k, kquants_write.write_q5_k, weighted_write.write_q5_k),
    Type.Q6_K: BlockFormat(kquants.read_q6_k, kquants_write.write_q6_k, weighted_write.write_q6_k),
    Type.Q8_K: BlockFormat(kquants.read_q8_k, kquants_write.write_q8_k),
    Type.IQ1_S: BlockFormat(iquants.read_iq1_s, None, iq1_write.write_iq1_s),
    Type.IQ1_M: BlockFormat(iquants.read_iq1_m, iq1_write.write_iq1_m, iq1_write.write_iq1_m),
    Type.IQ2_XXS: BlockFormat(iquants.read_iq2_xxs, None, codebook_write.write_iq2_xxs),
    Type.IQ2_XS: BlockFormat(iquants.read_iq2_xs, None, codebook_write.write_iq2_xs),
    Type.IQ2_S: BlockFormat(
        iquants.read_iq2_s, codebook_write.write_iq2_s, codebook_write.write_iq2_s
    ),
    Type.IQ3_XXS: BlockFormat(
        iquants.read_iq3_xxs, codebook_write.write_iq3_xxs, codebook_write.write_iq3_xxs
    ),
    Type.IQ3_S: BlockFormat(
        iquants.read_iq3_s, codebook_write.write_iq3_s, codebook_write.write_iq3_s
    ),
    Type.IQ4_NL: BlockFormat(
        fourbit.read_iq4_nl, fourbit.write_iq4_nl, weighted_write.write_iq4_nl
    ),
    Type.IQ4_XS: BlockFormat(
        fourbit.read_iq4_xs, fourbit.write_iq4_xs, weighted_write.write_iq4_xs
    ),
    Type.MXFP4: BlockFormat(fourbit.read_mxfp4, fourbit.write_mxfp4),
    Type.NVFP4: BlockFormat(fourbit.read_nvfp4, fourbit.write_nvfp4),
    Type.TQ1_0: BlockFormat(ternary.read_tq1_0, ternary.write_tq1_0),
    Type.TQ2_0: BlockFormat(ternary.read_tq2_0, ternary.write_tq2_0),
}
