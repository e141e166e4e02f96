"""CPY, CONT, DUP, REPEAT and CONCAT: bit-for-bit copies between layouts, and conversions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._blocks import convert, why_not_convert
from wggml.backends.wgpu.ops._operands import bind_elementwise, source, workgroup
from wggml.backends.wgpu.ops._walk import Walk, finish, walk
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Shape4, Tensor, contiguous_nb
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

CONVERTS = frozenset({Type.F32, Type.F16, Type.BF16, Type.I32})


@dataclass(frozen=True, slots=True)
class Place:
    """Part of a tensor's memory under a shape: sizes and byte strides of elements (blocks for
    block formats), `offset` bytes from the tensor's start. With `held` it lies at the start of that
    scratch memory instead and has only the tensor's type."""

    t: Tensor
    ne: Shape4
    nb: Shape4
    offset: int = 0
    held: Operand | None = None

    @property
    def at(self) -> int:
        """Byte number of its first element in its memory."""
        if self.held is not None:
            return 0
        assert self.t.data is not None
        return self.t.data + self.offset


def _place(t: Tensor) -> Place:
    blocks = t.ne[0] // TRAITS[t.type].blck_size
    return Place(t, (blocks, t.ne[1], t.ne[2], t.ne[3]), t.nb)


def _reshaped(p: Place, ne: Shape4) -> Place:
    """A contiguous place under another shape."""
    size = TRAITS[p.t.type].type_size
    nb1 = ne[0] * size
    nb = (size, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2])
    return Place(p.t, ne, nb, p.offset, p.held)


def _width(*places: Place) -> int:
    """Bytes that can be moved as one: the element, or for odd sizes (block formats, i64) the widest
    of 4, 2, 1 that divides size, strides and offsets."""
    size = TRAITS[places[0].t.type].type_size
    values = [size]
    for p in places:
        values += [*p.nb, p.at]
    return next(w for w in (4, 2, 1) if size % w == 0 and not any(v % w for v in values))


def copy(b: PlanBuilder, dst: Place, src: Place, label: str) -> None:
    """dst = src; `src` repeats where it is smaller."""
    size = TRAITS[dst.t.type].type_size
    width = _width(dst, src)
    n = size // width
    w = _fine_walk(dst, src, n, width)
    if width < 4 and all(
        w.is_dense(k, 4 // width) and _starts(b, p, 4) for k, p in _both(dst, src)
    ):
        w, width = _coarser(w, 4 // width), 4
    quads = width == 4 and all(w.is_dense(k, 4) and _starts(b, p, 16) for k, p in _both(dst, src))
    if quads:
        w = _coarser(w, 4)
    pair = width == 2 and w.is_dense("dst", 2) and _starts(b, dst, 4)
    store = "whole" if width == 4 else "pair" if pair else "atomic"
    groups = finish(w, 2 if pair else 1, workgroup(b.profile))
    # A source that shares words with an atomically written result is read atomically too.
    shared = store == "atomic" and (src.held or src.t.placed_in) is (dst.held or dst.t.placed_in)
    elem = "vec4<u32>" if quads else "u32"
    operands, params = [], dict(w.params)
    for name, p in (("src0", src), ("dst", dst)):
        atomic = store == "atomic" and (name == "dst" or shared)
        op, phase = _operand(b, p, name, "atomic<u32>" if atomic else elem)
        operands.append(op)
        if width < 4:
            params[f"{name}_h"] = phase // width
    b.dispatch(
        "shape/copy.wgsl",
        operands=operands,
        consts={
            **w.consts, "store": store, "width": width, "src0_atomic": shared,
            "vtype": "vec4<u32>" if quads else "u32",
        },
        params=params,
        groups=groups,
        label=label,
    )  # fmt: skip


def _both(dst: Place, src: Place) -> tuple[tuple[str, Place], tuple[str, Place]]:
    return ("dst", dst), ("src0", src)


def _starts(b: PlanBuilder, p: Place, nbytes: int) -> bool:
    return p.held is not None or b.starts_on(p.t, nbytes, p.offset)


def _fine_walk(dst: Place, src: Place, n: int, width: int) -> Walk:
    """Loops over units of `width` bytes, `n` of them an element."""

    def strides(p: Place) -> Shape4:
        return (p.nb[0] // width, p.nb[1] // width, p.nb[2] // width, p.nb[3] // width)

    w = walk(dst.ne, {"src0": (src.ne, strides(src)), "dst": (dst.ne, strides(dst))})
    if n > 1:
        w = _with_inner(w, n)
    return w


def _with_inner(w: Walk, n: int) -> Walk:
    """Prepend the loop over an element's units, merged into the next where that is contiguous."""
    from wggml.backends.wgpu.ops._walk import Dim

    first = w.dims[0]
    if first.n == 1:
        first.stride.update(dict.fromkeys(first.stride, n))
    if all(s == n for s in first.stride.values()) and not any(first.period.values()):
        inner = Dim(first.n * n, dict.fromkeys(first.stride, 1), dict(first.period))
        return Walk([inner, *w.dims[1:]], w.names)
    inner = Dim(n, dict.fromkeys(first.stride, 1), dict.fromkeys(first.period, 0))
    return Walk([inner, *w.dims], w.names)


def _coarser(w: Walk, unit: int) -> Walk:
    """The same loops in units of `unit` neighbours."""
    for i, d in enumerate(w.dims):
        for name in w.names:
            if i:
                d.stride[name] //= unit
            else:
                d.period[name] //= unit
    w.dims[0].n //= unit
    return w


def _operand(b: PlanBuilder, p: Place, name: str, elem: str) -> tuple[Operand, int]:
    """The place's bytes and how far into its first word it begins."""
    if p.held is not None:
        return replace(p.held, name=name, elem=elem, write=name == "dst"), 0
    phase = p.at % 4
    size = TRAITS[p.t.type].type_size
    span = size + sum((n - 1) * s for n, s in zip(p.ne, p.nb, strict=True))
    op = b.operand(
        p.t, elem, name=name, write=name == "dst", byte_offset=p.offset - phase,
        nbytes=span + phase,
    )  # fmt: skip
    return op, phase


# ---- CPY, CONT, DUP -------------------------------------------------------------------------


def _why_not_copy(profile: DeviceProfile, t: Tensor) -> str | None:
    a = source(t, 0)
    if _has_blocks(a, t):
        return _why_not_blocks(profile, a, t)
    if a.type != t.type and not {a.type, t.type} <= CONVERTS:
        return f"conversion of {type_name(a.type)} to {type_name(t.type)}"
    if a.type != t.type and any(nb % TRAITS[s.type].type_size for s in (a, t) for nb in s.nb):
        return "strides that are not whole elements"
    strided = a.ne != t.ne and not (a.is_contiguous() or t.is_contiguous())
    if strided and a.type != t.type:
        return "a conversion between two strided layouts of different shape"
    if a.type == t.type and _n_loops(a, t) > 4:
        return "blocks strided in four dimensions"
    return None


def _has_blocks(a: Tensor, t: Tensor) -> bool:
    return a.type != t.type and max(TRAITS[a.type].blck_size, TRAITS[t.type].blck_size) > 1


def _why_not_blocks(profile: DeviceProfile, a: Tensor, t: Tensor) -> str | None:
    if a.ne != t.ne:
        shaped, other = (a, t) if a.is_contiguous() else (t, a)
        if not shaped.is_contiguous() or other.ne[0] % TRAITS[shaped.type].blck_size:
            return f"{type_name(a.type)} {a.ne} to {type_name(t.type)} {t.ne} across blocks"
    return why_not_convert(profile, a, t)


def _n_loops(a: Tensor, t: Tensor) -> int:
    """Loops a copy of block-format elements may need: one more where blocks are strided."""
    blocks = TRAITS[t.type].type_size > 4 and not (
        a.is_contiguous_rows() and t.is_contiguous_rows()
    )
    return max(a.n_dims, t.n_dims) + blocks


def _emit_copy(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    if a.type == t.type:
        _copy_bits(b, t, a, f"{t.op.name.lower()} {type_name(t.type)}")
        return
    if a.ne != t.ne:
        a, t = (_like(a, t.ne), t) if a.is_contiguous() else (a, _like(t, a.ne))
    if _has_blocks(a, t):
        convert(b, t, a, f"{type_name(a.type)} to {type_name(t.type)}")
        return
    bound = bind_elementwise(b, t, {"src0": a})
    bound.consts.pop("src0_vtype")
    b.dispatch(
        "elementwise/unary.wgsl",
        operands=bound.operands,
        consts={**bound.consts, "function": "x"},
        params=bound.params,
        groups=bound.groups,
        label=f"{type_name(a.type)} to {type_name(t.type)}",
    )


def _copy_bits(b: PlanBuilder, t: Tensor, a: Tensor, label: str) -> None:
    """t = a, of one type. Of two strided layouts of different shape `a` is first put in order."""
    src, dst = _place(a), _place(t)
    if src.ne != dst.ne and not (a.is_contiguous() or t.is_contiguous()):
        held = b.scratch(math.prod(src.ne) * TRAITS[a.type].type_size, "u32", name="dst")
        flat = _reshaped(Place(a, src.ne, src.nb, held=held), src.ne)
        copy(b, flat, src, f"{label}, values in order")
        src = _reshaped(flat, dst.ne)
    elif src.ne != dst.ne and a.is_contiguous():
        src = _reshaped(src, dst.ne)
    elif src.ne != dst.ne:
        dst = _reshaped(dst, src.ne)
    copy(b, dst, src, label)


def _like(t: Tensor, ne: Shape4) -> Tensor:
    """Contiguous `t` under another shape."""
    view = Tensor(t.type, ne, contiguous_nb(t.type, ne), view_src=t.view_src or t)
    view.buffer, view.data, view.name = t.buffer, t.data, t.name
    view.view_offs = t.view_offs
    return view


# ---- REPEAT, CONCAT -------------------------------------------------------------------------


def _why_not_same(profile: DeviceProfile, t: Tensor) -> str | None:
    for s in t.src:
        if s is not None and s.type != t.type:
            return f"operands of type {type_name(s.type)} and {type_name(t.type)}"
        if s is not None and _n_loops(s, t) > 4:
            return "blocks strided in four dimensions"
    if t.op == Op.REPEAT and TRAITS[t.type].type_size not in (2, 4):
        return f"values of type {type_name(t.type)}"
    return None


def _emit_repeat(b: PlanBuilder, t: Tensor) -> None:
    copy(b, _place(t), _place(source(t, 0)), "repeat")


def _emit_concat(b: PlanBuilder, t: Tensor) -> None:
    dim = t.param_i32(0)
    whole = _place(t)
    at = 0
    for i in (0, 1):
        src = _place(source(t, i))
        part = Place(t, src.ne, whole.nb, at * whole.nb[dim])
        if 0 not in src.ne:
            copy(b, part, src, f"concat part {i}")
        at += src.ne[dim]


FAMILY: dict[Op, OpImpl] = {
    Op.CPY: OpImpl(_why_not_copy, _emit_copy),
    Op.CONT: OpImpl(_why_not_copy, _emit_copy),
    Op.DUP: OpImpl(_why_not_copy, _emit_copy),
    Op.REPEAT: OpImpl(_why_not_same, _emit_repeat),
    Op.CONCAT: OpImpl(_why_not_same, _emit_concat),
}
