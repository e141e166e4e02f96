"""The second operand of a matrix product and its result: how columns are found and read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu import texels
from wggml.backends.wgpu.ops._mm_variants import choose
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:

    from wggml.backends.wgpu.builder import Operand, PlanBuilder

X_TYPES = {Type.F32: "f32", Type.F16: "f16", Type.BF16: "bf16"}
# A copy to a texture costs a dispatch. It saves a slow load per row group and value, so it pays off
# for many weights (all products that read these columns together) and rows.
STAGE_MIN_ROWS = 128
STAGE_MIN_WEIGHTS = 400_000
LOOK_AHEAD = 24  # nodes: the projections of one layer's input lie closer together
Bound = tuple["Operand", dict[str, object], dict[str, int]]  # operand, constants, parameters
Box = tuple[int, int, int]  # columns, matrices, stacks


@dataclass(frozen=True, slots=True)
class Columns:
    """The second operand and the result as stacks of matrices of columns.

    Byte strides: `x1`, `x2`, `x3` from a column, matrix, stack of `x` to the next; `y1` .. of the
    result. `n` columns a matrix, `n2` matrices, `n3` stacks; matrix i2 of the result uses weights
    i2 // ratio2, stack i3 weights i3 // ratio3.
    """

    x: Tensor
    y: Tensor
    n: int
    n2: int
    n3: int
    ratio2: int
    ratio3: int
    x1: int
    x2: int
    x3: int
    y1: int
    y2: int
    y3: int

    def x_bytes(self, n: int, n2: int, n3: int) -> int:
        """Bytes from the first column of such a part to the end of the last."""
        column = self.x.ne[0] * TRAITS[self.x.type].type_size
        return column + (n - 1) * self.x1 + (n2 - 1) * self.x2 + (n3 - 1) * self.x3

    def y_bytes(self, rows: int, n: int, n2: int, n3: int) -> int:
        return rows * 4 + (n - 1) * self.y1 + (n2 - 1) * self.y2 + (n3 - 1) * self.y3


def columns_of(t: Tensor, w: Tensor, x: Tensor) -> Columns:
    """Matrices that share weights become columns of one where strides allow: a token's heads of
    one KV group, or a batch under one weight matrix."""
    ratio2, ratio3 = x.ne[2] // w.ne[2], x.ne[3] // w.ne[3]
    c = Columns(
        x, t, x.ne[1], x.ne[2], x.ne[3], ratio2, ratio3,
        x.nb[1], x.nb[2], x.nb[3], t.nb[1], t.nb[2], t.nb[3],
    )  # fmt: skip
    if ratio2 == 1 or (c.n > 1 and c.x2 != c.n * c.x1):
        return c
    x1, y1 = (c.x2, c.y2) if c.n == 1 else (c.x1, c.y1)
    return replace(
        c, n=c.n * ratio2, n2=c.n2 // ratio2, ratio2=1,
        x1=x1, x2=c.x2 * ratio2, y1=y1, y2=c.y2 * ratio2,
    )  # fmt: skip


def bind_x(b: PlanBuilder, c: Columns, start: int, box: Box, *, staged: bool) -> Bound:
    """`box` of columns from byte `start` of the second operand on. `staged`: through a texture,
    where its rows are whole vec4s."""
    bound = _bind_buffer(b, c, start, c.x_bytes(*box))
    if staged and c.x.ne[0] % 4 == 0:
        return _staged(b, c, start, box, bound) or bound
    return bound


def wants_staging(b: PlanBuilder, x: Tensor, variant: str, rows: int, columns: int) -> bool:
    """True when buffer loads are slow and the columns of `x` are read often enough: by this product
    of `rows` rows and by the next ones of the graph."""
    if not b.profile.texel_reads or not variant.startswith("rows"):
        return False
    if b.staged is not None and b.staged.x is x:
        return True
    ahead = b.upcoming[1:LOOK_AHEAD]
    rows += sum(t.ne[0] for t in ahead if t.op == Op.MUL_MAT and t.src[1] is x)
    return rows >= STAGE_MIN_ROWS and rows * x.ne[0] * columns >= STAGE_MIN_WEIGHTS


def _bind_buffer(b: PlanBuilder, c: Columns, start: int, nbytes: int) -> Bound:
    x = c.x
    assert x.data is not None
    strides = {"x_s1": c.x1, "x_s2": c.x2, "x_s3": c.x3}
    counts = {"x_s1": c.n, "x_s2": c.n2, "x_s3": c.n3}
    aligned = all(strides[s] % 16 == 0 for s in strides if counts[s] > 1)
    if x.type == Type.F32 and x.ne[0] % 4 == 0 and aligned and b.starts_on(x, 16, start):
        op = b.operand(x, "vec4<f32>", name="x", byte_offset=start, nbytes=nbytes)
        mode, size, rest = "vec4", 16, 0
    else:
        mode, size = X_TYPES[x.type], TRAITS[x.type].type_size
        rest = (x.data + start) % 4
        elem = "f32" if mode == "f32" else "u32"
        op = b.operand(x, elem, name="x", byte_offset=start - rest, nbytes=nbytes + rest)
    params = {name: stride // size for name, stride in strides.items()}
    return op, {"x_mode": mode}, {"x_byte": rest, **params}


# ---- staging -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Staged:
    """Columns of `x` that lie in a texture since node `since` was emitted. With `scale` they are
    what a norm takes in, times its weight, and a product applies the factor to its sums."""

    x: Tensor
    key: tuple[object, ...]
    view: object
    since: Tensor
    scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """1 / sqrt(mean + eps) of the values whose partial sums of squares lie behind the column, one
    in each of `parts` texels from texel `at` on."""

    at: int
    parts: int
    inv_n: float
    eps: float


def _staged(b: PlanBuilder, c: Columns, start: int, box: Box, bound: Bound) -> Bound | None:
    """Copy the columns to a texture, unless the last product's copy still holds them; None when
    they do not fit one."""
    quads = c.x.ne[0] // 4
    n, n2, n3 = box
    key = (start, box, c.x1, c.x2, c.x3)
    held: Staged | None = b.staged
    if held is None or held.x is not c.x or held.key != key or not _untouched(b, held):
        view = b.device.texel_scratch.view(quads * n * n2 * n3)
        if view is None:
            return None
        _copy(b, view, box, quads, bound)
        b.staged = held = Staged(c.x, key, view, b.upcoming[0])
    op = b.texture(held.view, texels.ACTIVATIONS, name="x")
    dense = {"x_s1": quads, "x_s2": quads * n, "x_s3": quads * n * n2}
    return op, {"x_mode": "texel"}, {"x_byte": 0, **dense}


def stage_ahead(b: PlanBuilder, x: Tensor, consumed: int) -> Operand | None:
    """The texture that products after the current node will read `x` from, for the kernel that
    makes `x` to write as well (vec4s in order, operand `out`): that saves their copy. None where
    they would not copy. `consumed`: nodes from the current one on that this kernel runs.

    Call it last, right before the kernel's dispatch: a copy staged earlier may be overwritten.
    """
    n = x.ne[1]
    plain = x.type == Type.F32 and x.is_contiguous() and x.ne[0] % 4 == 0 and x.ne[2:] == (1, 1)
    if not b.profile.texel_reads or not plain:
        return None
    ahead = b.upcoming[consumed : consumed + LOOK_AHEAD]
    rows = sum(t.ne[0] for t in ahead if t.op == Op.MUL_MAT and t.src[1] is x)
    if rows < STAGE_MIN_ROWS or rows * x.ne[0] * n < STAGE_MIN_WEIGHTS:
        return None
    if not choose(b.profile, n).name.startswith("rows"):
        return None
    view = b.device.texel_scratch.view(x.ne[0] // 4 * n)
    if view is None:
        return None
    key = (0, (n, 1, 1), x.nb[1], x.nb[2], x.nb[3])
    since = next(u for u in ahead if u not in b.done)
    b.staged = Staged(x, key, view, since)
    return b.texture(view, texels.ACTIVATIONS_OUT, name="out")


def stage_scaled(b: PlanBuilder, x: Tensor, scale: Scale) -> Operand | None:
    """The texture for a column of `x` that lacks a norm's factor, and for the squares behind it;
    None where products read no textures."""
    view = b.device.texel_scratch.view(scale.at + scale.parts) if b.profile.texel_reads else None
    if view is None:
        return None
    b.staged = Staged(x, (0, (1, 1, 1), *x.nb[1:]), view, b.upcoming[0], scale)
    return b.texture(view, texels.ACTIVATIONS_OUT, name="out")


def _copy(b: PlanBuilder, view: object, box: Box, quads: int, bound: Bound) -> None:
    op, consts, params = bound
    total = quads * math.prod(box)
    b.dispatch(
        "mul_mat/stage.wgsl",
        operands=[op, b.texture(view, texels.ACTIVATIONS_OUT, name="out")],
        consts=consts,
        params={
            "quads": quads,
            "n": box[0],
            "ne2": box[1],
            "total": total,
            "k": quads * 4,
            **params,
        },
        groups=math.ceil(total / 64),
        label=f"columns to a texture, {box[0] * box[1] * box[2]} of {quads * 4}",
    )


def _untouched(b: PlanBuilder, held: Staged) -> bool:
    """True when no node since the copy wrote to the memory of `held.x`."""
    x = held.x
    assert x.data is not None
    if held.scale is not None:
        return True  # memory never held them
    for t in b.since(held.since):
        assert t.data is not None
        if t.placed_in is x.placed_in and t.data < x.data + x.nbytes and x.data < t.data + t.nbytes:
            return False
    return True
