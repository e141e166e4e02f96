"""GET_ROWS and SET_ROWS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._blocks import WRITABLE, encode, read_plain
from wggml.backends.wgpu.ops._mm_weights import view_weights
from wggml.backends.wgpu.ops._operands import FLOATS, source, typed, why_not_strides, workgroup
from wggml.backends.wgpu.ops._walk import Dim, Walk, finish, strides_of
from wggml.backends.wgpu.packing import FIELDS
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.backends.wgpu.texels import is_in_texels
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

CHUNK = 32  # values a lane decodes at once


# ---- GET_ROWS -------------------------------------------------------------------------------


def _why_not_get(profile: DeviceProfile, t: Tensor) -> str | None:
    a, ids = source(t, 0), source(t, 1)
    if a.type not in FIELDS and a.type not in (*FLOATS, Type.I32):
        return f"no row look-up for {type_name(a.type)}"
    if not a.is_contiguous_rows() or not t.is_contiguous_rows():
        return "rows that are not contiguous"
    limit = _limit(profile)
    if max(ids.nbytes, t.nbytes) > limit:
        return f"ids or result exceed one binding of {profile.max_binding} bytes"
    if a.nbytes > limit and (a.ne[2] * a.ne[3] > 1 or a.nb[1] > limit):
        return f"a table of {a.nbytes} bytes in several planes; a binding has {limit}"
    return why_not_strides(t)


def _limit(profile: DeviceProfile) -> int:
    """Bytes of a window: a bound range grows by the alignment of its start and end."""
    return profile.max_binding - profile.min_storage_offset_alignment - 32


def _windows(profile: DeviceProfile, a: Tensor, row_bytes: int) -> Iterator[tuple[int, int]]:
    """(first row, end) of parts of `a` that fit one binding."""
    rows = a.ne[1]
    step = rows if a.nbytes <= _limit(profile) else max(_limit(profile) // row_bytes, 1)
    for first in range(0, rows, step):
        yield first, min(first + step, rows)


def _emit_get(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    if a.type in FIELDS or (is_in_texels(a) and view_weights(b, a).mode == "texel"):
        _get_blocks(b, t)
    else:
        _get_plain(b, t)


def _row_walk(t: Tensor, a: Tensor, ids: Tensor) -> Walk:
    """Loops over the rows `t`: `a` is stepped through within a row and along its planes, `ids`
    along rows. Dimensions are kept apart, since no two of these agree."""
    dst, src, idx = strides_of(t), strides_of(a), strides_of(ids)
    return Walk(
        [
            Dim(
                t.ne[i],
                {
                    "src0": src[i] if i != 1 and a.ne[i] > 1 else 0,
                    "ids": idx[i - 1] if i and ids.ne[i - 1] > 1 else 0,
                    "dst": dst[i],
                },
                {"src0": 0, "ids": _period(ids, t, i), "dst": 0},
            )
            for i in range(4)
            if t.ne[i] > 1 or i == 0
        ],
        ("src0", "ids", "dst"),
    )


def _period(ids: Tensor, t: Tensor, i: int) -> int:
    return ids.ne[i - 1] if i > 1 and ids.ne[i - 1] not in (1, t.ne[i]) else 0


def _get_plain(b: PlanBuilder, t: Tensor) -> None:
    a, ids = source(t, 0), source(t, 1)
    w = _row_walk(t, a, ids)
    quads = (
        a.type == Type.F32 and t.ne[0] % 4 == 0 and b.starts_on(a, 16) and b.starts_on(t, 16)
        and not any(nb % 16 for nb in (*a.nb[1:], *t.nb[1:]))
    )  # fmt: skip
    unit = 4 if quads else 1
    _scale(w, unit, ("src0", "dst"))
    groups = finish(w, unit, workgroup(b.profile))
    elem = "vec4<f32>" if quads else "f32"
    for first, end in _windows(b.profile, a, a.nb[1]):
        offset, nbytes = first * a.nb[1], a.nbytes - (a.ne[1] - (end - first)) * a.nb[1]
        src0, extra = typed(
            b, a, "src0", byte_offset=offset, nbytes=nbytes, elem=elem if quads else None
        )
        b.dispatch(
            "rows/get_rows.wgsl",
            operands=[
                src0, b.operand(ids, "u32", name="ids"),
                b.operand(t, elem if t.type == Type.F32 else "u32", name="dst", write=True),
            ],
            consts={**w.consts, "src0_type": type_name(a.type)},
            params={
                **w.params, **extra, "row0": first, "row1": end,
                "src0_row": strides_of(a)[1] // unit,
            },
            groups=groups,
            label=f"get_rows {type_name(a.type)}",
        )  # fmt: skip


def _scale(w: Walk, unit: int, names: tuple[str, ...]) -> None:
    """Strides of outer dimensions in units."""
    for d in w.dims[1:]:
        for name in names:
            d.stride[name] //= unit


def _get_blocks(b: PlanBuilder, t: Tensor) -> None:
    a, ids = source(t, 0), source(t, 1)
    view = view_weights(b, a)
    s1, s2, s3 = view.strides
    quads = b.starts_on(t, 16) and not any(nb % 16 for nb in t.nb[1:])
    vec = 4 if quads else 1
    chunks = t.ne[0] // CHUNK
    units = chunks * t.n_rows
    wg = workgroup(b.profile)
    i, y = strides_of(ids), strides_of(t)
    for first, end in _windows(b.profile, a, s1 * view.bytes_per_unit):
        count = view.units(end - first, a.ne[2], a.ne[3])
        operands, params = view.bind(b, first * s1, count)
        b.dispatch(
            "rows/get_rows_quant.wgsl",
            operands=[
                *operands, b.operand(ids, "u32", name="ids"),
                b.operand(t, "vec4<f32>" if quads else "f32", name="dst", write=True),
            ],
            consts={**view.consts, "wg": wg, "vec": vec},
            params={
                **params, "chunks": chunks, "n_units": units, "n1": t.ne[1], "n2": t.ne[2],
                "ids_s0": i[0], "ids_s1": i[1], "ids_s2": i[2],
                "dst_s1": y[1] // vec, "dst_s2": y[2] // vec, "dst_s3": y[3] // vec,
                "w_s1": s1, "w_s2": s2, "w_s3": s3, "row0": first, "row1": end,
            },
            groups=-(-units // wg),
            label=f"get_rows {type_name(a.type)} ({view.mode})",
        )  # fmt: skip


# ---- SET_ROWS -------------------------------------------------------------------------------


def _why_not_set(profile: DeviceProfile, t: Tensor) -> str | None:
    rows, ids = source(t, 0), source(t, 1)
    if rows.type not in FLOATS or t.type not in FLOATS | WRITABLE:
        return f"rows of type {type_name(rows.type)} into {type_name(t.type)}"
    if ids.type not in (Type.I32, Type.I64):
        return f"ids of type {type_name(ids.type)}"
    return why_not_strides(t)


def _emit_set(b: PlanBuilder, t: Tensor) -> None:
    rows, ids = source(t, 0), source(t, 1)
    if t.type in WRITABLE:
        label = f"set_rows {type_name(rows.type)} into {type_name(t.type)}"
        encode(b, t, read_plain(b, rows, "src0"), rows.ne, label, ids)
        return
    w = _set_walk(t, rows, ids)
    row = strides_of(t)[1]
    even = row % 2 == 0 and b.starts_on(t, 4)
    quads = (
        rows.type == t.type == Type.F32 and row % 4 == 0 and w.is_dense("src0", 4)
        and w.is_dense("dst", 4) and b.starts_on(rows, 16) and b.starts_on(t, 16)
    )  # fmt: skip
    size = TRAITS[t.type].type_size
    store = "whole" if size == 4 else "pair" if even and w.is_dense("dst", 2) else "atomic"
    unit = 4 if quads else 2 if store == "pair" else 1
    if quads:
        _scale(w, 4, ("src0", "dst"))
        row //= 4
    groups = finish(w, unit, workgroup(b.profile))
    elem = "vec4<f32>" if quads else None
    src0, extra0 = typed(b, rows, "src0", elem=elem)
    dst, extra1 = typed(b, t, "dst", write=True, atomic=store == "atomic", elem=elem)
    b.dispatch(
        "rows/set_rows.wgsl",
        operands=[src0, b.operand(ids, "u32", name="ids"), dst],
        consts={
            **w.consts, "src0_type": type_name(rows.type), "dst_type": type_name(t.type),
            "store": store, "vtype": "vec4<f32>" if quads else "f32",
            "id_words": 2 if ids.type == Type.I64 else 1,
        },
        params={**w.params, **extra0, **extra1, "dst_row": row, "dst_rows": t.ne[1]},
        groups=groups,
        label=f"set_rows {type_name(rows.type)} into {type_name(t.type)}",
    )  # fmt: skip


def _set_walk(t: Tensor, rows: Tensor, ids: Tensor) -> Walk:
    dst, src, idx = strides_of(t), strides_of(rows), strides_of(ids)
    dims: list[Dim] = []
    for i in range(4):
        if rows.ne[i] == 1 and (dims or i < 3):
            continue
        stride = {
            "src0": src[i],
            "ids": idx[i - 1] if i and ids.ne[i - 1] > 1 else 0,
            "dst": dst[i] if i != 1 else 0,
        }
        dims.append(Dim(rows.ne[i], stride, {"src0": 0, "ids": _period(ids, rows, i), "dst": 0}))
    return Walk(dims, ("src0", "ids", "dst"))


FAMILY: dict[Op, OpImpl] = {
    Op.GET_ROWS: OpImpl(_why_not_get, _emit_get, windows=True),
    Op.SET_ROWS: OpImpl(_why_not_set, _emit_set),
}
