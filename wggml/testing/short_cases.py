"""A few small cases, at least one for each family of kernels: what a self-test runs.

Shapes are odd, several workgroups or subgroups wide, and far from degenerate; together they take
less than a second on a software adapter whose shader cache is warm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wggml.core import ops
from wggml.core.opcodes import GluOp, PoolOp, RopeMode, ScaleMode
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.maker import Maker
from wggml.testing.builtin.recipe import Build, Recipe

# Metric limits: element by element; results that are stored as f16; sums in another order.
EXACT, HALF, SUMS = 1e-9, 1e-6, 1e-7
# Weight types that models are made of, and for how many columns at once: other kernels each time.
WEIGHTS = {
    Type.F32: (1, 9), Type.F16: (1, 9), Type.Q4_0: (1, 9), Type.Q8_0: (1,), Type.Q4_K: (1, 9),
    Type.Q6_K: (1,), Type.IQ4_NL: (1,),  # whose levels are rounded, where drivers take liberties
}  # fmt: skip


def recipes() -> Iterator[Recipe]:
    """The cases, cheap and common ones first."""
    for type_, columns in WEIGHTS.items():
        for n in columns:
            params = {"type": type_, "rows": 37, "n": n, "k": 512}
            yield Recipe("MUL_MAT", _mul_mat, params, max_err=SUMS)
    for op, (build, max_err) in _CASES.items():
        yield Recipe(op, build, {}, max_err=max_err)


def _mul_mat(m: Maker, type: Type, rows: int, n: int, k: int) -> Tensor:
    return ops.mul_mat(m.ctx, m.leaf((k, rows), type), m.leaf((k, n)))


def _mul_mat_id(m: Maker) -> Tensor:
    experts, x = m.leaf((256, 19, 4), Type.Q4_0), m.leaf((256, 1, 5))
    return ops.mul_mat_id(m.ctx, experts, x, m.distinct((2, 5), 4))


def _flash_attn(m: Maker) -> Tensor:
    q, mask = m.leaf((64, 3, 4)), m.leaf((45, 3), Type.F16)
    k, v = m.leaf((64, 45, 2), Type.F16), m.leaf((64, 45, 2), Type.F16)
    return ops.flash_attn_ext(m.ctx, q, k, v, mask, 0.125)


def _soft_max(m: Maker) -> Tensor:
    return ops.soft_max(m.ctx, m.leaf((259, 5, 2), lo=-4.0, hi=4.0), m.leaf((259, 5)), 0.5)


def _rope(m: Maker) -> Tensor:
    params = ops.RopeParams(n_dims=32, mode=RopeMode.NEOX)
    return ops.rope(m.ctx, m.leaf((48, 3, 5)), m.ints((5,), 500), params)


def _set_rows(m: Maker) -> Tensor:
    a = m.leaf((67, 9), Type.F16)
    return ops.set_rows(m.ctx, a, m.leaf((67, 4)), m.distinct((4,), 9, Type.I64))


def _cpy(m: Maker) -> Tensor:
    return ops.cpy(m.ctx, m.laid("transposed", (33, 17)), m.leaf((33, 17), Type.F16))


def _set(m: Maker) -> Tensor:
    a = m.leaf((67, 5))
    return ops.set(m.ctx, a, m.leaf((33, 2)), a.nb[1:], a.nb[1] + 8)


def _conv_2d(m: Maker) -> Tensor:
    kernel, x = m.leaf((3, 3, 4, 5), Type.F16), m.leaf((11, 9, 4, 2))
    return ops.conv_2d_direct(m.ctx, kernel, x, padding=(1, 1))


def _conv_2d_dw(m: Maker) -> Tensor:
    kernel, x = m.leaf((3, 3, 1, 6)), m.leaf((11, 9, 6, 2))
    return ops.conv_2d_dw_direct(m.ctx, kernel, x, padding=(1, 1))


def _im2col(m: Maker) -> Tensor:
    return ops.im2col(m.ctx, m.leaf((3, 3, 4, 5)), m.leaf((11, 9, 4, 2)), type_=Type.F32)


def _ssm_scan(m: Maker) -> Tensor:
    b, c = m.leaf((16, 1, 6, 2)), m.leaf((16, 1, 6, 2))
    s, x, dt = m.leaf((16, 4, 3, 2)), m.leaf((4, 3, 6, 2)), m.leaf((3, 6, 2))
    a, ids = m.leaf((1, 3), lo=-1.0, hi=-0.1), m.distinct((2,), 2)
    return ops.ssm_scan(m.ctx, s, x, dt, a, b, c, ids)


def _linear_attn(m: Maker) -> Tensor:
    k, v, q, g = (m.leaf((32, 2, 7), lo=0.0) for _ in range(4))
    return ops.gated_linear_attn(m.ctx, k, v, q, g, m.leaf((2048, 1)), 0.5)


def _solve_tri(m: Maker) -> Tensor:
    n = 21
    lower = np.tril(m.rng.uniform(-0.3, 0.3, (n, n))) + 2 * np.eye(n)
    return ops.solve_tri(m.ctx, m.array(lower.astype(np.float32)), m.leaf((13, n)))


def _adamw(m: Maker) -> Tensor:
    a, grad = m.leaf((67, 3)).set_param(), m.leaf((67, 3))
    first, second = m.leaf((67, 3)), m.leaf((67, 3), lo=0.0)
    step = m.array(np.array([0.01, 0.9, 0.999, 1e-8, 0.1, 1.2, 1.1], np.float32))
    return ops.opt_step_adamw(m.ctx, a, grad, first, second, step)


def _hc_post(m: Maker) -> Tensor:
    x, residual = m.leaf((67, 3)), m.leaf((67, 4, 3))
    return ops.dsv4_hc_post(m.ctx, x, residual, m.leaf((4, 3)), m.leaf((4, 4, 3)))


_CASES: dict[str, tuple[Build, float]] = {
    "ADD": (lambda m: ops.add(m.ctx, m.leaf((67, 5, 3)), m.leaf((67, 1, 3))), EXACT),
    "UNARY": (lambda m: ops.silu(m.ctx, m.leaf((300, 3), lo=-6.0, hi=6.0)), EXACT),
    "GLU": (
        lambda m: ops.glu_split(m.ctx, m.leaf((67, 3)), m.leaf((67, 3)), GluOp.SWIGLU),
        EXACT,
    ),
    "SCALE": (lambda m: ops.scale(m.ctx, m.leaf((67, 3)), 0.7), EXACT),
    "RMS_NORM": (lambda m: ops.rms_norm(m.ctx, m.leaf((577, 3)), 1e-5), EXACT),
    "SOFT_MAX": (_soft_max, EXACT),
    "ROPE": (_rope, EXACT),
    "FLASH_ATTN_EXT": (_flash_attn, SUMS),
    "GET_ROWS": (lambda m: ops.get_rows(m.ctx, m.leaf((67, 9)), m.ints((5,), 9)), EXACT),
    "SET_ROWS": (_set_rows, HALF),
    "CPY": (_cpy, HALF),
    "SET": (_set, EXACT),
    "CONT": (lambda m: ops.cont(m.ctx, m.laid("permuted", (33, 5, 4))), EXACT),
    "CONCAT": (lambda m: ops.concat(m.ctx, m.leaf((33, 2)), m.leaf((33, 5)), 1), EXACT),
    "MUL_MAT_ID": (_mul_mat_id, SUMS),
    "OUT_PROD": (lambda m: ops.out_prod(m.ctx, m.leaf((19, 33)), m.leaf((21, 33))), SUMS),
    "SUM_ROWS": (lambda m: ops.sum_rows(m.ctx, m.leaf((577, 3), lo=0.0)), SUMS),
    "SUM": (lambda m: ops.sum(m.ctx, m.leaf((577, 3), lo=0.0)), SUMS),
    "CUMSUM": (lambda m: ops.cumsum(m.ctx, m.leaf((577, 3), lo=0.0)), SUMS),
    "ARGMAX": (lambda m: ops.argmax(m.ctx, m.levels((577, 3))), 0.0),
    "ARGSORT": (lambda m: ops.argsort(m.ctx, m.levels((77, 3))), 0.0),
    "FILL": (lambda m: ops.fill(m.ctx, m.leaf((67, 3)), 0.25), EXACT),
    "IM2COL": (_im2col, EXACT),
    "CONV_2D": (_conv_2d, SUMS),
    "CONV_2D_DW": (_conv_2d_dw, SUMS),
    "POOL_2D": (
        lambda m: ops.pool_2d(m.ctx, m.leaf((11, 9, 3)), PoolOp.AVG, (3, 3), (2, 2)),
        SUMS,
    ),
    "UPSCALE": (lambda m: ops.upscale(m.ctx, m.leaf((11, 9, 3)), 2, ScaleMode.BILINEAR), EXACT),
    "PAD": (lambda m: ops.pad(m.ctx, m.leaf((33, 5)), (3, 2)), EXACT),
    "SSM_CONV": (lambda m: ops.ssm_conv(m.ctx, m.leaf((9, 33, 2)), m.leaf((4, 33))), SUMS),
    "SSM_SCAN": (_ssm_scan, SUMS),
    "GATED_LINEAR_ATTN": (_linear_attn, SUMS),
    "SOLVE_TRI": (_solve_tri, SUMS),
    "DSV4_HC_POST": (_hc_post, SUMS),
    "RMS_NORM_BACK": (
        lambda m: ops.rms_norm_back(m.ctx, m.leaf((577, 3)), m.leaf((577, 3)), 1e-5),
        SUMS,
    ),
    "CROSS_ENTROPY_LOSS": (
        lambda m: ops.cross_entropy_loss(m.ctx, m.leaf((33, 5)), m.leaf((33, 5), lo=0.0)),
        SUMS,
    ),
    "OPT_STEP_ADAMW": (_adamw, SUMS),
}
