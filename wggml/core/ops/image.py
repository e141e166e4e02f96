"""Padding, rolling, resizing, windows and relative positions."""

from __future__ import annotations

from collections.abc import Sequence

from wggml.core.context import Context, pad_shape
from wggml.core.opcodes import Op, ScaleFlag, ScaleMode
from wggml.core.ops._make import (
    make,
    make_like,
    pack,
    require,
    require_contiguous,
    require_positive,
    require_type,
)
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type


def pad(
    ctx: Context,
    a: Tensor,
    after: Sequence[int],
    before: Sequence[int] = (),
    *,
    circular: bool = False,
) -> Tensor:
    """`a` with `before[i]` and `after[i]` elements more at the ends of dimension i.

    They are zero, or with `circular` the values from the other end. Missing entries are 0.
    """
    lo = (*before, 0, 0, 0, 0)[:4]
    hi = (*after, 0, 0, 0, 0)[:4]
    ok = len(after) <= 4 and len(before) <= 4 and min(*lo, *hi) >= 0
    require(ok, Op.PAD, f"{list(before)} before and {list(after)} after must be sizes >= 0", a)
    ne = [n + p + q for n, p, q in zip(a.ne, lo, hi, strict=True)]
    pairs = [v for pq in zip(lo, hi, strict=True) for v in pq]
    params = pack(*pairs, int(circular))
    return make(ctx, Op.PAD, [a], a.type, (ne[0], ne[1], ne[2], ne[3]), params)


def pad_reflect_1d(ctx: Context, a: Tensor, p0: int, p1: int) -> Tensor:
    """Rows of F32 grown by `p0` mirrored values in front and `p1` behind; both under ne[0]."""
    op = Op.PAD_REFLECT_1D
    ok = 0 <= p0 < a.ne[0] and 0 <= p1 < a.ne[0]
    require(ok, op, f"paddings {p0} and {p1} must be from 0 to ne[0] - 1", a)
    require_contiguous(op, a=a)
    require_type(op, (Type.F32,), a=a)
    ne = (a.ne[0] + p0 + p1, a.ne[1], a.ne[2], a.ne[3])
    return make(ctx, op, [a], a.type, ne, pack(p0, p1))


def roll(ctx: Context, a: Tensor, shifts: Sequence[int]) -> Tensor:
    """Elements moved by `shifts[i]` along dimension i, coming in again at the other end.

    Each shift is smaller than its dimension; missing ones are 0.
    """
    s = (*shifts, 0, 0, 0, 0)[:4]
    ok = len(shifts) <= 4 and all(-n < x < n for x, n in zip(s, a.ne, strict=True))
    require(ok, Op.ROLL, f"shifts {list(shifts)} must be smaller than the sizes", a)
    require(a.nb[0] == TRAITS[a.type].type_size, Op.ROLL, "rows must be contiguous", a)
    return make_like(ctx, Op.ROLL, [a], a, pack(*s))


def upscale(ctx: Context, a: Tensor, factor: int, mode: ScaleMode = ScaleMode.NEAREST) -> Tensor:
    """ne[0] and ne[1] grown by `factor` (at least 2)."""
    require(factor > 1, Op.UPSCALE, f"the factor {factor} must be at least 2", a)
    ne = (a.ne[0] * factor, a.ne[1] * factor, a.ne[2], a.ne[3])
    return interpolate(ctx, a, ne, mode)


def interpolate(
    ctx: Context,
    a: Tensor,
    ne: Sequence[int],
    mode: ScaleMode = ScaleMode.NEAREST,
    *,
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """An F32 tensor resized to `ne`; `antialias` only with bilinear resizing."""
    op = Op.UPSCALE
    require_type(op, (Type.F32,), a=a)
    ok = not antialias or mode == ScaleMode.BILINEAR
    require(ok, op, "antialiasing needs the mode BILINEAR", a)
    bits = int(mode)
    bits |= int(ScaleFlag.ALIGN_CORNERS) if align_corners else 0
    bits |= int(ScaleFlag.ANTIALIAS) if antialias else 0
    return make(ctx, op, [a], a.type, pad_shape(ne), pack(bits))


def win_part(ctx: Context, a: Tensor, w: int) -> Tensor:
    """F32 images cut into windows of w x w, zeros where a window reaches past the edge.

    a: ne [c, width, height]. Result: ne [c, w, w, n_windows].
    """
    op = Op.WIN_PART
    require(a.ne[3] == 1, op, "ne[3] must be 1", a)
    require_type(op, (Type.F32,), a=a)
    require_positive(op, "the window size", w)
    nx, ny = -(-a.ne[1] // w), -(-a.ne[2] // w)
    return make(ctx, op, [a], Type.F32, (a.ne[0], w, w, nx * ny), pack(nx, ny, w))


def win_unpart(ctx: Context, a: Tensor, width: int, height: int, w: int) -> Tensor:
    """The image of ne [c, width, height] whose windows of w x w are in `a`: undoes `win_part`."""
    op = Op.WIN_UNPART
    require_type(op, (Type.F32,), a=a)
    require_positive(op, "sizes", width, height, w)
    return make(ctx, op, [a], Type.F32, (a.ne[0], width, height, 1), pack(w))


def get_rel_pos(ctx: Context, a: Tensor, qh: int, kh: int) -> Tensor:
    """Rows of `a` (ne [c, 2 n - 1]) by relative position: F16, ne [c, n, n], n = qh = kh."""
    op = Op.GET_REL_POS
    ok = qh == kh and 2 * qh - 1 == a.ne[1]
    require(ok, op, f"qh {qh} and kh {kh} must be one n with ne[1] = 2 n - 1", a)
    return make(ctx, op, [a], Type.F16, (a.ne[0], kh, qh, 1))


def add_rel_pos(
    ctx: Context, a: Tensor, pw: Tensor, ph: Tensor, *, inplace: bool = False
) -> Tensor:
    """Attention scores of an image plus biases by relative column and row.

    a: ne [n * n, w * h, heads]; pw, ph: F32, contiguous, ne [n, w, h, heads].
    """
    op = Op.ADD_REL_POS
    require(pw.same_shape(ph), op, "pw and ph must have one shape", pw, ph)
    require_contiguous(op, a=a, pw=pw, ph=ph)
    require_type(op, (Type.F32,), pw=pw, ph=ph)
    n, w, h, heads = pw.ne
    ok = heads == a.ne[2] and n * n == a.ne[0] and w * h == a.ne[1]
    require(ok, op, "a must be [n * n, w * h, heads] for pw [n, w, h, heads]", a, pw)
    return make_like(ctx, op, [a, pw, ph], a, pack(int(inplace)), inplace=inplace)
