"""Weights from a mapped file into backend buffers, without a second copy in host memory.

CPU weights are the map itself. Weights for other devices are uploaded from the map once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import type_name
from wggml.errors import ModelError
from wggml.hal.interface import Buffer, BufferUsage, Device
from wggml.models.placement import Placement, WeightProbe

if TYPE_CHECKING:
    from wggml.gguf_io import GGUFFile, TensorInfo

Progress = Callable[[float, str], None]


class WeightLoader:
    """Creates the tensors an architecture asks for, then places and fills them.

    Attributes: `tensors` by (name, device name); `buffers` per device; `moved` names weights that
    their layer's device cannot compute with, with the reason, now on the CPU.
    """

    def __init__(self, file: GGUFFile, placement: Placement) -> None:
        self.file = file
        self.placement = placement
        self.buffers: dict[str, list[Buffer]] = {}
        self.moved: list[str] = []
        self._contexts: dict[str, Context] = {}
        self._devices: dict[str, Device] = {}
        self._made: dict[tuple[str, str], Tensor] = {}
        self._sources: list[tuple[Tensor, TensorInfo]] = []
        self._used: set[str] = set()
        self._probe = WeightProbe()

    def get(
        self,
        name: str,
        ne: Sequence[int] | None = None,
        *,
        layer: int,
        required: bool = True,
    ) -> Tensor | None:
        """The weight `name` on the device of `layer` (-1: input layer, `n_layer`: output layer).

        None when it is absent and not required. Raises `GGUFError` for a missing tensor,
        `ModelError` for a shape other than `ne` or a type that no device computes with.
        """
        info = self.file.tensors.get(name)
        if info is None:
            if required:
                self.file.require_tensor(name)
            return None
        if ne is not None and tuple(info.ne) != (*ne, *(1,) * (4 - len(ne))):
            raise ModelError(
                f"{self.file.path}: tensor {name!r} has ne {list(info.ne)}, "
                f"{self.file.architecture} needs {list(ne)} by the file's keys"
            )
        self._used.add(name)
        device = self.placement.cpu if layer < 0 else self.placement.device_of(layer)
        return self._on(device, name, info)

    def need(self, name: str, ne: Sequence[int] | None = None, *, layer: int) -> Tensor:
        """Like `get`, for weights that must be there."""
        t = self.get(name, ne, layer=layer)
        assert t is not None
        return t

    def _on(self, device: Device, name: str, info: TensorInfo) -> Tensor:
        key = (name, device.name)
        if key in self._made:
            return self._made[key]
        probe = Tensor(info.type, info.ne, (0, 0, 0, 0))
        reason = self._probe.why_not(device, probe)
        if reason is not None:
            if device is self.placement.cpu:
                raise ModelError(
                    f"{self.file.path}: tensor {name!r} of type {type_name(info.type)} cannot be "
                    f"computed with: {reason}; re-quantise the file to a supported type"
                )
            self.moved.append(f"{name} ({type_name(info.type)}): {reason}")
            return self._on(self.placement.cpu, name, info)
        ctx = self._contexts.setdefault(
            device.name, Context(2 * len(self.file.tensors) + 8, name=f"weights on {device.name}")
        )
        self._devices[device.name] = device
        t = ctx.new_tensor(info.type, info.ne, name=name)
        self._made[key] = t
        self._sources.append((t, info))
        return t

    def unused(self) -> list[str]:
        """Names of tensors in the file that the architecture did not ask for."""
        return sorted(set(self.file.tensors) - self._used)

    def load(self, progress: Progress | None = None, *, fill: bool = True) -> None:
        """Place every tensor asked for and fill it from the file; without `fill` devices get no
        contents, which is enough to plan graphs."""
        cpu = self.placement.cpu
        for name, ctx in self._contexts.items():
            device = self._devices[name]
            if device is not cpu:
                self.buffers[name] = alloc_ctx_tensors(
                    ctx, device.buffer_type(), usage=BufferUsage.WEIGHTS
                )
        total = sum(info.nbytes for _, info in self._sources) or 1
        done = 0
        wrap = cpu.buffer_type().buffer_from_host  # type: ignore[attr-defined]
        mapped = self.buffers.setdefault(cpu.name, [])
        for t, info in self._sources:
            data = self.file.data(info)
            if t.buffer is None:
                buffer = wrap(data)
                buffer.usage = BufferUsage.WEIGHTS
                t.buffer, t.data = buffer, 0
                buffer.init_tensor(t)
                mapped.append(buffer)
            elif fill:
                t.buffer.set_tensor(t, data)
            done += info.nbytes
            if progress is not None:
                progress(done / total, t.name)

    def nbytes(self) -> dict[str, int]:
        """Bytes of weights per device name."""
        return {name: sum(b.size for b in bufs) for name, bufs in self.buffers.items()}

    def free(self) -> None:
        """Give all weight buffers back."""
        for bufs in self.buffers.values():
            for b in bufs:
                b.free()
        self.buffers.clear()
