"""RMS_NORM, NORM and L2_NORM, with a following multiplication and addition in the same dispatch;
GROUP_NORM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.fusion import can_run_with, overlaps_badly
from wggml.backends.wgpu.ops._mm_inputs import stage_ahead
from wggml.backends.wgpu.ops._operands import optional, source, why_not_types
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.ops._views import copy_whole, part
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

KINDS = {Op.RMS_NORM: "rms", Op.NORM: "norm", Op.L2_NORM: "l2"}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    if t.nb[0] != 4:
        return "result rows that are not contiguous"
    return why_not_types(t, frozenset({Type.F32}))


def _follower(b: PlanBuilder, last: Tensor, op: Op, k: int) -> tuple[Tensor, Tensor] | None:
    """(node, other operand) when node `k` ahead applies `op` to `last` and can run with it."""
    if not can_run_with(b, last, k):
        return None
    node = b.upcoming[k]
    if node.op != op or node.type != Type.F32 or node.nb[0] != 4:
        return None
    a, c = optional(node, 0), optional(node, 1)
    other = c if a is last else a if c is last else None
    if other is None or other is last or not _spreads(other, node):
        return None
    return node, other


def _spreads(other: Tensor, t: Tensor) -> bool:
    """True when `other` has whole rows of `t` and in each dimension one or all of them."""
    return (
        other.type == Type.F32 and other.nb[0] == 4 and other.ne[0] == t.ne[0]
        and all(other.ne[i] in (1, t.ne[i]) for i in (1, 2, 3))
        and not any(nb % 4 for nb in other.nb)
    )  # fmt: skip


def _emit(b: PlanBuilder, t: Tensor) -> None:
    dst, extra = _chain(b, t, 0, [source(t, 0)])
    b.consumed = 1 + len(extra)
    _normalise(b, KINDS[t.op], {"src0": source(t, 0), **extra, "dst": dst}, t.param_f32(0))


def _chain(
    b: PlanBuilder, t: Tensor, k: int, before: list[Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """(result, weight and bias) of the norm `t`, `k` nodes ahead, with the multiplication and
    addition behind it as far as they can run with it and with what touches `before`."""
    dst = t
    extra: dict[str, Tensor] = {}
    for name, op in (("weight", Op.MUL), ("bias", Op.ADD)):
        found = _follower(b, dst, op, k + 1 + len(extra))
        if found is None or overlaps_badly(found[0], *before, found[1], *extra.values()):
            break
        dst, extra[name] = found
    return dst, extra


def emit_after_add(b: PlanBuilder, t: Tensor) -> bool:
    """Run the ADD `t` together with an RMS_NORM of its result, if that comes next; else False."""
    a, c = source(t, 0), source(t, 1)
    n = b.upcoming[1] if "norm" in b.fusion and len(b.upcoming) > 1 else None
    if n is None or n.op != Op.RMS_NORM or source(n, 0) is not t:
        return False
    if any(s.type != Type.F32 or s.nb[0] != 4 or s.ne != t.ne for s in (a, c, t, n)):
        return False
    if any(nb % 4 for s in (a, c, t, n) for nb in s.nb):
        return False
    dst, extra = _chain(b, n, 1, [a, c, t])
    others = list(extra.values())
    if overlaps_badly(t, a, c, *others) or overlaps_badly(dst, a, c, t, *others):
        return False
    operands = {"src0": a, "src1": c, "added": t, **extra, "dst": dst}
    b.consumed = 2 + len(extra)
    _normalise(b, "rms", operands, n.param_f32(0))
    return True


def _normalise(b: PlanBuilder, kind: str, operands: dict[str, Tensor], eps: float) -> None:
    """dst = normalised rows of src0, times weight and plus bias where there are such operands.

    `b.consumed` must be set: products behind these nodes may want the result in a texture.
    """
    a, dst = operands["src0"], operands["dst"]
    vec = 4 if all(_is_quad(b, s) for s in operands.values()) else 1
    elem = "vec4<f32>" if vec == 4 else "f32"
    n = dst.ne[0]
    bound = [b.operand(s, elem, name=k, write=k in ("dst", "added")) for k, s in operands.items()]
    staged = stage_ahead(b, dst, b.consumed) if vec == 4 else None
    if staged is not None:
        bound.append(staged)
    b.dispatch(
        "norm/norm.wgsl",
        operands=bound,
        consts={
            "kind": kind, "vec": vec, "elem": elem, "W": lanes(b.profile, n // vec),
            "pre_add": "added" in operands, "strided": a.nb[0] != 4,
            "mul": "weight" in operands, "add": "bias" in operands, "stage": staged is not None,
        },
        params={
            "n": n // vec, "inv_n": 1.0 / n, "eps": eps, "src0_s0": strides_of(a)[0],
            **row_params(dst, vec, **operands),
        },
        groups=dst.n_rows,
        label="+".join(["add"] * ("added" in operands) + [kind, *_extras(operands)]),
    )  # fmt: skip


def _extras(operands: dict[str, Tensor]) -> list[str]:
    return [k for k in operands if k in ("weight", "bias")]


def _is_quad(b: PlanBuilder, t: Tensor) -> bool:
    return (
        t.ne[0] % 4 == 0
        and t.nb[0] == 4
        and not any(nb % 16 for nb in t.nb[1:])
        and b.starts_on(t, 16)
    )


# ---- GROUP_NORM ---------------------------------------------------------------------------------


def _why_not_group(profile: DeviceProfile, t: Tensor) -> str | None:
    if not t.is_contiguous():
        return "a result that is not contiguous"
    return why_not_types(t, frozenset({Type.F32}))


def _emit_group(b: PlanBuilder, t: Tensor) -> None:
    """Groups of channels (dimension 2) are runs of memory: they are normalised as rows."""
    a = source(t, 0)
    if not a.is_contiguous():
        copy_whole(b, t, a, "group_norm: rows")
        a = t
    size, channels = t.ne[0] * t.ne[1], t.ne[2]
    per_group = -(-channels // t.param_i32(0))
    whole = channels // per_group
    for first, count, width in (
        (0, whole, per_group),
        (whole * per_group, 1, channels % per_group),
    ):
        n = size * width
        if n and count:
            ne, nb = (n, count, t.ne[3], 1), (4, 4 * n, t.nb[3], t.nb[3] * t.ne[3])
            rows = {k: part(s, ne, nb, 4 * size * first) for k, s in (("src0", a), ("dst", t))}
            _normalise(b, "norm", rows, t.param_f32(1))


FAMILY: dict[Op, OpImpl] = {
    **{op: OpImpl(_why_not, _emit) for op in KINDS},
    Op.GROUP_NORM: OpImpl(_why_not_group, _emit_group),
}
