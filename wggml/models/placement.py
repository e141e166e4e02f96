"""Which device each layer lies on (`-ngl`), and whether a device can compute with a weight."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Device


@dataclass(frozen=True, slots=True)
class Placement:
    """Layers to devices, as llama.cpp's `-ngl` defines it.

    `n_gpu_layers` layers counted from the end go to `devices` (in order, in equal shares); the
    output layer counts as layer `n_layer`. The input layer always stays on the CPU.
    """

    n_layer: int
    n_gpu_layers: int
    devices: tuple[Device, ...]
    cpu: Device

    def device_of(self, il: int) -> Device:
        """The device of layer `il`; `il == n_layer` asks for the output layer."""
        n_all = self.n_layer + 1
        n_gpu = n_all if self.n_gpu_layers < 0 else min(self.n_gpu_layers, n_all)
        start = n_all - n_gpu
        if not self.devices or il < start:
            return self.cpu
        shares = [(i + 1) / len(self.devices) for i in range(len(self.devices))]
        return self.devices[bisect_right(shares, (il - start) / n_gpu)]


class WeightProbe:
    """Asks devices whether they run the op a weight is meant for; answers are remembered."""

    def __init__(self) -> None:
        self._answers: dict[tuple[int, Type, tuple[int, ...]], str | None] = {}

    def why_not(self, device: Device, t: Tensor) -> str | None:
        """None when `device` multiplies with a matrix (or reads rows, for vectors: adds it) of the
        type and shape of `t`, else its reason."""
        key = (id(device), t.type, t.ne)
        if key not in self._answers:
            self._answers[key] = device.why_not(_use(t))
        return self._answers[key]


def _use(t: Tensor) -> Tensor:
    ctx = Context(8, name="weight probe")
    w = ctx.new_tensor(t.type, t.ne)
    if t.n_dims == 1:
        return ops.mul(ctx, ctx.new_tensor(Type.F32, [t.ne[0], 4]), w)
    return ops.mul_mat(ctx, w, ctx.new_tensor(Type.F32, [t.ne[0], 4, t.ne[2], t.ne[3]]))
