"""Op constructors: each makes the record of an operation in a context and checks its shapes.

They take the context first, as in ggml, and raise `ShapeError` when operands do not fit.
"""

from wggml.core.ops.attention import RopeParams, flash_attn_ext, rope, soft_max
from wggml.core.ops.elementwise import (
    add,
    clamp,
    cos,
    div,
    gelu,
    glu,
    glu_split,
    log,
    mul,
    relu,
    scale,
    scale_bias,
    sigmoid,
    silu,
    sin,
    sqr,
    sqrt,
    sub,
    tanh,
    unary,
)
from wggml.core.ops.matmul import mul_mat, mul_mat_id
from wggml.core.ops.norm import l2_norm, norm, rms_norm
from wggml.core.ops.reduce import argmax, mean, sum_all, sum_rows
from wggml.core.ops.rows import get_rows, set_rows
from wggml.core.ops.shape import (
    cast,
    concat,
    cont,
    cpy,
    dup,
    permute,
    repeat,
    reshape,
    transpose,
    view,
)

__all__ = [
    "RopeParams", "add", "argmax", "cast", "clamp", "concat", "cont", "cos", "cpy", "div", "dup",
    "flash_attn_ext", "gelu", "get_rows", "glu", "glu_split", "l2_norm", "log", "mean", "mul",
    "mul_mat", "mul_mat_id", "norm", "permute", "relu", "repeat", "reshape", "rms_norm", "rope",
    "scale", "scale_bias", "set_rows", "sigmoid", "silu", "sin", "soft_max", "sqr", "sqrt", "sub",
    "sum_all", "sum_rows", "tanh", "transpose", "unary", "view",
]  # fmt: skip
