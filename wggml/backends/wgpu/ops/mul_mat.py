"""Matrix products: MUL_MAT and MUL_MAT_ID.

The result of MUL_MAT is split into parts only where an operand does not fit one binding: by
matrices, by rows of the weights, by columns. Each part is one dispatch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops import _mm_epilogue as epilogue
from wggml.backends.wgpu.ops._mm_epilogue import LONG_LOADS, Epilogue
from wggml.backends.wgpu.ops._mm_inputs import (
    X_TYPES,
    Columns,
    bind_x,
    columns_of,
    wants_staging,
)
from wggml.backends.wgpu.ops._mm_variants import Variant, choose
from wggml.backends.wgpu.ops._mm_weights import PLAIN, WeightView, view_weights
from wggml.backends.wgpu.packing import FIELDS
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, type_name
from wggml.errors import UnsupportedOpError

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

CHUNK = 32  # weights that a kernel takes at a time along a row
MAX_INDEX = 2**32


@dataclass(frozen=True, slots=True)
class Part:
    """Rows, columns and matrices of the result that one dispatch makes."""

    row: int
    rows: int
    col: int
    cols: int
    i2: int
    n2: int
    i3: int
    n3: int


# ---- what is supported ---------------------------------------------------------------------------


def _why_not_operands(profile: DeviceProfile, w: Tensor, x: Tensor) -> str | None:
    if w.type not in FIELDS and w.type not in PLAIN:
        return f"no matrix product kernel for {type_name(w.type)} weights"
    if x.type not in X_TYPES:
        return f"the second operand is {type_name(x.type)}; f32, f16 or bf16 are read"
    for t in (w, x):
        if not t.is_contiguous_rows():
            return f"rows of {t.name!r} have gaps between their elements (nb {t.nb})"
        if any(nb % TRAITS[t.type].type_size for nb in t.nb[1:]):
            return f"rows of {t.name!r} are not whole elements apart (nb {t.nb})"
    if profile.is_dawn and (w.view_src or w) is (x.view_src or x):  # see binding.py
        return "both operands lie in one tensor, which Dawn shows as one type of element only"
    limit = profile.max_binding - _slack(profile)
    row = w.ne[0] // TRAITS[w.type].blck_size * TRAITS[w.type].type_size
    if max(row, x.ne[0] * 4, w.ne[1] * 4) > limit:
        return f"a row or column exceeds the {profile.max_binding} bytes of one binding"
    return None


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    w, x = _sources(t)
    return _why_not_operands(profile, w, x)


def _why_not_id(profile: DeviceProfile, t: Tensor) -> str | None:
    w, x = _sources(t)
    ids = t.src[2]
    assert ids is not None
    limit = profile.max_binding - _slack(profile)
    if max(w.nb[2], x.nbytes, t.nbytes, ids.nbytes) > limit:
        return f"an expert, the input or the result exceeds one binding of {profile.max_binding}"
    return _why_not_operands(profile, w, x)


def _sources(t: Tensor) -> tuple[Tensor, Tensor]:
    w, x = t.src[0], t.src[1]
    assert w is not None and x is not None
    return w, x


def _slack(profile: DeviceProfile) -> int:
    """Bytes a binding may grow by: its start is aligned down, its end up."""
    return profile.min_storage_offset_alignment + 32


# ---- MUL_MAT -------------------------------------------------------------------------------------


def _emit(b: PlanBuilder, t: Tensor) -> None:
    w, x = _sources(t)
    view = view_weights(b, w)
    columns = columns_of(t, w, x)
    variant = choose(b.profile, columns.n, long_loads=view.mode in LONG_LOADS)
    parts = list(_parts(b.profile, view, columns))
    extra = epilogue.find(b, t, view) if len(parts) == 1 else None
    for part in parts:
        _dispatch(b, variant, view, columns, part, extra)


def _parts(profile: DeviceProfile, w: WeightView, c: Columns) -> Iterator[Part]:
    """One part when everything fits one binding each, else one per matrix and window."""
    limit = profile.max_binding - _slack(profile)
    m = w.t.ne[1]
    whole = Part(0, m, 0, c.n, 0, c.n2, 0, c.n3)
    if _fits(limit, w, c, whole):
        yield whole
        return
    s1 = max(w.strides[0], 1)
    rows = min(m, (limit // w.bytes_per_unit - w.row_units) // s1 + 1)
    rows = rows if rows == m else max(rows // 64 * 64, 1)
    column = max(c.x1, c.y1)
    cols = min(c.n, max((limit - max(c.x_bytes(1, 1, 1), m * 4)) // column + 1, 1))
    for i3 in range(c.n3):
        for i2 in range(c.n2):
            for row in range(0, m, rows):
                for col in range(0, c.n, cols):
                    yield Part(row, min(rows, m - row), col, min(cols, c.n - col), i2, 1, i3, 1)


def _fits(limit: int, w: WeightView, c: Columns, p: Part) -> bool:
    units = w.units(p.rows, _distinct(p.n2, c.ratio2), _distinct(p.n3, c.ratio3))
    return (
        max(
            units * w.bytes_per_unit,
            c.x_bytes(p.cols, p.n2, p.n3),
            c.y_bytes(p.rows, p.cols, p.n2, p.n3),
        )
        <= limit
    )


def _distinct(n: int, ratio: int) -> int:
    """Weight matrices that `n` consecutive result matrices use."""
    return -(-n // ratio)


def _dispatch(
    b: PlanBuilder, v: Variant, w: WeightView, c: Columns, p: Part, extra: Epilogue | None
) -> None:
    s1, s2, s3 = w.strides
    start = p.row * s1 + (p.i2 // c.ratio2) * s2 + (p.i3 // c.ratio3) * s3
    count = w.units(p.rows, _distinct(p.n2, c.ratio2), _distinct(p.n3, c.ratio3))
    operands, params = w.bind(b, start, count)
    x_start = p.col * c.x1 + p.i2 * c.x2 + p.i3 * c.x3
    box = (p.cols, p.n2, p.n3)
    staged = wants_staging(b, c.x, v.name, p.rows, p.cols)
    x_op, x_consts, x_params = bind_x(b, c, x_start, box, staged=staged)
    more_consts, more_params = epilogue.scaled(b.staged if x_consts["x_mode"] == "texel" else None)
    if extra is not None:
        _run_along(b, extra, c.y, w, v, count)
        operands += extra.operands
        more_consts, more_params = more_consts | extra.consts, more_params | extra.params
    fused = bool(more_consts)
    if "store" not in more_consts:
        operands.append(_result(b, c, p, extra.dst if extra else c.y, fused))
    row_groups, col_groups = math.ceil(p.rows / v.rows), math.ceil(p.cols / v.cols)
    groups = row_groups * col_groups * p.n2 * p.n3
    if groups >= MAX_INDEX:
        raise UnsupportedOpError(f"{groups} workgroups; at most {MAX_INDEX - 1} are numbered")
    walk = _walk(w, x_consts)
    b.dispatch(
        v.shader,
        operands=[*operands, x_op],
        consts={
            **dict(v.consts), **w.consts, **x_consts, **walk, "by_id": False,
            **epilogue.PLAIN_STORE, **more_consts, "fused": fused,
        },
        params={
            "m": p.rows, "n": p.cols, **_lengths(w, walk),
            "groups": groups, "row_groups": row_groups, "col_groups": col_groups,
            "ne2": p.n2, "ratio2": c.ratio2, "ratio3": c.ratio3,
            **params, "w_s1": s1, "w_s2": s2, "w_s3": s3,
            **x_params, "y_s1": c.y1 // 4, "y_s2": c.y2 // 4, "y_s3": c.y3 // 4, **more_params,
        },
        groups=groups,
        label=_label(w, c.x, p.cols, v) + (extra.label if extra else ""),
    )  # fmt: skip


def _run_along(
    b: PlanBuilder, extra: Epilogue, t: Tensor, w: WeightView, v: Variant, units: int
) -> None:
    """Mark the nodes that run with the product, and bind what they need."""
    b.done.update((t, *extra.nodes))
    if extra.up is not None:
        epilogue.bind_up(b, extra, units)
    epilogue.stage(b, extra, t, w, v)


def _result(b: PlanBuilder, c: Columns, p: Part, y: Tensor, fused: bool) -> Operand:
    start = p.row * 4 + p.col * c.y1 + p.i2 * c.y2 + p.i3 * c.y3
    return b.operand(
        y, "vec4<f32>" if fused else "f32", name="y", write=True, byte_offset=start,
        nbytes=c.y_bytes(p.rows, p.cols, p.n2, p.n3),
    )  # fmt: skip


def _walk(w: WeightView, x_consts: dict[str, object]) -> dict[str, object]:
    """How a row is walked: in whole chunks, and what `tail` is left after them: nothing, quads, or
    also a piece of a quad. Loads that are not whole vec4s would make unrolled chunks very long."""
    k = w.t.ne[0]
    chunked = w.t.type not in PLAIN or (
        w.mode in ("quad", "texel") and x_consts["x_mode"] in ("vec4", "texel")
    )
    tail = "ragged" if k % 4 else "quads" if k % CHUNK or not chunked else ""
    return {"chunked": chunked, "tail": tail}


def _lengths(w: WeightView, walk: dict[str, object]) -> dict[str, int]:
    k = w.t.ne[0]
    block = TRAITS[w.t.type].blck_size
    return {
        "k": k,
        "blocks": k // (CHUNK if block == 1 else block) if walk["chunked"] else 0,
        "chunks": math.ceil(k / CHUNK),
        "quads": math.ceil(k / 4),
    }


def _label(w: WeightView, x: Tensor, n: int, v: Variant) -> str:
    return (
        f"mul_mat {type_name(w.t.type)} ({w.mode}) {w.t.ne[1]}x{w.t.ne[0]} by {n} "
        f"{type_name(x.type)}, {v.name}"
    )


# ---- MUL_MAT_ID ----------------------------------------------------------------------------------


def _emit_id(b: PlanBuilder, t: Tensor) -> None:
    """One column per (slot, token); windows of experts where they exceed one binding."""
    w, _ = _sources(t)
    view = view_weights(b, w)
    limit = b.profile.max_binding - _slack(b.profile)
    n_expert = w.ne[2]
    one = view.units(w.ne[1], 1, 1)
    s2 = max(view.strides[1], 1)
    window = min(n_expert, max((limit // view.bytes_per_unit - one) // s2 + 1, 1))
    for first in range(0, n_expert, window):
        _dispatch_id(b, t, view, first, min(window, n_expert - first))


def _dispatch_id(b: PlanBuilder, t: Tensor, w: WeightView, first: int, count: int) -> None:
    ids = t.src[2]
    assert ids is not None
    x = _sources(t)[1]
    v = choose(b.profile, 1, long_loads=w.mode in LONG_LOADS, by_id=True)
    s1, s2, _ = w.strides
    operands, params = w.bind(b, first * s2, w.units(w.t.ne[1], count, 1))
    columns = Columns(x, t, 1, x.ne[1], x.ne[2], 1, 1, 0, x.nb[1], x.nb[2], 0, t.nb[1], t.nb[2])
    box = (1, x.ne[1], x.ne[2])
    staged = wants_staging(b, x, v.name, t.ne[0], t.ne[1] * t.ne[2])
    x_op, x_consts, x_params = bind_x(b, columns, 0, box, staged=staged)
    y_op = b.operand(t, "f32", name="y", write=True)
    ids_op = b.operand(ids, "u32", name="ids")
    row_groups = math.ceil(t.ne[0] / v.rows)
    groups = row_groups * t.ne[1] * t.ne[2]
    walk = _walk(w, x_consts)
    b.dispatch(
        v.shader,
        operands=[*operands, x_op, y_op, ids_op],
        consts={
            **dict(v.consts), **w.consts, **x_consts, **walk, "by_id": True,
            **epilogue.PLAIN_STORE,
        },
        params={
            "m": t.ne[0], "n": 1, **_lengths(w, walk),
            "groups": groups, "row_groups": row_groups, "col_groups": 1,
            "ne2": t.ne[1], "ratio2": x.ne[1], "ratio3": 1,
            **params, "w_s1": s1, "w_s2": s2, "w_s3": 0,
            **x_params, "y_s1": 0, "y_s2": t.nb[1] // 4, "y_s3": t.nb[2] // 4,
            "expert0": first, "expert1": first + count, "ids_s1": ids.nb[1] // 4,
        },
        groups=groups,
        label=f"mul_mat_id {type_name(w.t.type)} ({w.mode}) {w.t.ne[1]}x{w.t.ne[0]}, {v.name}",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.MUL_MAT: OpImpl(_why_not, _emit, windows=True),
    Op.MUL_MAT_ID: OpImpl(_why_not_id, _emit_id, windows=True),
}
