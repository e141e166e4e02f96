"""Block formats in and out: conversions in copies, SET_ROWS into them, ADD to a quantised tensor.

Values come out of blocks by `shaders/quantize/decode.wgsl`, a lane per 32 of them, and go in by
`quantize.wgsl`, a lane per block, which searches scales as ggml's reference routines do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.codebooks import CODEBOOKS
from wggml.backends.wgpu.ops._mm_weights import view_weights
from wggml.backends.wgpu.ops._operands import FLOATS, HALVES, source, typed, workgroup
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.packing import FIELDS
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS, Type, type_name
from wggml.quants import can_quantize

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

READABLE = frozenset(FIELDS)
WRITABLE = frozenset(t for t in FIELDS if can_quantize(t) and t not in CODEBOOKS)
# What the largest value, range or scale of a group is divided by.
TOPS: dict[Type, float] = {
    Type.Q4_1: 15.0, Type.Q5_1: 31.0, Type.Q8_0: 127.0, Type.NVFP4: 6.0, Type.IQ4_NL: 127.0,
    Type.IQ4_XS: 127.0, Type.Q2_K: 15.0, Type.Q4_K: 63.0, Type.Q5_K: 63.0,
}  # fmt: skip
CHUNK = 32  # values a lane decodes
# A lane searches the scales of a block for itself: few lanes a workgroup spread blocks over cores.
ENCODE_LANES = 32


@dataclass(frozen=True, slots=True)
class Plain:
    """Values of a plain type that a kernel reads or writes: strides in elements of `operand`."""

    operand: Operand
    type: Type
    strides: Shape4
    params: dict[str, int | float] = field(default_factory=dict)
    store: str = "whole"
    quads: bool = False

    def stride_params(self) -> dict[str, int | float]:
        name = self.operand.name
        return {**self.params, **{f"{name}_s{i}": s for i, s in enumerate(self.strides)}}


def read_plain(b: PlanBuilder, t: Tensor, name: str) -> Plain:
    """`t` as an operand; dimensions of one element have stride 0, so that they repeat."""
    op, params = typed(b, t, name)
    s = strides_of(t)
    strides = tuple(s[i] if t.ne[i] > 1 else 0 for i in range(4))
    return Plain(op, t.type, strides, params)  # type: ignore[arg-type]


def _write_plain(b: PlanBuilder, t: Tensor) -> Plain:
    s = strides_of(t)
    if t.type not in HALVES:
        dense = s[0] == 1 and b.starts_on(t, 16) and not any(v % 4 for v in s[1:])
        op = b.operand(t, "vec4<f32>" if dense else "f32", name="dst", write=True)
        strides = (1, s[1] // 4, s[2] // 4, s[3] // 4) if dense else s
        return Plain(op, t.type, strides, quads=dense)
    pair = s[0] == 1 and b.starts_on(t, 4) and not any(v % 2 for v in s[1:])
    op, params = typed(b, t, "dst", write=True, atomic=not pair)
    return Plain(op, t.type, s, params, "pair" if pair else "atomic")


def decode(b: PlanBuilder, a: Tensor, out: Plain, addend: Tensor | None, label: str) -> None:
    """out = values of `a` (+ addend, of the same shape or repeating along whole dimensions)."""
    view = view_weights(b, a)
    s1, s2, s3 = view.strides
    operands, params = view.bind(b, 0, view.units(a.ne[1], a.ne[2], a.ne[3]))
    consts: dict[str, object] = {}
    more: dict[str, int | float] = {}
    if addend is not None:
        src1 = read_plain(b, addend, "src1")
        operands.append(src1.operand)
        consts["src1_type"] = type_name(addend.type)
        more = src1.stride_params()
    wg = workgroup(b.profile)
    units = a.ne[0] // CHUNK * a.n_rows
    b.dispatch(
        "quantize/decode.wgsl",
        operands=[*operands, out.operand],
        consts={
            **view.consts, **consts, "wg": wg, "dst_type": type_name(out.type),
            "store": out.store, "vtype": "vec4<f32>" if out.quads else "f32",
        },
        params={
            **params, **more, **out.stride_params(), "chunks": a.ne[0] // CHUNK, "n1": a.ne[1],
            "n2": a.ne[2], "n_units": units, "w_s1": s1, "w_s2": s2, "w_s3": s3,
        },
        groups=math.ceil(units / wg),
        label=label,
    )  # fmt: skip


def encode(
    b: PlanBuilder, dst: Tensor, x: Plain, ne: Shape4, label: str, ids: Tensor | None = None
) -> None:
    """Values `x` of shape `ne` into blocks of `dst`: row by row, or the rows that `ids` name."""
    assert dst.data is not None
    size, block = TRAITS[dst.type].type_size, TRAITS[dst.type].blck_size
    phase = dst.data % 4
    whole = phase == 0 and size % 4 == 0 and not any(nb % 4 for nb in dst.nb)
    blocks = ne[0] // block
    units = blocks * ne[1] * ne[2] * ne[3]
    operands, more = [x.operand], x.stride_params()
    if ids is not None:
        operands.append(b.operand(ids, "u32", name="ids"))
        more |= {f"ids_s{i}": ids.nb[i] // 4 for i in range(3)}
        more |= {"ids_n1": ids.ne[1], "ids_n2": ids.ne[2], "dst_rows": dst.ne[1]}
    operands.append(
        b.operand(
            dst, "u32" if whole else "atomic<u32>", name="dst", write=True, byte_offset=-phase,
            nbytes=dst.nbytes + phase,
        )
    )  # fmt: skip
    wg = min(ENCODE_LANES, workgroup(b.profile))
    b.dispatch(
        "quantize/quantize.wgsl",
        operands=operands,
        consts={
            "src0_type": type_name(x.type), "dst_type": type_name(dst.type), "wg": wg,
            "by_id": ids is not None, "store": "whole" if whole else "atomic",
            "block_size": block, "block_bytes": size,
        },
        params={
            **more, "top": TOPS.get(dst.type, 1.0), "blocks": blocks, "n1": ne[1], "n2": ne[2],
            "n_units": units,
            "dst_byte": phase, **{f"dst_s{i}": nb for i, nb in enumerate(dst.nb)},
        },
        groups=math.ceil(units / wg),
        label=label,
    )  # fmt: skip


def convert(
    b: PlanBuilder, dst: Tensor, a: Tensor, label: str, addend: Tensor | None = None
) -> None:
    """dst = a (+ addend), of one shape; at least one of them in a block format. From blocks to
    blocks the values pass through scratch memory as f32."""
    if a.type in FLOATS:
        encode(b, dst, read_plain(b, a, "src0"), a.ne, label)
    elif dst.type in FLOATS:
        decode(b, a, _write_plain(b, dst), addend, label)
    else:
        n0, n1, n2 = a.ne[:3]
        held = b.scratch(a.n_elements * 4, "vec4<f32>", name="dst")
        quads = n0 // 4
        decode(b, a, Plain(held, Type.F32, (1, quads, quads * n1, quads * n1 * n2), quads=True),
               addend, f"{label}, values")  # fmt: skip
        x = replace(held, name="src0", elem="f32", write=False)
        encode(b, dst, Plain(x, Type.F32, (1, n0, n0 * n1, n0 * n1 * n2)), a.ne, label)


def why_not_convert(profile: DeviceProfile, a: Tensor, t: Tensor) -> str | None:
    """A reason when values of `a` cannot be stored in `t`, one of them in a block format."""
    if a.type not in READABLE | FLOATS or t.type not in WRITABLE | FLOATS:
        return f"conversion of {type_name(a.type)} to {type_name(t.type)}"
    if a.type in READABLE and not a.is_contiguous_rows():
        return f"rows of {type_name(a.type)} with gaps between their blocks"
    if a.type in READABLE and t.type in WRITABLE and a.n_elements * 4 > profile.max_binding:
        return f"{a.n_elements} values on their way exceed one binding of {profile.max_binding}"
    return None


def why_not_add(profile: DeviceProfile, t: Tensor) -> str | None:
    """ADD of a plain tensor to a quantised one."""
    a, c = source(t, 0), source(t, 1)
    if c.type not in FLOATS:
        return f"an addend of type {type_name(c.type)}"
    if any(c.ne[i] not in (1, a.ne[i]) for i in range(4)):
        return f"an addend that repeats within {type_name(a.type)} rows"
    return why_not_convert(profile, a, t)


def emit_add(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    convert(b, t, a, f"add to {type_name(a.type)}", source(t, 1))
