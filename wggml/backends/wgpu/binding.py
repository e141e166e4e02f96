"""Operands and how they share bindings.

- An operand's offset is aligned down to what the device asks for; the shader gets the rest as
  `P.off_<name>`, in elements.
- Operands of one buffer whose bound ranges overlap share one binding (a template then sees the same
  variable under both names), because two writable bindings must not overlap. In-place variants come
  out of this by themselves. Where element types differ, wgpu-native gets two bindings.
- Operands in WEIGHTS buffers are bound `read`, all others `read_write`: WebGPU refuses `read` and
  `read_write` of one buffer in one dispatch even for disjoint ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wggml.backends.wgpu import texels
from wggml.errors import UnsupportedOpError
from wggml.hal.interface import BufferUsage

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.profile import DeviceProfile

ELEM_SIZE = {
    "u32": 4, "i32": 4, "f32": 4, "f16": 2, "atomic<u32>": 4,
    "vec2<u32>": 8, "vec2<f32>": 8, "vec4<u32>": 16, "vec4<i32>": 16, "vec4<f32>": 16,
    "vec4<f16>": 8, **dict.fromkeys(texels.LAYOUTS, 16),
}  # fmt: skip
SCRATCH = "scratch"  # key of operands in memory that is only known when the plan is complete


@dataclass(slots=True)
class Operand:
    """A byte range of a buffer seen as an array of `elem`. `key` tells buffers apart, `what` names
    the range in messages."""

    name: str
    key: object
    buffer: WgpuBuffer | None
    gpu: Any
    offset: int
    nbytes: int
    elem: str
    write: bool
    gpu_size: int
    what: str


@dataclass(slots=True)
class Slot:
    """One storage binding."""

    gpu: Any
    offset: int
    nbytes: int
    elem: str
    access: str
    is_scratch: bool = False


@dataclass(frozen=True, slots=True)
class Binding:
    """Slots of a dispatch, the variable name of each, and which one an operand uses."""

    slots: tuple[Slot, ...]
    variables: tuple[str, ...]
    where: tuple[int, ...]  # per operand, in the order given

    def offsets(self, operands: Sequence[Operand]) -> list[int]:
        """Per operand its first element in its slot's array."""
        return [
            (op.offset - self.slots[i].offset) // ELEM_SIZE[op.elem]
            for op, i in zip(operands, self.where, strict=True)
        ]


def bind(
    profile: DeviceProfile,
    shader: str,
    operands: Sequence[Operand],
    names: Sequence[str] | None = None,
) -> Binding:
    """Find the bindings, variables named after `names` (default to the operands' own). Raises
    `UnsupportedOpError` naming the operand and the limit it breaks."""
    written = {id(op.key) for op in operands if op.write}
    spans = [_span(profile, op, id(op.key) in written) for op in operands]
    slots: list[Slot] = []
    variables: list[str] = []
    where = [0] * len(operands)
    for group in _in_groups(operands, spans, profile.is_dawn):
        first = spans[group[0]]
        slot = first if len(group) == 1 else _joined([spans[j] for j in group])
        if slot.nbytes > profile.max_binding:
            op = operands[group[0]]
            raise UnsupportedOpError(
                f"{shader}: operand {op.name} ({op.what!r}) needs {slot.nbytes} bytes in one "
                f"binding; the device allows {profile.max_binding}"
            )
        for j in group:
            where[j] = len(slots)
        slots.append(slot)
        variables.append(f"buf_{names[group[0]] if names else operands[group[0]].name}")
    n_buffers = sum(s.elem not in texels.LAYOUTS for s in slots)
    if len(slots) - n_buffers > profile.max_storage_textures:
        raise UnsupportedOpError(
            f"{shader}: {len(slots) - n_buffers} storage textures; the device allows "
            f"{profile.max_storage_textures} in one stage"
        )
    if n_buffers > profile.max_storage_buffers:
        raise UnsupportedOpError(
            f"{shader}: {n_buffers} storage bindings; the device allows "
            f"{profile.max_storage_buffers} in one stage"
        )
    return Binding(tuple(slots), tuple(variables), tuple(where))


def _joined(spans: Sequence[Slot]) -> Slot:
    """One binding over all of them."""
    first = spans[0]
    begin = min(s.offset for s in spans)
    end = max(s.offset + s.nbytes for s in spans)
    return Slot(first.gpu, begin, end - begin, first.elem, first.access, first.is_scratch)


def _span(profile: DeviceProfile, op: Operand, written: bool) -> Slot:
    """The range bound for one operand alone: aligned down, rounded up to whole elements."""
    if op.elem in texels.LAYOUTS:
        return Slot(op.gpu, 0, 0, op.elem, op.elem)
    align = profile.min_storage_offset_alignment
    begin = op.offset // align * align
    unit = max(ELEM_SIZE[op.elem], 4)
    end = min(op.offset + -(-op.nbytes // unit) * unit, op.gpu_size)
    is_weight = op.buffer is None or op.buffer.usage == BufferUsage.WEIGHTS
    access = "read" if is_weight and not written else "read_write"
    return Slot(op.gpu, begin, end - begin, op.elem, access, op.key is SCRATCH)


def _in_groups(operands: Sequence[Operand], spans: Sequence[Slot], strict: bool) -> list[list[int]]:
    """Operand indices that share a binding, in order of their first member.

    Writable spans of one buffer that overlap are joined, transitively; read-only ones when they are
    the same. Spans with different element types cannot share a variable: they stay apart, which
    `strict` implementations refuse where one is writable.
    """
    by_key: dict[int, list[list[int]]] = {}
    for i, (op, span) in enumerate(zip(operands, spans, strict=True)):
        groups = by_key.setdefault(id(op.key), [])
        hits = [g for g in groups if any(_shares(spans[j], span) for j in g)]
        if not hits:
            groups.append([i])
            continue
        same = [g for g in hits if spans[g[0]].elem == span.elem]
        if strict and span.access == "read_write" and len(same) < len(hits):
            other = operands[next(g for g in hits if g not in same)[0]]
            raise UnsupportedOpError(
                f"operands {op.name} ({op.elem}) and {other.name} ({other.elem}) overlap in one "
                "buffer with different element types, which this WebGPU implementation refuses"
            )
        merged = [*sorted(j for g in same for j in g), i]
        by_key[id(op.key)] = [*(g for g in groups if g not in same), merged]
    return sorted((g for groups in by_key.values() for g in groups), key=lambda g: g[0])


def _shares(a: Slot, b: Slot) -> bool:
    if a.access == "read":
        return (a.offset, a.nbytes) == (b.offset, b.nbytes)
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
