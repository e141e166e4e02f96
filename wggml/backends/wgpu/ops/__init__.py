"""Op families on wgpu. Each module has `FAMILY: dict[Op, OpImpl]`; this is their union."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from wggml.backends.wgpu.family import OpImpl
from wggml.core.opcodes import Op

FAMILIES = (
    "attention", "backward", "conv", "custom", "deepseek", "elementwise", "fill", "image", "loss",
    "mul_mat", "norm", "out_prod", "pool", "recurrent", "reduce", "rope", "rows", "shape",
    "softmax", "sort", "unfold", "update", "upscale",
)  # fmt: skip


@lru_cache(maxsize=1)
def op_table() -> dict[Op, OpImpl]:
    """Every op that has a wgpu implementation. Two families claiming one op is an error."""
    table: dict[Op, OpImpl] = {}
    for name in FAMILIES:
        family: dict[Op, OpImpl] = import_module(f"{__name__}.{name}").FAMILY
        twice = table.keys() & family.keys()
        assert not twice, f"wgpu family {name} repeats {[op.name for op in twice]}"
        table.update(family)
    return table
