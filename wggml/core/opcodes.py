"""Operation numbers and flags, in ggml's order (golden data and op_params store the numbers)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Op(IntEnum):
    """`ggml_op`."""

    NONE = 0
    DUP = 1
    ADD = 2
    ADD_ID = 3
    ADD1 = 4
    ACC = 5
    SUB = 6
    MUL = 7
    DIV = 8
    SQR = 9
    SQRT = 10
    LOG = 11
    SIN = 12
    COS = 13
    SUM = 14
    SUM_ROWS = 15
    CUMSUM = 16
    MEAN = 17
    ARGMAX = 18
    COUNT_EQUAL = 19
    REPEAT = 20
    REPEAT_BACK = 21
    CONCAT = 22
    SILU_BACK = 23
    NORM = 24
    RMS_NORM = 25
    RMS_NORM_BACK = 26
    GROUP_NORM = 27
    L2_NORM = 28
    MUL_MAT = 29
    MUL_MAT_ID = 30
    OUT_PROD = 31
    SCALE = 32
    SET = 33
    CPY = 34
    CONT = 35
    RESHAPE = 36
    VIEW = 37
    PERMUTE = 38
    TRANSPOSE = 39
    GET_ROWS = 40
    GET_ROWS_BACK = 41
    SET_ROWS = 42
    DIAG = 43
    DIAG_MASK_INF = 44
    DIAG_MASK_ZERO = 45
    SOFT_MAX = 46
    SOFT_MAX_BACK = 47
    ROPE = 48
    ROPE_BACK = 49
    CLAMP = 50
    CONV_TRANSPOSE_1D = 51
    IM2COL = 52
    IM2COL_BACK = 53
    IM2COL_3D = 54
    COL2IM_1D = 55
    CONV_2D = 56
    CONV_3D = 57
    CONV_2D_DW = 58
    CONV_TRANSPOSE_2D = 59
    POOL_1D = 60
    POOL_2D = 61
    POOL_2D_BACK = 62
    UPSCALE = 63
    PAD = 64
    PAD_REFLECT_1D = 65
    ROLL = 66
    ARANGE = 67
    TIMESTEP_EMBEDDING = 68
    ARGSORT = 69
    TOP_K = 70
    LEAKY_RELU = 71
    TRI = 72
    FILL = 73
    FLASH_ATTN_EXT = 74
    FLASH_ATTN_BACK = 75
    SSM_CONV = 76
    SSM_SCAN = 77
    WIN_PART = 78
    WIN_UNPART = 79
    GET_REL_POS = 80
    ADD_REL_POS = 81
    RWKV_WKV6 = 82
    GATED_LINEAR_ATTN = 83
    RWKV_WKV7 = 84
    SOLVE_TRI = 85
    GATED_DELTA_NET = 86
    LIGHTNING_INDEXER = 87
    DSV4_HC_COMB = 88
    DSV4_HC_PRE = 89
    DSV4_HC_POST = 90
    UNARY = 91
    MAP_CUSTOM1 = 92
    MAP_CUSTOM2 = 93
    MAP_CUSTOM3 = 94
    CUSTOM = 95
    CROSS_ENTROPY_LOSS = 96
    CROSS_ENTROPY_LOSS_BACK = 97
    OPT_STEP_ADAMW = 98
    OPT_STEP_SGD = 99
    GLU = 100


class UnaryOp(IntEnum):
    """`ggml_unary_op`: op_params[0] of an `Op.UNARY` node."""

    ABS = 0
    SGN = 1
    NEG = 2
    STEP = 3
    TANH = 4
    ELU = 5
    RELU = 6
    SIGMOID = 7
    GELU = 8
    GELU_QUICK = 9
    SILU = 10
    HARDSWISH = 11
    HARDSIGMOID = 12
    EXP = 13
    EXPM1 = 14
    SOFTPLUS = 15
    GELU_ERF = 16
    XIELU = 17
    FLOOR = 18
    CEIL = 19
    ROUND = 20
    TRUNC = 21


class GluOp(IntEnum):
    """`ggml_glu_op`: op_params[0] of an `Op.GLU` node; op_params[1] tells whether halves swap."""

    REGLU = 0
    GEGLU = 1
    SWIGLU = 2
    SWIGLU_OAI = 3
    GEGLU_ERF = 4
    GEGLU_QUICK = 5
    SWIGLU_CLAMP = 6


class Flag(IntFlag):
    """`ggml_tensor_flag`."""

    INPUT = 1
    OUTPUT = 2
    PARAM = 4
    LOSS = 8
    COMPUTE = 16


class RopeMode(IntEnum):
    """Mode bits of `Op.ROPE` (op_params[2])."""

    NORMAL = 0
    NEOX = 2
    MROPE = 8
    VISION = 24
    IMROPE = 40


class Prec(IntEnum):
    """`ggml_prec`: the precision a matrix product or attention may compute in."""

    UNDEFINED = 0
    F32 = 10
    BF16 = 15
    F16 = 20
    Q8 = 30
    Q4 = 40


class OpHint(IntEnum):
    """`ggml_op_hint`: what a backend may assume about the operands of `Op.MUL_MAT`."""

    NONE = 0
    SRC0_IS_HADAMARD = 1


class PoolOp(IntEnum):
    """`ggml_op_pool`: op_params[0] of the pooling ops."""

    MAX = 0
    AVG = 1


class SortOrder(IntEnum):
    """`ggml_sort_order`: op_params[0] of `Op.ARGSORT`."""

    ASC = 0
    DESC = 1


class TriType(IntEnum):
    """`ggml_tri_type`: which triangle `Op.TRI` keeps, with or without the diagonal."""

    UPPER_DIAG = 0
    UPPER = 1
    LOWER_DIAG = 2
    LOWER = 3


class ScaleMode(IntEnum):
    """`ggml_scale_mode`: the low byte of op_params[0] of `Op.UPSCALE`."""

    NEAREST = 0
    BILINEAR = 1
    BICUBIC = 2


class ScaleFlag(IntFlag):
    """`ggml_scale_flag`: bits above the low byte of op_params[0] of `Op.UPSCALE`."""

    ALIGN_CORNERS = 256
    ANTIALIAS = 512


# Ops that only describe memory: they run nothing, never cut a split, and own no address.
VIEW_OPS = frozenset({Op.VIEW, Op.RESHAPE, Op.PERMUTE, Op.TRANSPOSE})
# Ops a backend has nothing to execute for.
EMPTY_OPS = VIEW_OPS | {Op.NONE}

# Ops whose result may take the memory of a source (see alloc.gallocr).
INPLACE_OPS = frozenset(
    {
        Op.FILL, Op.SCALE, Op.DIAG_MASK_ZERO, Op.DIAG_MASK_INF, Op.ADD, Op.ADD_ID, Op.ADD1,
        Op.SUB, Op.MUL, Op.DIV, Op.SQR, Op.SQRT, Op.LOG, Op.UNARY, Op.ROPE, Op.ROPE_BACK,
        Op.SILU_BACK, Op.RMS_NORM, Op.RMS_NORM_BACK, Op.CLAMP, Op.SOFT_MAX, Op.SOFT_MAX_BACK,
    }
)  # fmt: skip
