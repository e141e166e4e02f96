"""Recorded nodes made again: for each op, our constructor called with what the record says.

Arguments that a result's shape follows from are never taken from the result; what a caller names
freely (the shape of a view, the size of a window) is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import (
    Flag,
    GluOp,
    Op,
    OpHint,
    PoolOp,
    Prec,
    RopeMode,
    ScaleFlag,
    ScaleMode,
    SortOrder,
    TriType,
    UnaryOp,
)
from wggml.core.tensor import Tensor


@dataclass(slots=True)
class Call:
    """One recorded node `t`, with its operands and a context to make it again in."""

    ctx: Context
    t: Tensor

    @property
    def inplace(self) -> bool:
        return self.t.view_src is not None

    def src(self, i: int) -> Tensor:
        s = self.opt(i)
        assert s is not None, f"source {i} is absent"
        return s

    def opt(self, i: int) -> Tensor | None:
        return self.t.src[i] if i < len(self.t.src) else None

    def i(self, k: int) -> int:
        return self.t.param_i32(k)

    def f(self, k: int) -> float:
        return self.t.param_f32(k)

    def ints(self, begin: int, n: int) -> tuple[int, ...]:
        return tuple(self.i(k) for k in range(begin, begin + n))


Remake = Callable[[Call], Tensor]


def _like(make: Callable[..., Tensor], n: int = 1) -> Remake:
    """`make(ctx, src0, ..., inplace=)`."""
    return lambda c: make(c.ctx, *(c.src(i) for i in range(n)), inplace=c.inplace)


def _plain(make: Callable[..., Tensor], n: int) -> Remake:
    """`make(ctx, src0, ..., src n-1)`."""
    return lambda c: make(c.ctx, *(c.src(i) for i in range(n)))


def _eps(make: Callable[..., Tensor]) -> Remake:
    return lambda c: make(c.ctx, c.src(0), c.f(0), inplace=c.inplace)


def _add(c: Call) -> Tensor:
    a, b = c.src(0), c.src(1)
    if c.t.type != a.type:
        return ops.add_cast(c.ctx, a, b, c.t.type)
    return ops.add(c.ctx, a, b, inplace=c.inplace)


def _block(make: Callable[..., Tensor]) -> Remake:
    def remake(c: Call) -> Tensor:
        assert bool(c.i(4)) == c.inplace
        nb = c.ints(0, 3)
        return make(c.ctx, c.src(0), c.src(1), nb, c.i(3), inplace=c.inplace)

    return remake


def _inverse_softplus(y: float) -> float:
    return y if y > 20 else float(np.log(np.expm1(np.float64(y))))


def _unary(c: Call) -> Tensor:
    kind = c.t.unary_op
    if kind != UnaryOp.XIELU:
        return ops.unary(c.ctx, c.src(0), kind, inplace=c.inplace)
    # the record holds float32 sums with softplus; the alphas behind them are short decimals
    beta = c.f(3)
    alpha_n = round(_inverse_softplus(c.f(1) - beta), 4)
    alpha_p = round(_inverse_softplus(c.f(2)), 4)
    return ops.xielu(c.ctx, c.src(0), alpha_n, alpha_p, beta, c.f(4))


def _glu(c: Call) -> Tensor:
    kind, a, b = c.t.glu_op, c.src(0), c.opt(1)
    if kind == GluOp.SWIGLU_OAI:
        return ops.swiglu_oai(c.ctx, a, b, alpha=c.f(2), limit=c.f(3))
    if kind == GluOp.SWIGLU_CLAMP:
        return ops.swiglu_clamp(c.ctx, a, b, limit=c.f(3))
    if b is not None:
        return ops.glu_split(c.ctx, a, b, kind)
    return ops.glu(c.ctx, a, kind, swapped=bool(c.i(1)))


def _cpy(c: Call) -> Tensor:
    if c.src(1) is c.t:
        return ops.cast(c.ctx, c.src(0), c.t.type)
    return ops.cpy(c.ctx, c.src(0), c.src(1))


def _view(c: Call) -> Tensor:
    (offset,) = struct.unpack_from("<Q", c.t.op_params)
    return ops.view(c.ctx, c.src(0), c.t.ne, c.t.nb[1:], offset)


def _set_rows(c: Call) -> Tensor:
    return ops.set_rows(c.ctx, c.src(2), c.src(0), c.src(1))


def _soft_max(c: Call) -> Tensor:
    return ops.soft_max(
        c.ctx, c.src(0), c.opt(1), c.f(0), c.f(1), sinks=c.opt(2), inplace=c.inplace
    )


def _rope_params(c: Call) -> ops.RopeParams:
    p = ops.RopeParams.of(c.t)
    assert p.mode in set(RopeMode)
    return p


def _rope(c: Call) -> Tensor:
    return ops.rope(
        c.ctx, c.src(0), c.src(1), _rope_params(c), freq_factors=c.opt(2), inplace=c.inplace
    )


def _rope_back(c: Call) -> Tensor:
    return ops.rope_back(c.ctx, c.src(0), c.src(1), _rope_params(c), freq_factors=c.opt(2))


def _flash_attn(c: Call) -> Tensor:
    return ops.flash_attn_ext(
        c.ctx, c.src(0), c.src(1), c.src(2), c.opt(3), c.f(0), max_bias=c.f(1),
        logit_softcap=c.f(2), sinks=c.opt(4), prec=Prec(c.i(3)), n_kv_max=c.i(4),
    )  # fmt: skip


def _mul_mat(c: Call) -> Tensor:
    return ops.mul_mat(
        c.ctx, c.src(0), c.src(1), prec=Prec(c.i(0)), hint=OpHint(c.i(1)), src1_prec=Prec(c.i(3))
    )


def _mul_mat_id(c: Call) -> Tensor:
    return ops.mul_mat_id(
        c.ctx, c.src(0), c.src(1), c.src(2), prec=Prec(c.i(0)), src1_prec=Prec(c.i(3))
    )


def _geometry(c: Call, n: int) -> dict[str, tuple[int, ...]]:
    return {
        "stride": c.ints(0, n), "padding": c.ints(n, n), "dilation": c.ints(2 * n, n),
    }  # fmt: skip


def _im2col(c: Call) -> Tensor:
    return ops.im2col(
        c.ctx, c.src(0), c.src(1), **_geometry(c, 2), is_2d=bool(c.i(6)), type_=c.t.type
    )


def _im2col_back(c: Call) -> Tensor:
    return ops.im2col_back(c.ctx, c.src(0), c.src(1), c.t.ne, **_geometry(c, 2), is_2d=bool(c.i(6)))


def _im2col_3d(c: Call) -> Tensor:
    return ops.im2col_3d(c.ctx, c.src(0), c.src(1), c.i(9), **_geometry(c, 3), type_=c.t.type)


def _conv_3d(c: Call) -> Tensor:
    return ops.conv_3d_direct(c.ctx, c.src(0), c.src(1), *c.ints(9, 3), **_geometry(c, 3))


def _conv_transpose_1d(c: Call) -> Tensor:
    assert c.ints(1, 2) == (0, 1)
    return ops.conv_transpose_1d(c.ctx, c.src(0), c.src(1), c.i(0))


def _pool_2d(c: Call) -> Tensor:
    return ops.pool_2d(
        c.ctx, c.src(0), PoolOp(c.i(0)), c.ints(1, 2), c.ints(3, 2), c.ints(5, 2)
    )  # fmt: skip


def _pool_2d_back(c: Call) -> Tensor:
    return ops.pool_2d_back(
        c.ctx, c.src(0), c.src(1), PoolOp(c.i(0)), c.ints(1, 2), c.ints(3, 2), c.ints(5, 2)
    )


def _upscale(c: Call) -> Tensor:
    bits = c.i(0)
    return ops.interpolate(
        c.ctx, c.src(0), c.t.ne, ScaleMode(bits & 0xFF),
        align_corners=bool(bits & ScaleFlag.ALIGN_CORNERS),
        antialias=bool(bits & ScaleFlag.ANTIALIAS),
    )  # fmt: skip


def _pad(c: Call) -> Tensor:
    p = c.ints(0, 8)
    return ops.pad(c.ctx, c.src(0), p[1::2], p[::2], circular=bool(c.i(8)))


def _win_part(c: Call) -> Tensor:
    return ops.win_part(c.ctx, c.src(0), c.i(2))


def _win_unpart(c: Call) -> Tensor:
    return ops.win_unpart(c.ctx, c.src(0), c.t.ne[1], c.t.ne[2], c.i(0))


def _group_norm(c: Call) -> Tensor:
    return ops.group_norm(c.ctx, c.src(0), c.i(0), c.f(1), inplace=c.inplace)


def _diag_mask(make: Callable[..., Tensor]) -> Remake:
    return lambda c: make(c.ctx, c.src(0), c.i(0), inplace=c.inplace)


def _hc_pre(c: Call) -> Tensor:
    if c.i(1):
        return ops.dsv4_hc_pre_gated(c.ctx, c.src(0), c.src(1), c.f(0))
    assert c.f(0) == 1.0
    return ops.dsv4_hc_pre(c.ctx, c.src(0), c.src(1))


# Every op a graph node can have. FLASH_ATTN_BACK has no constructor: ggml's aborts.
REMAKE: dict[Op, Remake] = {
    Op.DUP: _like(ops.dup),
    Op.ADD: _add,
    Op.ADD_ID: _plain(ops.add_id, 3),
    Op.ADD1: _like(ops.add1, 2),
    Op.ACC: _block(ops.acc),
    Op.SUB: _like(ops.sub, 2),
    Op.MUL: _like(ops.mul, 2),
    Op.DIV: _like(ops.div, 2),
    Op.SQR: _like(ops.sqr),
    Op.SQRT: _like(ops.sqrt),
    Op.LOG: _like(ops.log),
    Op.SIN: _like(ops.sin),
    Op.COS: _like(ops.cos),
    Op.SUM: _plain(ops.sum, 1),
    Op.SUM_ROWS: _plain(ops.sum_rows, 1),
    Op.CUMSUM: _plain(ops.cumsum, 1),
    Op.MEAN: _plain(ops.mean, 1),
    Op.ARGMAX: _plain(ops.argmax, 1),
    Op.COUNT_EQUAL: _plain(ops.count_equal, 2),
    Op.REPEAT: lambda c: ops.repeat(c.ctx, c.src(0), c.t.ne),
    Op.REPEAT_BACK: lambda c: ops.repeat_back(c.ctx, c.src(0), c.t),
    Op.CONCAT: lambda c: ops.concat(c.ctx, c.src(0), c.src(1), c.i(0)),
    Op.SILU_BACK: _plain(ops.silu_back, 2),
    Op.NORM: _eps(ops.norm),
    Op.RMS_NORM: _eps(ops.rms_norm),
    Op.RMS_NORM_BACK: lambda c: ops.rms_norm_back(c.ctx, c.src(0), c.src(1), c.f(0)),
    Op.GROUP_NORM: _group_norm,
    Op.L2_NORM: _eps(ops.l2_norm),
    Op.MUL_MAT: _mul_mat,
    Op.MUL_MAT_ID: _mul_mat_id,
    Op.OUT_PROD: _plain(ops.out_prod, 2),
    Op.SCALE: lambda c: ops.scale_bias(c.ctx, c.src(0), c.f(0), c.f(1), inplace=c.inplace),
    Op.SET: _block(ops.set),
    Op.CPY: _cpy,
    Op.CONT: lambda c: ops.cont(c.ctx, c.src(0), c.t.ne),
    Op.RESHAPE: lambda c: ops.reshape(c.ctx, c.src(0), c.t.ne),
    Op.VIEW: _view,
    Op.PERMUTE: lambda c: ops.permute(c.ctx, c.src(0), *c.ints(0, 4)),
    Op.TRANSPOSE: _plain(ops.transpose, 1),
    Op.GET_ROWS: _plain(ops.get_rows, 2),
    Op.GET_ROWS_BACK: lambda c: ops.get_rows_back(c.ctx, c.src(0), c.src(1), c.t),
    Op.SET_ROWS: _set_rows,
    Op.DIAG: _plain(ops.diag, 1),
    Op.DIAG_MASK_INF: _diag_mask(ops.diag_mask_inf),
    Op.DIAG_MASK_ZERO: _diag_mask(ops.diag_mask_zero),
    Op.SOFT_MAX: _soft_max,
    Op.SOFT_MAX_BACK: lambda c: ops.soft_max_back(
        c.ctx, c.src(0), c.src(1), c.f(0), c.f(1), inplace=c.inplace
    ),
    Op.ROPE: _rope,
    Op.ROPE_BACK: _rope_back,
    Op.CLAMP: lambda c: ops.clamp(c.ctx, c.src(0), c.f(0), c.f(1), inplace=c.inplace),
    Op.CONV_TRANSPOSE_1D: _conv_transpose_1d,
    Op.IM2COL: _im2col,
    Op.IM2COL_BACK: _im2col_back,
    Op.IM2COL_3D: _im2col_3d,
    Op.COL2IM_1D: lambda c: ops.col2im_1d(c.ctx, c.src(0), *c.ints(0, 3)),
    Op.CONV_2D: lambda c: ops.conv_2d_direct(c.ctx, c.src(0), c.src(1), **_geometry(c, 2)),
    Op.CONV_3D: _conv_3d,
    Op.CONV_2D_DW: lambda c: ops.conv_2d_dw_direct(c.ctx, c.src(0), c.src(1), **_geometry(c, 2)),
    Op.CONV_TRANSPOSE_2D: lambda c: ops.conv_transpose_2d_p0(c.ctx, c.src(0), c.src(1), c.i(0)),
    Op.POOL_1D: lambda c: ops.pool_1d(c.ctx, c.src(0), PoolOp(c.i(0)), *c.ints(1, 3)),
    Op.POOL_2D: _pool_2d,
    Op.POOL_2D_BACK: _pool_2d_back,
    Op.UPSCALE: _upscale,
    Op.PAD: _pad,
    Op.PAD_REFLECT_1D: lambda c: ops.pad_reflect_1d(c.ctx, c.src(0), c.i(0), c.i(1)),
    Op.ROLL: lambda c: ops.roll(c.ctx, c.src(0), c.ints(0, 4)),
    Op.ARANGE: lambda c: ops.arange(c.ctx, c.f(0), c.f(1), c.f(2)),
    Op.TIMESTEP_EMBEDDING: lambda c: ops.timestep_embedding(c.ctx, c.src(0), c.i(0), c.i(1)),
    Op.ARGSORT: lambda c: ops.argsort(c.ctx, c.src(0), SortOrder(c.i(0))),
    Op.TOP_K: lambda c: ops.top_k(c.ctx, c.src(0), c.t.ne[0]),
    Op.LEAKY_RELU: lambda c: ops.leaky_relu(c.ctx, c.src(0), c.f(0), inplace=c.inplace),
    Op.TRI: lambda c: ops.tri(c.ctx, c.src(0), TriType(c.i(0))),
    Op.FILL: lambda c: ops.fill(c.ctx, c.src(0), c.f(0), inplace=c.inplace),
    Op.FLASH_ATTN_EXT: _flash_attn,
    Op.SSM_CONV: _plain(ops.ssm_conv, 2),
    Op.SSM_SCAN: lambda c: ops.ssm_scan(c.ctx, *(c.src(i) for i in range(7)), c.i(0)),
    Op.WIN_PART: _win_part,
    Op.WIN_UNPART: _win_unpart,
    Op.GET_REL_POS: lambda c: ops.get_rel_pos(c.ctx, c.src(0), c.t.ne[2], c.t.ne[1]),
    Op.ADD_REL_POS: _like(ops.add_rel_pos, 3),
    Op.RWKV_WKV6: _plain(ops.rwkv_wkv6, 6),
    Op.GATED_LINEAR_ATTN: lambda c: ops.gated_linear_attn(
        c.ctx, *(c.src(i) for i in range(5)), c.f(0)
    ),
    Op.RWKV_WKV7: _plain(ops.rwkv_wkv7, 7),
    Op.SOLVE_TRI: _plain(ops.solve_tri, 2),
    Op.GATED_DELTA_NET: lambda c: ops.gated_delta_net(c.ctx, *(c.src(i) for i in range(6)), c.i(0)),
    Op.LIGHTNING_INDEXER: _plain(ops.lightning_indexer, 4),
    Op.DSV4_HC_COMB: lambda c: ops.dsv4_hc_comb(
        c.ctx, c.src(0), c.src(1), c.src(2), c.f(0), c.i(1)
    ),
    Op.DSV4_HC_PRE: _hc_pre,
    Op.DSV4_HC_POST: lambda c: ops.dsv4_hc_post(c.ctx, c.src(0), c.src(1), c.src(2), c.opt(3)),
    Op.UNARY: _unary,
    Op.CROSS_ENTROPY_LOSS: _plain(ops.cross_entropy_loss, 2),
    Op.CROSS_ENTROPY_LOSS_BACK: _plain(ops.cross_entropy_loss_back, 3),
    Op.OPT_STEP_ADAMW: _plain(ops.opt_step_adamw, 5),
    Op.OPT_STEP_SGD: _plain(ops.opt_step_sgd, 3),
    Op.GLU: _glu,
}


def _sources(t: Tensor, itself: Tensor) -> list[object]:
    """Sources without absent ones at the end; a reference to the node itself reads "self"."""
    out: list[object] = ["self" if s is itself else s for s in t.src]
    while out and out[-1] is None:
        out.pop()
    return out


def differences(made: Tensor, recorded: Tensor) -> list[str]:
    """Fields in which a remade node differs from the recorded one."""
    hidden = ~int(Flag.COMPUTE)  # set when a graph is built, not by the constructor
    fields = {
        "op": (made.op, recorded.op),
        "type": (made.type, recorded.type),
        "ne": (made.ne, recorded.ne),
        "nb": (made.nb, recorded.nb),
        "op_params": (made.op_params.hex(), recorded.op_params.hex()),
        "flags": (made.flags & hidden, recorded.flags & hidden),
        "src": (_sources(made, made), _sources(recorded, recorded)),
        "view_src": (made.view_src, recorded.view_src),
        "view_offs": (made.view_offs, recorded.view_offs),
    }
    return [f"{k}: {a} instead of {b}" for k, (a, b) in fields.items() if a != b]
