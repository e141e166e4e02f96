"""Which block formats can be taken apart into codes, scales and minima: products with them need not
make f32 weights."""

from __future__ import annotations

from collections.abc import Callable

from wggml.core.types import Type
from wggml.quants import fourbit, kquants, legacy
from wggml.quants.layouts import Parts, Records

PARTS: dict[Type, Callable[[Records], Parts]] = {
    Type.Q4_0: legacy.parts_q4_0,
    Type.Q4_1: legacy.parts_q4_1,
    Type.Q5_0: legacy.parts_q5_0,
    Type.Q5_1: legacy.parts_q5_1,
    Type.Q8_0: legacy.parts_q8,
    Type.Q2_K: kquants.parts_q2_k,
    Type.Q3_K: kquants.parts_q3_k,
    Type.Q4_K: kquants.parts_q4_k,
    Type.Q5_K: kquants.parts_q5_k,
    Type.Q6_K: kquants.parts_q6_k,
    Type.IQ4_NL: fourbit.parts_iq4_nl,
    Type.IQ4_XS: fourbit.parts_iq4_xs,
}
