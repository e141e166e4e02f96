"""`PlanBuilder`: op families add dispatches to a plan through it.

A family names operands and parameters; how operands are bound is decided in binding.py. Parameters
(`P.<name>`: u32 for ints, f32 for floats) lie in one uniform buffer per plan. Dispatches are only
collected here: the plan compiler joins and binds them when all are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu import texels
from wggml.backends.wgpu.binding import ELEM_SIZE, SCRATCH, Operand
from wggml.backends.wgpu.packing import packed_root
from wggml.core.tensor import Tensor
from wggml.core.types import type_name
from wggml.errors import AllocationError, UnsupportedOpError

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.backends.wgpu.profile import DeviceProfile

__all__ = ["Operand", "PlanBuilder", "Request", "fold_groups"]

# A one-dimensional grid past 65535 workgroups is folded into rows of FOLD workgroups. Shaders undo
# it with `flat_group` of include/grid.wgsl and ignore what lies past their own count.
FOLD = 32768
MAX_GROUPS_PER_DIM = 65535
WINDOW = 64  # nodes that an emit sees


@dataclass(frozen=True, slots=True)
class Request:
    """A dispatch as a family asked for it."""

    shader: str
    operands: tuple[Operand, ...]
    consts: tuple[tuple[str, object], ...]
    params: tuple[tuple[str, int | float], ...]
    groups: tuple[int, int, int]
    label: str
    node: str


class PlanBuilder:
    """Collects the dispatches of one plan. Families use `operand`, `raw_operand`, `constant`,
    `scratch` and `dispatch`; `profile` tells them what the device can do."""

    def __init__(
        self,
        device: WgpuDevice,
        *,
        fusion: frozenset[str] = frozenset(),
        use_counts: Mapping[Tensor, int] | None = None,
    ) -> None:
        self.device = device
        self.fusion = fusion  # of fusion.KINDS
        self.profile: DeviceProfile = device.profile
        self.requests: list[Request] = []
        self.buffers: set[WgpuBuffer] = set()
        self.scratch_size = 0
        self._scratch_used = 0
        self._node = ""
        # Nodes that have not run, from the current one on, a window of them. An emit may run
        # several: the first `consumed`, and those it puts into `done`.
        self.upcoming: Sequence[Tensor] = ()
        self.use_counts: Mapping[Tensor, int] = use_counts or {}
        self.consumed = 1
        self.done: set[Tensor] = set()
        self._nodes: Sequence[Tensor] = ()
        self._at = 0
        self.weight_views: dict[Tensor, Any] = {}  # how products read their weights
        self.staged: Any = None  # what matrix products keep from one node to the next

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

        Raises `UnsupportedOpError` when the first byte does not fall on a whole element (ask
        `starts_on` first where a coarser element is only a wish), and for weights in a layout of
        the device's own, which are read through `view_weights`.
        """
        buffer = self._buffer_of(t)
        if packed_root(t) is not None:
            raise UnsupportedOpError(
                f"operand {name} ({t.name!r}) is a {type_name(t.type)} weight in the device's own "
                "layout, which this op cannot use; place it in a buffer whose usage is not WEIGHTS"
            )
        texels.bring_to_buffer(t, write=write)
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

    def texture(
        self, view: Any, elem: str, *, name: str, buffer: WgpuBuffer | None = None
    ) -> Operand:
        """A texture (texels.py) of WGSL type `elem`. The plan lives no longer than `buffer`, which
        owns it. Dispatches that share one which is written are kept in order."""
        if buffer is not None:
            self.buffers.add(buffer)
        write = elem == texels.ACTIVATIONS_OUT
        return Operand(name, view, buffer, view, 0, 16, elem, write, 0, "a texture")

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
            name, SCRATCH, None, None, offset, size, elem, True, 1 << 62, "scratch memory"
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

        Operands that exceed a limit of the device are refused, by name, when the plan is made.
        """
        count = fold_groups(groups)
        if 0 in count:
            return
        self.requests.append(
            Request(
                shader, tuple(operands), tuple(sorted((consts or {}).items())),
                tuple((params or {}).items()), count, label or shader, self._node,
            )
        )  # fmt: skip

    # ---- called by the plan compiler ----------------------------------------------------------

    def nodes(self, nodes: Sequence[Tensor]) -> Iterator[Tensor]:
        """The nodes to emit, in order: those that no earlier one has run along with itself."""
        self._nodes, self._at = nodes, 0
        while self._at < len(nodes):
            t = nodes[self._at]
            if t in self.done:
                self._at += 1
                continue
            window = nodes[self._at : self._at + WINDOW]
            self.upcoming = [u for u in window if u not in self.done]
            self._node = f"{t.op.name} {t.name}"
            self._scratch_used = 0
            self.consumed = 1
            yield t
            self.done.update(self.upcoming[: self.consumed])

    def since(self, t: Tensor) -> Sequence[Tensor]:
        """Nodes from `t` to the one before the current one, also those that ran early."""
        nodes = self._nodes[: self._at]
        return nodes[nodes.index(t) :] if t in nodes else ()


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
