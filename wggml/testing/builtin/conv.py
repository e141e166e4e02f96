"""Convolutions, their unfolding and folding, pooling: nowhere with an all-zero answer."""

from __future__ import annotations

from collections.abc import Iterator

from wggml.core import ops
from wggml.core.opcodes import PoolOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.builtin.limits import EXACT, stored
from wggml.testing.builtin.maker import Maker, Shape
from wggml.testing.builtin.recipe import Recipe, each

F32, F16, BF16 = Type.F32, Type.F16, Type.BF16
# f32 sums where the reference may round operands to f16 as ggml does
ROUNDED = 1e-6
Pair = tuple[int, int]
Triple = tuple[int, int, int]
STRIDES: list[object] = [(2, 1), (1, 1), (3, 2)]
PADDINGS: list[object] = [(1, 3), (0, 0), (5, 4)]
DILATIONS: list[object] = [(1, 2), (1, 1), (2, 3)]


def recipes() -> Iterator[Recipe]:
    yield from _two_dimensions()
    yield from _other_dimensions()
    yield from _unfolding()
    yield from _pooling()


def _channels_inside(m: Maker, ne: Shape, type_: Type) -> Tensor:
    """[w, h, c, n] with channels innermost in memory."""
    w, h, c, n = ne
    return ops.permute(m.ctx, m.leaf((c, w, h, n), type_), 2, 0, 1, 3)


def _image(m: Maker, ne: Shape, type_: Type, inside: bool) -> Tensor:
    return _channels_inside(m, ne, type_) if inside else m.leaf(ne, type_)


# ---- two dimensions -----------------------------------------------------------------------------


def _two_dimensions() -> Iterator[Recipe]:
    kernels: list[object] = [(3, 2, 5, 6), (1, 1, 5, 9), (3, 3, 5, 1), (2, 5, 5, 33)]
    for types in ((F32, F32), (F16, F32), (BF16, F32), (F16, F16)):
        yield from each("CONV_2D", _conv_2d, max_err=ROUNDED, type_kernel=types[0], type=types[1],
                        kernel=kernels, ne=[(11, 9, 5, 2), (70, 5, 5, 1)], stride=STRIDES,
                        padding=PADDINGS, dilation=DILATIONS, cwhn=[False, True])  # fmt: skip
    for type_ in (F32, F16):
        yield from each("CONV_2D_DW", _depthwise, max_err=ROUNDED, type=type_, kernel=[(3, 2), (1, 1), (5, 5)],
                        ne=[(11, 9, 5, 2), (17, 8, 64, 1), (9, 8, 6, 3)], stride=STRIDES, padding=PADDINGS,
                        dilation=DILATIONS, cwhn=[False, True])  # fmt: skip
        yield from each("CONV_TRANSPOSE_2D", _transposed_2d, max_err=ROUNDED, type_kernel=type_,
                        kernel=[(3, 2, 4, 5), (2, 2, 4, 5), (1, 1, 3, 1)], ne=[(7, 6), (1, 1), (33, 3)],
                        n=[2, 1], stride=[2, 1, 3])  # fmt: skip


def _conv_2d(
    m: Maker, type_kernel: Type, type: Type, kernel: Shape, ne: Shape, stride: Pair,
    padding: Pair, dilation: Pair, cwhn: bool,
) -> Tensor:  # fmt: skip
    k, x = _image(m, kernel, type_kernel, cwhn), _image(m, ne, type, cwhn)
    return ops.conv_2d_direct(m.ctx, k, x, stride=stride, padding=padding, dilation=dilation)


def _depthwise(
    m: Maker, type: Type, kernel: Pair, ne: Shape, stride: Pair, padding: Pair, dilation: Pair,
    cwhn: bool,
) -> Tensor:  # fmt: skip
    c = ne[2]
    if cwhn:
        k = ops.permute(m.ctx, m.leaf((c, *kernel), type), 3, 0, 1, 2)
    else:
        k = m.leaf((*kernel, 1, c), type)
    x = _image(m, ne, type, cwhn)
    return ops.conv_2d_dw_direct(m.ctx, k, x, stride=stride, padding=padding, dilation=dilation)


def _transposed_2d(
    m: Maker, type_kernel: Type, kernel: Shape, ne: Pair, n: int, stride: int
) -> Tensor:
    x = m.leaf((*ne, kernel[3], n))
    return ops.conv_transpose_2d_p0(m.ctx, m.leaf(kernel, type_kernel), x, stride)


# ---- one and three dimensions -------------------------------------------------------------------


def _other_dimensions() -> Iterator[Recipe]:
    for type_ in (F32, F16):
        yield from each("CONV_3D", _conv_3d, max_err=ROUNDED, type_kernel=type_,
                        kernel=[(3, 2, 2), (1, 1, 1), (2, 3, 3)], channels=[3, 1], out=[5, 1, 17], n=[2, 1],
                        stride=[(2, 1, 1), (1, 1, 1)], padding=[(1, 0, 2), (0, 0, 0)],
                        dilation=[(1, 2, 1), (1, 1, 1)])  # fmt: skip
        yield from each("CONV_TRANSPOSE_1D", _transposed_1d, max_err=ROUNDED, type_kernel=type_,
                        k=[5, 1, 2], out=[4, 1, 33], channels=[3, 1, 64], t=[13, 1, 65],
                        stride=[2, 1, 3])  # fmt: skip
        yield from each("CONV_1D_DW", _depthwise_1d, max_err=ROUNDED, type_kernel=type_, k=[3, 4],
                        t=[31, 65], channels=[4, 33], stride=[2, 1], padding=[2, 0],
                        dilation=[2, 1])  # fmt: skip
    for type_ in (F32, F16, BF16):
        yield from each("COL2IM_1D", _col2im, max_err=max(stored(type_), EXACT), type=type_,
                        k=[5, 2, 4], channels=[3, 1], t=[6, 7, 1, 197], stride=[2, 3, 1],
                        padding=[1, 0])  # fmt: skip


def _conv_3d(
    m: Maker, type_kernel: Type, kernel: Triple, channels: int, out: int, n: int, stride: Triple,
    padding: Triple, dilation: Triple,
) -> Tensor:  # fmt: skip
    k, x = m.leaf((*kernel, channels * out), type_kernel), m.leaf((7, 6, 5, channels * n))
    return ops.conv_3d_direct(m.ctx, k, x, channels, n, out, stride=stride, padding=padding,
                              dilation=dilation)  # fmt: skip


def _transposed_1d(
    m: Maker, type_kernel: Type, k: int, out: int, channels: int, t: int, stride: int
) -> Tensor:
    kernel = m.leaf((k, out, channels), type_kernel)
    return ops.conv_transpose_1d(m.ctx, kernel, m.leaf((t, channels)), stride)


def _depthwise_1d(
    m: Maker, type_kernel: Type, k: int, t: int, channels: int, stride: int, padding: int,
    dilation: int,
) -> Tensor:  # fmt: skip
    kernel = m.leaf((k, 1, channels), type_kernel)
    return ops.conv_1d_dw(m.ctx, kernel, m.leaf((t, channels)), stride, padding, dilation)


def _col2im(
    m: Maker, type: Type, k: int, channels: int, t: int, stride: int, padding: int
) -> Tensor:
    padding = min(padding, ((t - 1) * stride + k - 1) // 2)
    return ops.col2im_1d(m.ctx, m.leaf((k * channels, t), type), stride, channels, padding)


# ---- unfolding ----------------------------------------------------------------------------------


def _unfolding() -> Iterator[Recipe]:
    for type_ in (F32, F16, BF16):
        limit = stored(type_) if type_ != F32 else 0.0
        yield from each("IM2COL", _im2col, max_err=limit, type=type_, kernel=[(3, 2, 3), (1, 1, 3), (3, 3, 3)],
                        ne=[(11, 9, 3, 2), (65, 3, 3, 1)], stride=STRIDES, padding=PADDINGS,
                        dilation=DILATIONS, cwhn=[False, True])  # fmt: skip
        yield from each("IM2COL", _im2col_1d, max_err=limit, type=type_, k=[4, 1, 3], t=[21, 65],
                        stride=[2, 1], padding=[3, 0], dilation=[2, 1])  # fmt: skip
        yield from each("IM2COL_3D", _im2col_3d, max_err=limit, type=type_, kernel=[(3, 2, 2), (1, 1, 1)],
                        channels=[3, 1], n=[2, 1], stride=[(2, 1, 1), (1, 1, 1)],
                        padding=[(1, 0, 2), (0, 0, 0)], dilation=[(1, 2, 1), (1, 1, 1)])  # fmt: skip
    yield from each("IM2COL_BACK", _im2col_back, max_err=EXACT, kernel=[(3, 2, 4, 5), (1, 1, 4, 2)],
                    stride=STRIDES, padding=PADDINGS, dilation=DILATIONS)  # fmt: skip
    yield from each("IM2COL_BACK", _im2col_back_1d, max_err=EXACT, k=[4, 1], stride=[2, 1], padding=[3, 0],
                    dilation=[2, 1])  # fmt: skip


def _im2col(
    m: Maker, type: Type, kernel: Shape, ne: Shape, stride: Pair, padding: Pair, dilation: Pair,
    cwhn: bool,
) -> Tensor:  # fmt: skip
    k, x = m.leaf(kernel, F16 if type == F16 else F32), _image(m, ne, F32, cwhn)
    return ops.im2col(m.ctx, k, x, stride=stride, padding=padding, dilation=dilation, type_=type)


def _im2col_1d(
    m: Maker, type: Type, k: int, t: int, stride: int, padding: int, dilation: int
) -> Tensor:
    kernel, x = m.leaf((k, 3)), m.leaf((t, 3, 2))
    return ops.im2col(m.ctx, kernel, x, stride=(stride, 0), padding=(padding, 0),
                      dilation=(dilation, 0), is_2d=False, type_=type)  # fmt: skip


def _im2col_3d(
    m: Maker, type: Type, kernel: Triple, channels: int, n: int, stride: Triple, padding: Triple,
    dilation: Triple,
) -> Tensor:  # fmt: skip
    k, x = m.leaf((*kernel, channels)), m.leaf((7, 6, 5, channels * n))
    return ops.im2col_3d(m.ctx, k, x, channels, stride=stride, padding=padding, dilation=dilation,
                         type_=type)  # fmt: skip


def _im2col_back(m: Maker, kernel: Shape, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    k, image = m.leaf(kernel), (11, 9, 4, 2)
    x = m.ctx.new_tensor(F32, image)
    ne = ops.im2col(m.ctx, k, x, stride=stride, padding=padding, dilation=dilation, type_=F32).ne
    return ops.im2col_back(m.ctx, m.leaf(ne), k, image, stride=stride, padding=padding,
                           dilation=dilation)  # fmt: skip


def _im2col_back_1d(m: Maker, k: int, stride: int, padding: int, dilation: int) -> Tensor:
    kernel, x = m.leaf((k, 3)), m.ctx.new_tensor(F32, (21, 3, 2))
    how = {"stride": (stride, 0), "padding": (padding, 0), "dilation": (dilation, 0)}
    ne = ops.im2col(m.ctx, kernel, x, **how, is_2d=False, type_=F32).ne  # type: ignore[arg-type]
    return ops.im2col_back(m.ctx, m.leaf(ne), kernel, (21, 3, 2, 1), **how, is_2d=False)  # type: ignore[arg-type]


# ---- pooling ------------------------------------------------------------------------------------


def _pooling() -> Iterator[Recipe]:
    kinds: list[object] = [PoolOp.MAX, PoolOp.AVG]
    for type_ in (F32, F16):
        for kind in kinds:
            yield from each("POOL_1D", _pool_1d, max_err=EXACT, type=type_, pool=kind,
                            ne=[(23, 3, 2), (128, 2), (3,)], k=[3, 1, 2], stride=[3, 1, 2],
                            padding=[1, 0])  # fmt: skip
            yield from each("POOL_2D", _pool_2d, max_err=EXACT, type=type_, pool=kind,
                            ne=[(13, 11, 3, 2), (65, 3), (3, 3, 1)], k=[(3, 2), (1, 1), (2, 2)],
                            stride=[(2, 3), (1, 1)], padding=[(1, 1), (0, 0)])  # fmt: skip
    for kind in kinds:
        yield from each("POOL_2D_BACK", _pool_2d_back, max_err=EXACT, pool=kind, k=[(3, 2), (2, 2)],
                        stride=[(2, 1), (1, 1), (4, 3)], padding=[(1, 1), (0, 0)])  # fmt: skip


def _pool_1d(
    m: Maker, type: Type, pool: PoolOp, ne: Shape, k: int, stride: int, padding: int
) -> Tensor:
    return ops.pool_1d(m.ctx, m.leaf(ne, type), pool, k, stride, padding)


def _pool_2d(
    m: Maker, type: Type, pool: PoolOp, ne: Shape, k: Pair, stride: Pair, padding: Pair
) -> Tensor:
    return ops.pool_2d(m.ctx, m.leaf(ne, type), pool, k, stride, padding)


def _pool_2d_back(m: Maker, pool: PoolOp, k: Pair, stride: Pair, padding: Pair) -> Tensor:
    x = m.levels((13, 11, 3, 2))
    ne = ops.pool_2d(m.ctx, x, pool, k, stride, padding).ne
    return ops.pool_2d_back(m.ctx, m.leaf(ne), x, pool, k, stride, padding)
