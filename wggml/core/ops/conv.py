"""Convolutions: as matrix products over unfolded images, direct, depthwise and transposed.

Pairs and triples of strides, paddings and dilations name the innermost dimension first: (width,
height[, depth]). Kernels are [kw, kh, in, out], images [w, h, channels, n].
"""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import (
    is_matrix,
    make,
    pack,
    require,
    require_contiguous,
    require_positive,
    require_type,
)
from wggml.core.ops.matmul import mul_mat
from wggml.core.ops.shape import cont, permute, reshape
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS, Type

Pair = tuple[int, int]
Triple = tuple[int, int, int]


def _out_size(n: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Positions of a kernel along a dimension; the quotient is cut towards zero, as C does."""
    span = n + 2 * padding - dilation * (kernel - 1) - 1
    return (span // stride if span >= 0 else -(-span // stride)) + 1


def _check(op: Op, a: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
    require(min(stride) > 0, op, f"strides {list(stride)} must be at least 1", a)
    require(min(dilation) > 0, op, f"dilations {list(dilation)} must be at least 1", a)


def _unfolded_type(kernel: Tensor) -> Type:
    return Type.F32 if kernel.type == Type.BF16 else Type.F16


# ---- unfolding ----------------------------------------------------------------------------------


def im2col(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    is_2d: bool = True,
    type_: Type = Type.F16,
) -> Tensor:
    """The values under each kernel position as rows; of `kernel` only the shape counts.

    2d: kernel [kw, kh, c, ...], x [w, h, c, n] -> [c * kh * kw, ow, oh, n]. 1d: kernel [kw, c,
    ...], x [w, c, n] -> [c * kw, ow, n]; the second entries of the pairs are kept as given.
    """
    op = Op.IM2COL
    require(stride[0] > 0 and (stride[1] > 0 or not is_2d), op, "strides must be at least 1", x)
    if is_2d:
        require(kernel.ne[2] == x.ne[2], op, "channels (ne[2]) must agree", kernel, x)
    else:
        ok = kernel.ne[1] == x.ne[1] and x.ne[3] == 1
        require(ok, op, "channels (ne[1]) must agree and ne[3] of x be 1", kernel, x)
    ow = _out_size(x.ne[0], kernel.ne[0], stride[0], padding[0], dilation[0])
    oh = _out_size(x.ne[1], kernel.ne[1], stride[1], padding[1], dilation[1]) if is_2d else 1
    require(ow > 0 and oh > 0, op, "the image is smaller than the kernel", kernel, x)
    params = pack(*stride, *padding, *dilation, int(is_2d))
    k = kernel.ne
    ne = (k[2] * k[1] * k[0], ow, oh, x.ne[3]) if is_2d else (k[1] * k[0], ow, x.ne[2], 1)
    return make(ctx, op, [kernel, x], type_, ne, params)


def im2col_back(
    ctx: Context,
    grad: Tensor,
    kernel: Tensor,
    ne: Shape4,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    is_2d: bool = True,
) -> Tensor:
    """Gradient of `im2col` for an image of shape `ne`: F32."""
    params = pack(*stride, *padding, *dilation, int(is_2d))
    return make(ctx, Op.IM2COL_BACK, [grad, kernel], Type.F32, ne, params)


def im2col_3d(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    channels: int,
    *,
    stride: Triple = (1, 1, 1),
    padding: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
    type_: Type = Type.F16,
) -> Tensor:
    """`im2col` of volumes.

    kernel: [kw, kh, kd, channels * out]; x: [w, h, d, channels * n].
    Result: [channels * kd * kh * kw, ow, oh, od * n].
    """
    op = Op.IM2COL_3D
    require_positive(op, "channels", channels)
    _check(op, x, stride, dilation)
    o = _out_3d(kernel, x, stride, padding, dilation)
    require(min(o) > 0, op, "the volume is smaller than the kernel", kernel, x)
    k = kernel.ne
    ne = (k[0] * k[1] * k[2] * channels, o[0], o[1], o[2] * (x.ne[3] // channels))
    return make(ctx, op, [kernel, x], type_, ne, pack(*stride, *padding, *dilation, channels))


def _out_3d(kernel: Tensor, x: Tensor, stride: Triple, padding: Triple, dilation: Triple) -> Triple:
    k = kernel.ne
    o = [_out_size(x.ne[i], k[i], stride[i], padding[i], dilation[i]) for i in range(3)]
    return (o[0], o[1], o[2])


def col2im_1d(ctx: Context, a: Tensor, stride: int, out_channels: int, padding: int = 0) -> Tensor:
    """Columns of a transposed convolution added up where they overlap.

    a: ne [k * out_channels, t], F32, F16 or BF16, contiguous. Result: the type of `a`, ne
    [(t - 1) * stride + k - 2 * padding, out_channels].
    """
    op = Op.COL2IM_1D
    require(is_matrix(a), op, "the operand must be a matrix", a)
    require_contiguous(op, a=a)
    require_type(op, (Type.F32, Type.F16, Type.BF16), a=a)
    require_positive(op, "stride and out_channels", stride, out_channels)
    k, rest = divmod(a.ne[0], out_channels)
    require(k > 0 and rest == 0, op, f"ne[0] must be a multiple of {out_channels} channels", a)
    t_out = (a.ne[1] - 1) * stride + k - 2 * padding
    ok = padding >= 0 and t_out > 0
    require(ok, op, f"the padding {padding} must be >= 0 and leave something of {t_out}", a)
    params = pack(stride, out_channels, padding)
    return make(ctx, op, [a], a.type, (t_out, out_channels, 1, 1), params)


# ---- convolutions as matrix products ------------------------------------------------------------


def conv_1d(
    ctx: Context, kernel: Tensor, x: Tensor, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """kernel: [k, in, out]; x: [t, in, n]. Result: F32 [t', out, n]; `im2col`, then `mul_mat`."""
    col = im2col(
        ctx, kernel, x, stride=(stride, 0), padding=(padding, 0), dilation=(dilation, 0),
        is_2d=False, type_=_unfolded_type(kernel),
    )  # fmt: skip
    c, k = col.ne, kernel.ne
    rows = reshape(ctx, col, (c[0], c[2] * c[1]))
    y = mul_mat(ctx, rows, reshape(ctx, kernel, (k[0] * k[1], k[2])))
    return reshape(ctx, y, (c[1], k[2], c[2]))


def conv_1d_dw(
    ctx: Context, kernel: Tensor, x: Tensor, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """Depthwise: kernel [k, 1, channels]; x [t, channels, 1]. Result: F32 [t', channels, 1]."""
    planes = reshape(ctx, x, (x.ne[0], 1, x.ne[1], x.ne[2]))
    col = im2col(
        ctx, kernel, planes, stride=(stride, 0), padding=(padding, 0), dilation=(dilation, 0),
        is_2d=False, type_=_unfolded_type(kernel),
    )  # fmt: skip
    y = mul_mat(ctx, col, kernel)
    return reshape(ctx, y, (y.ne[0], y.ne[2], 1))


def conv_2d(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """kernel: [kw, kh, in, out]; x: [w, h, in, n]. Result: F32 [ow, oh, out, n]; `im2col`, then
    `mul_mat`."""
    col = im2col(
        ctx, kernel, x, stride=stride, padding=padding, dilation=dilation,
        type_=_unfolded_type(kernel),
    )  # fmt: skip
    c, k = col.ne, kernel.ne
    rows = reshape(ctx, col, (c[0], c[3] * c[2] * c[1]))
    y = mul_mat(ctx, rows, reshape(ctx, kernel, (k[0] * k[1] * k[2], k[3])))
    y = reshape(ctx, y, (c[1], c[2], c[3], k[3]))
    return cont(ctx, permute(ctx, y, 0, 1, 3, 2))


def conv_2d_dw(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """Depthwise: kernel [kw, kh, 1, channels]; x [w, h, channels, n]. Result: F32 [ow, oh,
    channels, n]; `im2col`, then `mul_mat`."""
    k, n = kernel.ne, x.ne
    planes = reshape(ctx, kernel, (k[0], k[1], 1, k[2] * k[3]))
    col = im2col(
        ctx, planes, reshape(ctx, x, (n[0], n[1], 1, n[2] * n[3])), stride=stride,
        padding=padding, dilation=dilation, type_=_unfolded_type(kernel),
    )  # fmt: skip
    c = col.ne
    rows = reshape(ctx, col, (c[0], c[2] * c[1], n[2], n[3]))
    y = mul_mat(ctx, reshape(ctx, planes, (k[0] * k[1], 1, k[2] * k[3], 1)), rows)
    return reshape(ctx, y, (c[1], c[2], n[2], n[3]))


def conv_3d(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    channels: int,
    *,
    stride: Triple = (1, 1, 1),
    padding: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
) -> Tensor:
    """kernel: [kw, kh, kd, channels * out]; x: [w, h, d, channels * n]. Result: F32 [ow, oh, od,
    out * n]; `im2col_3d`, then `mul_mat`."""
    col = im2col_3d(
        ctx, kernel, x, channels, stride=stride, padding=padding, dilation=dilation,
        type_=_unfolded_type(kernel),
    )  # fmt: skip
    c, k = col.ne, kernel.ne
    out, n = k[3] // channels, x.ne[3] // channels
    rows = reshape(ctx, col, (c[0], c[3] * c[2] * c[1]))
    y = mul_mat(ctx, rows, reshape(ctx, kernel, (k[0] * k[1] * k[2] * channels, out)))
    depth = c[3] // n
    y = cont(ctx, permute(ctx, reshape(ctx, y, (c[1] * c[2], depth, n, out)), 0, 1, 3, 2))
    return reshape(ctx, y, (c[1], c[2], depth, out * n))


# ---- direct ops ---------------------------------------------------------------------------------


def conv_2d_direct(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """`conv_2d` in one op; the result has the type of `x`."""
    op = Op.CONV_2D
    require(kernel.ne[2] == x.ne[2], op, "channels (ne[2]) must agree", kernel, x)
    ne = (*_out_2d(op, kernel, x, stride, padding, dilation), kernel.ne[3], x.ne[3])
    return make(ctx, op, [kernel, x], x.type, ne, pack(*stride, *padding, *dilation))


def conv_2d_dw_direct(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """`conv_2d_dw` in one op: kernel [kw, kh, 1, channels]; the result has the type of `x`, and
    keeps the channels innermost in memory when `x` does."""
    op = Op.CONV_2D_DW
    ok = kernel.ne[2] == 1 and kernel.ne[3] == x.ne[2]
    require(ok, op, "the kernel must be [kw, kh, 1, channels]", kernel, x)
    ne = (*_out_2d(op, kernel, x, stride, padding, dilation), x.ne[2], x.ne[3])
    t = make(ctx, op, [kernel, x], x.type, ne, pack(*stride, *padding, *dilation))
    size = TRAITS[x.type].type_size
    if x.nb[0] > x.nb[2] and x.nb[1] > x.nb[0] and x.nb[2] == size:
        require(TRAITS[x.type].blck_size == 1, op, "block types cannot keep channels innermost", x)
        t.nb = (ne[2] * size, ne[0] * ne[2] * size, size, t.nb[3])
    return t


def _out_2d(op: Op, kernel: Tensor, x: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> Pair:
    _check(op, x, stride, dilation)
    k, n = kernel.ne, x.ne
    ow = _out_size(n[0], k[0], stride[0], padding[0], dilation[0])
    oh = _out_size(n[1], k[1], stride[1], padding[1], dilation[1])
    require(ow >= 0 and oh >= 0, op, "the image is smaller than the kernel", kernel, x)
    return ow, oh


def conv_3d_direct(
    ctx: Context,
    kernel: Tensor,
    x: Tensor,
    channels: int,
    n: int,
    out: int,
    *,
    stride: Triple = (1, 1, 1),
    padding: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
) -> Tensor:
    """`conv_3d` in one op: kernel [kw, kh, kd, channels * out]; x [w, h, d, channels * n]."""
    op = Op.CONV_3D
    ok = kernel.ne[3] == channels * out and x.ne[3] == channels * n
    rule = f"ne[3] must be {channels} channels times {out} outputs and times {n} volumes"
    require(ok, op, rule, kernel, x)
    _check(op, x, stride, dilation)
    o = _out_3d(kernel, x, stride, padding, dilation)
    require(min(o) >= 0, op, "the volume is smaller than the kernel", kernel, x)
    params = pack(*stride, *padding, *dilation, channels, n, out)
    return make(ctx, op, [kernel, x], Type.F32, (*o, out * n), params)


def conv_transpose_1d(ctx: Context, kernel: Tensor, x: Tensor, stride: int = 1) -> Tensor:
    """kernel: [k, out, in]; x: [t, in]. Result: F32 [(t - 1) * stride + k, out].

    ggml defines the op without padding and dilation only.
    """
    op = Op.CONV_TRANSPOSE_1D
    require(is_matrix(x), op, "the input must be a matrix", x)
    ok = kernel.ne[2] == x.ne[1] and kernel.ne[3] == 1
    require(ok, op, "the kernel must be [k, out, in] for an input [t, in]", kernel, x)
    require_positive(op, "the stride", stride)
    ne = ((x.ne[0] - 1) * stride + kernel.ne[0], kernel.ne[1], x.ne[2], 1)
    return make(ctx, op, [kernel, x], Type.F32, ne, pack(stride, 0, 1))


def conv_transpose_2d_p0(ctx: Context, kernel: Tensor, x: Tensor, stride: int = 1) -> Tensor:
    """kernel: [kw, kh, out, in]; x: [w, h, in, n]. Result: F32 [(w - 1) * stride + kw, (h - 1) *
    stride + kh, out, n]; no padding."""
    op = Op.CONV_TRANSPOSE_2D
    require(kernel.ne[3] == x.ne[2], op, "input channels must agree", kernel, x)
    require_positive(op, "the stride", stride)
    ow = (x.ne[0] - 1) * stride + kernel.ne[0]
    oh = (x.ne[1] - 1) * stride + kernel.ne[1]
    return make(ctx, op, [kernel, x], Type.F32, (ow, oh, kernel.ne[2], x.ne[3]), pack(stride))
