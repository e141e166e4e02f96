"""Views, copies and rearrangements."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from wggml.core.context import Context, pad_shape
from wggml.core.opcodes import Op
from wggml.core.ops._make import divides, make, make_like, pack, require
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type


def view(
    ctx: Context,
    a: Tensor,
    ne: Sequence[int],
    strides: Sequence[int] = (),
    offset: int = 0,
) -> Tensor:
    """A window of `a`, `offset` bytes from its start.

    `strides` are nb[1], nb[2], nb[3] in bytes as far as given; the rest follow without gaps.
    """
    shape = pad_shape(ne)
    traits = TRAITS[a.type]
    nb = [traits.type_size, *strides]
    if len(nb) == 1:
        nb.append(traits.type_size * (shape[0] // traits.blck_size))
    while len(nb) < 4:
        nb.append(nb[-1] * shape[len(nb) - 1])
    t = ctx.new_view(a, a.type, shape, (nb[0], nb[1], nb[2], nb[3]), offset)
    t.set_name(f"{a.name} (view)")
    t.op = Op.VIEW
    t.src = [a]
    t.op_params = struct.pack("<Q", offset).ljust(64, b"\0")
    return t


def reshape(ctx: Context, a: Tensor, ne: Sequence[int]) -> Tensor:
    """The same elements of a contiguous tensor under another shape."""
    shape = pad_shape(ne)
    n = shape[0] * shape[1] * shape[2] * shape[3]
    require(a.is_contiguous(), Op.RESHAPE, "the operand must be contiguous", a)
    require(n == a.n_elements, Op.RESHAPE, f"{list(shape)} must have as many elements", a)
    t = ctx.new_view(a, a.type, shape)
    t.set_name(f"{a.name} (reshaped)")
    t.op = Op.RESHAPE
    t.src = [a]
    return t


def permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor:
    """Dimension i of `a` becomes dimension `axis_i` of the result."""
    axes = (axis0, axis1, axis2, axis3)
    require(sorted(axes) == [0, 1, 2, 3], Op.PERMUTE, f"axes {axes} must be 0..3 in any order", a)
    ne, nb = [0] * 4, [0] * 4
    for i, axis in enumerate(axes):
        ne[axis], nb[axis] = a.ne[i], a.nb[i]
    t = ctx.new_view(a, a.type, (ne[0], ne[1], ne[2], ne[3]), (nb[0], nb[1], nb[2], nb[3]))
    t.set_name(f"{a.name} (permuted)")
    t.op = Op.PERMUTE
    t.src = [a]
    t.op_params = pack(*axes)
    return t


def transpose(ctx: Context, a: Tensor) -> Tensor:
    """Dimensions 0 and 1 exchanged."""
    ne, nb = a.ne, a.nb
    t = ctx.new_view(a, a.type, (ne[1], ne[0], ne[2], ne[3]), (nb[1], nb[0], nb[2], nb[3]))
    t.set_name(f"{a.name} (transposed)")
    t.op = Op.TRANSPOSE
    t.src = [a]
    return t


def cont(ctx: Context, a: Tensor, ne: Sequence[int] | None = None) -> Tensor:
    """A contiguous copy, under the shape `ne` if given."""
    shape = a.ne if ne is None else pad_shape(ne)
    n = shape[0] * shape[1] * shape[2] * shape[3]
    require(n == a.n_elements, Op.CONT, f"{list(shape)} must have as many elements", a)
    return make(ctx, Op.CONT, [a], a.type, shape).set_name(f"{a.name} (cont)")


def dup(ctx: Context, a: Tensor, *, inplace: bool = False) -> Tensor:
    """A contiguous copy."""
    return make_like(ctx, Op.DUP, [a], a, inplace=inplace)


def cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Copy `a` into `b`'s memory, converting the type; the result is a view of `b`."""
    require(a.n_elements == b.n_elements, Op.CPY, "element counts must agree", a, b)
    t = ctx.view_tensor(b)
    t.set_name(f"{b.name} (copy of {a.name})" if b.name else f"{a.name} (copy)")
    t.op = Op.CPY
    t.src = [a, b]
    return t


def cast(ctx: Context, a: Tensor, type_: Type) -> Tensor:
    """A contiguous copy in another type (ggml: a CPY whose destination is the result itself)."""
    t = make(ctx, Op.CPY, [], type_, a.ne).set_name(f"{a.name} (copy)")
    t.src = [a, t]
    return t


def repeat(ctx: Context, a: Tensor, like: Tensor | Sequence[int]) -> Tensor:
    """`a` tiled to the shape of `like` (a tensor or sizes)."""
    ne = like.ne if isinstance(like, Tensor) else pad_shape(like)
    ok = a.is_empty() or all(divides(n, m) for n, m in zip(a.ne, ne, strict=True))
    require(ok, Op.REPEAT, f"sizes must divide the target's {list(ne)}", a)
    return make(ctx, Op.REPEAT, [a], a.type, ne)


def repeat_back(ctx: Context, a: Tensor, like: Tensor | Sequence[int]) -> Tensor:
    """The tiles of `a` summed to the shape of `like` (a tensor or sizes): undoes `repeat`."""
    ne = like.ne if isinstance(like, Tensor) else pad_shape(like)
    ok = all(divides(n, m) for n, m in zip(ne, a.ne, strict=True))
    require(ok, Op.REPEAT_BACK, f"the target's sizes {list(ne)} must divide the operand's", a)
    return make(ctx, Op.REPEAT_BACK, [a], a.type, ne)


def concat(ctx: Context, a: Tensor, b: Tensor, dim: int) -> Tensor:
    """`a` then `b` along dimension `dim`; other sizes and the type agree."""
    ok = a.type == b.type and all(a.ne[i] == b.ne[i] for i in range(4) if i != dim)
    require(ok and 0 <= dim < 4, Op.CONCAT, f"all but dimension {dim} must agree", a, b)
    ne = [*a.ne]
    ne[dim] += b.ne[dim]
    return make(ctx, Op.CONCAT, [a, b], a.type, (ne[0], ne[1], ne[2], ne[3]), pack(dim))
