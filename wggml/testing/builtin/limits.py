"""How far results may be from NumPy's, as nmse; each with its reason."""

from __future__ import annotations

from wggml.core.types import Type

# The same f32 arithmetic up to the last bits of divisions and functions: (1e-5)^2 is far above
# what WGSL permits them, far below any real fault.
EXACT = 1e-10
# exp, erf and tanh by other approximations: a single value far out may differ by 1e-4 of itself.
FUNCTIONS = 2e-8
# Sums of f32 products in another order, over thousands of terms.
SUMS = 1e-9
# Results stored in 11 or 8 bits: where f32 differs in its last bits a few round the other way.
STORED = {Type.F32: EXACT, Type.F16: 1e-8, Type.BF16: 1e-6}
# Codes of a block format move by one where a value lies between two of them.
BLOCKS = 1e-4


def stored(type_: Type) -> float:
    """The limit for values that are computed in f32 and stored as `type_`."""
    return STORED.get(type_, 0.0 if type_.name.startswith("I") and len(type_.name) < 4 else BLOCKS)
