"""PAD, PAD_REFLECT_1D, ROLL, windows of images and relative positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._gather import Pick, gather, why_not_gather
from wggml.backends.wgpu.ops._operands import source, why_not_types
from wggml.backends.wgpu.ops._views import emit_add, part
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# a: elements before. What lies before the source wraps to numbers past its end.
ZEROS_AROUND = Pick(j="i - a", keep="all(j < n)")
# a: how far to turn, not negative
TURNED = Pick(j="(i + a) % n")
# a.x: values in front. Mirrored at both ends, the end value itself not repeated.
MIRRORED = Pick(
    j="vec4<u32>(select(u32(abs(i32(i.x) - i32(a.x))), 2u * (n.x - 1u) - (i.x - a.x),"
    " i.x >= a.x + n.x), i.yzw)"
)
# a: windows across, down, size of a window
CUT = Pick(
    j="vec4<u32>(i.x, (i.w % a.x) * a.z + i.y, (i.w / a.x) * a.z + i.z, 0u)", keep="all(j < n)"
)
# a: size of a window, windows across
JOINED = Pick(j="vec4<u32>(i.x, i.y % a.x, i.z % a.x, (i.z / a.x) * a.y + i.y / a.x)")
# a.x: last row of the first query
RELATIVE = Pick(j="vec4<u32>(i.x, a.x - i.y + i.z, 0u, 0u)")


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_gather(t)


def _why_not_pad(profile: DeviceProfile, t: Tensor) -> str | None:
    if t.param_i32(8) and source(t, 0).is_empty():
        return "nothing that could be repeated"
    return why_not_gather(t)


def _emit_pad(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    before = tuple(t.param_i32(2 * k) for k in range(4))
    if t.param_i32(8):
        gather(b, t, a, TURNED, _turns(before, a), label="pad circular")
    else:
        gather(b, t, a, ZEROS_AROUND, before)


def _turns(shifts: tuple[int, ...], a: Tensor) -> tuple[int, ...]:
    """Shifts to the right as turns to the left."""
    return tuple(-s % n for s, n in zip(shifts, a.ne, strict=True))


def _emit_roll(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    gather(b, t, a, TURNED, _turns(tuple(t.param_i32(k) for k in range(4)), a))


def _emit_reflect(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, source(t, 0), MIRRORED, (t.param_i32(0),))


def _emit_win_part(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, source(t, 0), CUT, tuple(t.param_i32(k) for k in range(3)))


def _emit_win_unpart(b: PlanBuilder, t: Tensor) -> None:
    w = t.param_i32(0)
    gather(b, t, source(t, 0), JOINED, (w, -(-t.ne[1] // w)))


def _emit_get_rel_pos(b: PlanBuilder, t: Tensor) -> None:
    gather(b, t, source(t, 0), RELATIVE, (t.ne[1] - 1,))


# ---- ADD_REL_POS ------------------------------------------------------------------------------


def _why_not_add(profile: DeviceProfile, t: Tensor) -> str | None:
    if any(s is not None and not s.is_contiguous() for s in (t, *t.src)):
        return "operands that are not contiguous"
    return why_not_types(t, frozenset({Type.F32}))


def _emit_add_rel_pos(b: PlanBuilder, t: Tensor) -> None:
    """t[r, i, j] = a[r, i, j] + wide[r, j] + high[r, i], r over all rows of `wide` and `high`."""
    a, wide, high = (source(t, i) for i in range(3))
    n, rows = wide.ne[0], wide.n_rows
    ne, nb = (n, n, rows, 1), (4, 4 * n, 4 * n * n, 4 * n * n * rows)
    by_row = 4 * n * rows
    whole = part(t, ne, nb)
    emit_add(b, whole, part(a, ne, nb), part(wide, (n, 1, rows, 1), (4, 4 * n, 4 * n, by_row)))
    up = part(high, (1, n, rows, 1), (4, 4, 4 * n, by_row))
    emit_add(b, part(t, ne, nb), whole, up)


FAMILY: dict[Op, OpImpl] = {
    Op.PAD: OpImpl(_why_not_pad, _emit_pad),
    Op.PAD_REFLECT_1D: OpImpl(_why_not, _emit_reflect),
    Op.ROLL: OpImpl(_why_not, _emit_roll),
    Op.WIN_PART: OpImpl(_why_not, _emit_win_part),
    Op.WIN_UNPART: OpImpl(_why_not, _emit_win_unpart),
    Op.GET_REL_POS: OpImpl(_why_not, _emit_get_rel_pos),
    Op.ADD_REL_POS: OpImpl(_why_not_add, _emit_add_rel_pos),
}
