"""Op constructors: each makes the record of an operation in a context and checks its shapes.

They take the context first, as in ggml, and raise `ShapeError` when operands do not fit. Names are
ggml's without its prefix; use them through the module (`ops.add`), since some hide builtins.

ggml's FLASH_ATTN_BACK has no constructor: there it ends the process, unfinished.
"""

from wggml.core.ops.attention import flash_attn_ext, soft_max, soft_max_back
from wggml.core.ops.conv import (
    col2im_1d,
    conv_1d,
    conv_1d_dw,
    conv_2d,
    conv_2d_direct,
    conv_2d_dw,
    conv_2d_dw_direct,
    conv_3d,
    conv_3d_direct,
    conv_transpose_1d,
    conv_transpose_2d_p0,
    im2col,
    im2col_3d,
    im2col_back,
)
from wggml.core.ops.elementwise import (
    acc,
    add,
    add1,
    add_cast,
    add_id,
    clamp,
    cos,
    div,
    leaky_relu,
    log,
    mul,
    scale,
    scale_bias,
    set,
    silu_back,
    sin,
    sqr,
    sqrt,
    sub,
)
from wggml.core.ops.fill import (
    arange,
    diag,
    diag_mask_inf,
    diag_mask_zero,
    fill,
    timestep_embedding,
    tri,
)
from wggml.core.ops.glu import glu, glu_split, swiglu_clamp, swiglu_oai
from wggml.core.ops.image import (
    add_rel_pos,
    get_rel_pos,
    interpolate,
    pad,
    pad_reflect_1d,
    roll,
    upscale,
    win_part,
    win_unpart,
)
from wggml.core.ops.loss import (
    cross_entropy_loss,
    cross_entropy_loss_back,
    opt_step_adamw,
    opt_step_sgd,
)
from wggml.core.ops.matmul import mul_mat, mul_mat_id, out_prod, solve_tri
from wggml.core.ops.norm import group_norm, l2_norm, norm, rms_norm, rms_norm_back
from wggml.core.ops.pool import pool_1d, pool_2d, pool_2d_back
from wggml.core.ops.recurrent import (
    dsv4_hc_comb,
    dsv4_hc_post,
    dsv4_hc_pre,
    dsv4_hc_pre_gated,
    gated_delta_net,
    gated_linear_attn,
    lightning_indexer,
    rwkv_wkv6,
    rwkv_wkv7,
    ssm_conv,
    ssm_scan,
)
from wggml.core.ops.reduce import argmax, count_equal, cumsum, mean, sum, sum_all, sum_rows
from wggml.core.ops.rope import RopeParams, rope, rope_back
from wggml.core.ops.rows import get_rows, get_rows_back, set_rows
from wggml.core.ops.shape import (
    cast,
    concat,
    cont,
    cpy,
    dup,
    permute,
    repeat,
    repeat_back,
    reshape,
    transpose,
    view,
)
from wggml.core.ops.sort import argsort, argsort_top_k, top_k
from wggml.core.ops.unary import (
    abs,
    ceil,
    elu,
    exp,
    expm1,
    floor,
    gelu,
    gelu_erf,
    gelu_quick,
    hardsigmoid,
    hardswish,
    neg,
    relu,
    round,
    sgn,
    sigmoid,
    silu,
    softplus,
    step,
    tanh,
    trunc,
    unary,
    xielu,
)

__all__ = [
    "RopeParams", "abs", "acc", "add", "add1", "add_cast", "add_id", "add_rel_pos", "arange",
    "argmax", "argsort", "argsort_top_k", "cast", "ceil", "clamp", "col2im_1d", "concat", "cont",
    "conv_1d", "conv_1d_dw", "conv_2d", "conv_2d_direct", "conv_2d_dw", "conv_2d_dw_direct",
    "conv_3d", "conv_3d_direct", "conv_transpose_1d", "conv_transpose_2d_p0", "cos", "count_equal",
    "cpy", "cross_entropy_loss", "cross_entropy_loss_back", "cumsum", "diag", "diag_mask_inf",
    "diag_mask_zero", "div", "dsv4_hc_comb", "dsv4_hc_post", "dsv4_hc_pre", "dsv4_hc_pre_gated",
    "dup", "elu", "exp", "expm1", "fill", "flash_attn_ext", "floor", "gated_delta_net",
    "gated_linear_attn", "gelu", "gelu_erf", "gelu_quick", "get_rel_pos", "get_rows",
    "get_rows_back", "glu", "glu_split", "group_norm", "hardsigmoid", "hardswish", "im2col",
    "im2col_3d", "im2col_back", "interpolate", "l2_norm", "leaky_relu", "lightning_indexer", "log",
    "mean", "mul", "mul_mat", "mul_mat_id", "neg", "norm", "opt_step_adamw", "opt_step_sgd",
    "out_prod", "pad", "pad_reflect_1d", "permute", "pool_1d", "pool_2d", "pool_2d_back", "relu",
    "repeat", "repeat_back", "reshape", "rms_norm", "rms_norm_back", "roll", "rope", "rope_back",
    "round", "rwkv_wkv6", "rwkv_wkv7", "scale", "scale_bias", "set", "set_rows", "sgn", "sigmoid",
    "silu", "silu_back", "sin", "soft_max", "soft_max_back", "softplus", "solve_tri", "sqr",
    "sqrt", "ssm_conv", "ssm_scan", "step", "sub", "sum", "sum_all", "sum_rows", "swiglu_clamp",
    "swiglu_oai", "tanh", "timestep_embedding", "top_k", "transpose", "tri", "trunc", "unary",
    "upscale", "view", "win_part", "win_unpart", "xielu",
]  # fmt: skip
