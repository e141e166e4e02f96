"""`PlanBuilder`: op families add dispatches to a plan through it.

A family names operands and parameters; the builder decides how they are bound:

- An operand is a byte range of the buffer its tensor lies in. Its offset is aligned down to what
  the device asks for; the rest arrives in the shader as `P.off_<name>`, in elements.
- Operands of one buffer whose bound ranges overlap share one binding (a template then sees the same
  variable under both names), because two writable bindings must not overlap. In-place variants come
  out of this by themselves. Where element types differ, wgpu-native gets two bindings.
- Operands in WEIGHTS buffers are bound `read`, all others `read_write`: WebGPU refuses `read` and
  `read_write` of one buffer in one dispatch even for disjoint ranges.
- Parameters (`P.<name>`: u32 for ints, f32 for floats) lie in one uniform buffer per plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu.pipelines import Pipeline, PipelineKey
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError, UnsupportedOpError
from wggml.hal.interface import BufferUsage

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.backends.wgpu.profile import DeviceProfile

# A one-dimensional grid past 65535 workgroups is folded into rows of FOLD workgroups. Shaders undo
# it with `flat_group` of include/grid.wgsl and ignore what lies past their own count.
FOLD = 32768
MAX_GROUPS_PER_DIM = 65535

ELEM_SIZE = {
    "u32": 4, "i32": 4, "f32": 4, "f16": 2, "atomic<u32>": 4,
    "vec2<u32>": 8, "vec2<f32>": 8, "vec4<u32>": 16, "vec4<i32>": 16, "vec4<f32>": 16,
    "vec4<f16>": 8,
}  # fmt: skip


@dataclass(slots=True)
class Operand:
    """A byte range of a buffer seen as an array of `elem`. `key` tells buffers apart."""

    name: str
    key: object
    buffer: WgpuBuffer | None
    gpu: Any
    offset: int
    nbytes: int
    elem: str
    write: bool
    gpu_size: int
    what: str  # for messages: the tensor's name or what it is


@dataclass(slots=True)
class Slot:
    """One storage binding."""

    gpu: Any
    offset: int
    nbytes: int
    elem: str
    access: str
    is_scratch: bool = False


@dataclass(slots=True)
class Dispatch:
    """One entry of a plan. `params_offset` and `bind_group` are set at the end."""

    label: str
    pipeline: Pipeline
    slots: tuple[Slot, ...]
    params: bytes
    groups: tuple[int, int, int]
    node: str
    params_offset: int = 0
    bind_group: Any = None


_SCRATCH = "scratch"


class PlanBuilder:
    """Collects the dispatches of one plan. Families use `operand`, `raw_operand`, `constant`,
    `scratch` and `dispatch`; `profile` tells them what the device can do."""

    def __init__(
        self,
        device: WgpuDevice,
        *,
        fusion: bool = True,
        use_counts: Mapping[Tensor, int] | None = None,
    ) -> None:
        self.device = device
        self.fusion = fusion
        self.profile: DeviceProfile = device.profile
        self.dispatches: list[Dispatch] = []
        self.buffers: set[WgpuBuffer] = set()
        self.scratch_size = 0
        self._scratch_used = 0
        self._node = ""
        # Nodes of the graph from the current one on; an emit may run several and say how many.
        self.upcoming: Sequence[Tensor] = ()
        self.use_counts: Mapping[Tensor, int] = use_counts or {}
        self.consumed = 1

    # ---- operands ---------------------------------------------------------------------------

    def operand(
        self,
        t: Tensor,
        elem: str,
        *,
        name: str,
        write: bool = False,
        byte_offset: int = 0,
        nbytes: int | None = None,
    ) -> Operand:
        """`t`'s bytes from `byte_offset` on (`nbytes` of them, default to its end) as `elem`s.

        Raises `UnsupportedOpError` when the first byte does not fall on a whole element: ask
        `starts_on` first where a coarser element is only a wish.
        """
        buffer = self._buffer_of(t)
        assert t.data is not None
        size = t.nbytes - byte_offset if nbytes is None else nbytes
        return self._make(buffer, t.data + byte_offset, size, elem, name, write, t.name)

    def raw_operand(
        self,
        buffer: WgpuBuffer,
        offset: int,
        nbytes: int,
        elem: str,
        name: str,
        write: bool = False,
    ) -> Operand:
        """A byte range of a buffer, for layouts that a tensor's strides do not describe."""
        self.buffers.add(buffer)
        return self._make(buffer, offset, nbytes, elem, name, write, f"bytes of {buffer!r}")

    def starts_on(self, t: Tensor, nbytes: int, byte_offset: int = 0) -> bool:
        """True when `t`'s place plus `byte_offset` is a multiple of `nbytes`."""
        self._buffer_of(t)
        assert t.data is not None
        return (t.data + byte_offset) % nbytes == 0

    def constant(self, array: npt.NDArray[Any], elem: str, *, name: str) -> Operand:
        """A read-only table. Equal contents are uploaded once a device."""
        data = np.ascontiguousarray(array)
        gpu = self.device.constant_buffer(data)
        size = max(data.nbytes, 16)
        return Operand(name, gpu, None, gpu, 0, size, elem, False, size, "a constant table")

    def scratch(self, nbytes: int, elem: str, *, name: str) -> Operand:
        """Memory that lives for the dispatches of the current node only; contents undefined."""
        align = max(self.profile.min_storage_offset_alignment, 16)
        offset = -(-self._scratch_used // align) * align
        size = -(-nbytes // 16) * 16
        self._scratch_used = offset + size
        self.scratch_size = max(self.scratch_size, self._scratch_used)
        return Operand(
            name, _SCRATCH, None, None, offset, size, elem, True, 1 << 62, "scratch memory"
        )

    def _buffer_of(self, t: Tensor) -> WgpuBuffer:
        buffer = t.placed_in
        if buffer is None or t.data is None:
            raise AllocationError(f"tensor {t.name!r} ({t.op.name}) has no memory yet")
        if getattr(buffer, "gpu", None) is None:
            raise AllocationError(
                f"tensor {t.name!r} lies in {buffer!r}, which device {self.device.name} cannot read"
            )
        self.buffers.add(buffer)  # type: ignore[arg-type]
        return buffer  # type: ignore[return-value]

    def _make(
        self, buffer: WgpuBuffer, offset: int, nbytes: int, elem: str, name: str, write: bool,
        what: str,
    ) -> Operand:  # fmt: skip
        if offset % ELEM_SIZE[elem]:
            raise UnsupportedOpError(
                f"operand {name} ({what!r}) starts at byte {offset} of its buffer, which is not a "
                f"whole {elem} of {ELEM_SIZE[elem]} bytes"
            )
        return Operand(
            name, buffer, buffer, buffer.gpu, offset, max(nbytes, 1), elem, write,
            buffer.gpu_size, what,
        )  # fmt: skip

    # ---- dispatch ---------------------------------------------------------------------------

    def dispatch(
        self,
        shader: str,
        *,
        operands: Sequence[Operand],
        consts: Mapping[str, object] | None = None,
        params: Mapping[str, int | float] | None = None,
        groups: int | tuple[int, int, int],
        label: str = "",
    ) -> None:
        """Add one dispatch of template `shader`.

        Args:
            operands: bound in this order as far as they do not share a binding. In the template
                `{{ name }}` is the array variable and `P.off_<name>` its first element.
            consts: rendered into the text (hashable values); each combination is a pipeline.
            params: read as `P.<name>`: ints as u32 (negative ones as two's complement), floats
                as f32.
            groups: workgroups, as one number of any size (`flat_group` in the shader) or x, y, z.

        Raises `UnsupportedOpError` naming the operand and the limit it exceeds.
        """
        count = fold_groups(groups)
        if 0 in count:
            return
        slots, where = self._bind(shader, operands)
        values: dict[str, int | float] = {}
        for op in operands:
            slot = slots[where[op.name]]
            values[f"off_{op.name}"] = (op.offset - slot.offset) // ELEM_SIZE[op.elem]
        values.update(params or {})
        names = _variable_names(operands, where, len(slots))
        key = PipelineKey(
            shader,
            tuple(sorted((consts or {}).items())),
            tuple((names[i], s.elem, s.access) for i, s in enumerate(slots)),
            tuple((op.name, where[op.name]) for op in operands),
            tuple((k, "f32" if isinstance(v, float) else "u32") for k, v in values.items()),
        )
        pipeline = self.device.pipelines.get(key)
        data = pack_params(values)
        self.dispatches.append(
            Dispatch(label or shader, pipeline, tuple(slots), data, count, self._node)
        )

    def _bind(self, shader: str, operands: Sequence[Operand]) -> tuple[list[Slot], dict[str, int]]:
        written = {id(op.key) for op in operands if op.write}
        spans = [self._span(op, id(op.key) in written) for op in operands]
        slots: list[Slot] = []
        where: dict[str, int] = {}
        for i in _in_groups(operands, spans, self.profile.is_dawn):
            members = [spans[j] for j in i]
            first = members[0]
            begin = min(s.offset for s in members)
            end = max(s.offset + s.nbytes for s in members)
            for j in i:
                where[operands[j].name] = len(slots)
            slot = Slot(first.gpu, begin, end - begin, first.elem, first.access, first.is_scratch)
            if slot.nbytes > self.profile.max_binding:
                raise UnsupportedOpError(
                    f"{shader}: operand {operands[i[0]].name} ({operands[i[0]].what!r}) needs "
                    f"{slot.nbytes} bytes in one binding; device {self.device.name} allows "
                    f"{self.profile.max_binding}"
                )
            slots.append(slot)
        if len(slots) > self.profile.max_storage_buffers:
            raise UnsupportedOpError(
                f"{shader}: {len(slots)} storage bindings; device {self.device.name} allows "
                f"{self.profile.max_storage_buffers} in one stage"
            )
        return slots, where

    def _span(self, op: Operand, written: bool) -> Slot:
        """The range bound for one operand alone: aligned down, rounded up to whole elements."""
        align = self.profile.min_storage_offset_alignment
        begin = op.offset // align * align
        unit = max(ELEM_SIZE[op.elem], 4)
        end = min(op.offset + -(-op.nbytes // unit) * unit, op.gpu_size)
        is_weight = op.buffer is None or op.buffer.usage == BufferUsage.WEIGHTS
        access = "read" if is_weight and not written else "read_write"
        return Slot(op.gpu, begin, end - begin, op.elem, access, op.key is _SCRATCH)

    # ---- called by the plan compiler ----------------------------------------------------------

    def begin_node(self, t: Tensor, upcoming: Sequence[Tensor]) -> None:
        """Start emitting for `t`; `upcoming` are the nodes that follow it, `t` first."""
        self._node = f"{t.op.name} {t.name}"
        self._scratch_used = 0
        self.upcoming = upcoming
        self.consumed = 1


def _in_groups(operands: Sequence[Operand], spans: Sequence[Slot], strict: bool) -> list[list[int]]:
    """Operand indices that share a binding, in order of their first member.

    Writable spans of one buffer that overlap are joined, transitively. Spans with different element
    types cannot share a variable: they stay apart, which `strict` implementations refuse.
    """
    groups: list[list[int]] = []
    for i, (op, span) in enumerate(zip(operands, spans, strict=True)):
        hits = [
            g for g in groups
            if span.access == "read_write"
            and any(operands[j].key is op.key and _overlap(spans[j], span) for j in g)
        ]  # fmt: skip
        same = [g for g in hits if spans[g[0]].elem == span.elem]
        if strict and len(same) < len(hits):
            other = operands[next(g for g in hits if g not in same)[0]]
            raise UnsupportedOpError(
                f"operands {op.name} ({op.elem}) and {other.name} ({other.elem}) overlap in one "
                "buffer with different element types, which this WebGPU implementation refuses"
            )
        merged = [*sorted(j for g in same for j in g), i]
        groups = [g for g in groups if g not in same]
        groups.append(merged)
    return sorted(groups, key=lambda g: g[0])


def _overlap(a: Slot, b: Slot) -> bool:
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def _variable_names(
    operands: Sequence[Operand], where: Mapping[str, int], n_slots: int
) -> list[str]:
    names = [""] * n_slots
    for op in operands:
        names[where[op.name]] = names[where[op.name]] or f"buf_{op.name}"
    return names


def fold_groups(groups: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """Workgroup counts x, y, z of a flat count or of a grid; `UnsupportedOpError` when too many."""
    if isinstance(groups, int):
        if groups <= MAX_GROUPS_PER_DIM:
            return (groups, 1, 1)
        groups = (FOLD, math.ceil(groups / FOLD), 1)
    if max(groups) > MAX_GROUPS_PER_DIM or min(groups) < 0:
        raise UnsupportedOpError(
            f"a grid of {groups} workgroups; WebGPU allows {MAX_GROUPS_PER_DIM} a dimension"
        )
    return groups


def pack_params(values: Mapping[str, int | float]) -> bytes:
    """The uniform struct: 4 bytes a value, padded to 16."""
    words = np.zeros(-(-max(len(values), 1) // 4) * 4, np.uint32)
    for i, v in enumerate(values.values()):
        if isinstance(v, float):
            words[i] = np.float32(v).view(np.uint32)
        else:
            words[i] = int(v) & 0xFFFFFFFF
    return words.tobytes()
