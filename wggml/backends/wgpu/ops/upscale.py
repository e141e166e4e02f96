"""UPSCALE: nearest, bilinear, bicubic and antialiased resampling.

Which inputs an output value is made of, and by which weights, is a table per dimension, made here
in float32 as ggml rounds; the kernel only adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_types, workgroup
from wggml.backends.wgpu.ops._walk import Dim, Walk, finish, strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op, ScaleFlag, ScaleMode
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

F32 = npt.NDArray[np.float32]
CUBIC = -0.75  # the free parameter of cubic convolution (Keys 1981)


@dataclass(frozen=True, slots=True)
class Taps:
    """Inputs and weights of each output along one dimension, both [outputs, taps]."""

    index: npt.NDArray[np.int64]
    weight: F32

    def packed(self) -> npt.NDArray[np.uint32]:
        """[outputs * taps, 2]: index, bits of the weight."""
        pairs = [self.index.astype(np.uint32), self.weight.astype(np.float32).view(np.uint32)]
        return np.stack(pairs, axis=-1).reshape(-1, 2)


def _factor(t: Tensor, a: Tensor, dim: int) -> np.float32:
    """Output size over input size, or of what lies between the first and last values."""
    out, size = t.ne[dim], a.ne[dim]
    corners = t.param_i32(0) & ScaleFlag.ALIGN_CORNERS and dim < 2 and out > 1 and size > 1
    return np.float32(out - 1) / np.float32(size - 1) if corners else np.float32(out / size)


def _nearest(out: int, size: int, factor: np.float32, offset: np.float32) -> Taps:
    at = (np.arange(out, dtype=np.float32) / factor).astype(np.int64)
    return Taps(np.minimum(at, size - 1)[:, None], np.ones((out, 1), np.float32))


def _positions(out: int, factor: np.float32, offset: np.float32) -> F32:
    at: F32 = (np.arange(out, dtype=np.float32) + offset) / factor - offset
    return at


def _bilinear(out: int, size: int, factor: np.float32, offset: np.float32) -> Taps:
    at = _positions(out, factor, offset)
    base = np.floor(at).astype(np.int64)
    low, high = np.clip(base, 0, size - 1), np.clip(base + 1, 0, size - 1)
    part = np.clip(at - low, 0, 1).astype(np.float32)
    return Taps(np.stack([low, high], 1), np.stack([1 - part, part], 1))


def _bicubic(out: int, size: int, factor: np.float32, offset: np.float32) -> Taps:
    at = _positions(out, factor, offset)
    base = np.floor(at).astype(np.int64)
    d = (at - base).astype(np.float32)

    def near(x: F32) -> F32:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x: F32) -> F32:
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC

    index = np.clip(base[:, None] + np.arange(-1, 3), 0, size - 1)
    return Taps(index, np.stack([far(d + 1), near(d), near(1 - d), far(2 - d)], 1))


def _triangle(out: int, size: int, factor: np.float32, offset: np.float32) -> Taps:
    """A triangle filter as wide as an output value, at least one input."""
    support = np.maximum(np.float32(1), 1 / factor)
    centre = (np.arange(out, dtype=np.float32) + offset) / factor
    first = np.maximum((centre - support + offset).astype(np.int64), 0)
    last = np.minimum((centre + support + offset).astype(np.int64), size)
    index = first[:, None] + np.arange(max(int((last - first).max()), 1))
    distance = np.abs(index.astype(np.float32) - centre[:, None] + offset) / support
    weight: F32 = np.where(index < last[:, None], np.maximum(1 - distance, 0), 0).astype(np.float32)
    total = weight.sum(axis=1, keepdims=True)
    weight /= np.where(total > 0, total, np.float32(1))
    return Taps(np.minimum(index, size - 1), weight)


METHODS = {
    (ScaleMode.NEAREST, False): _nearest,
    (ScaleMode.BILINEAR, False): _bilinear,
    (ScaleMode.BILINEAR, True): _triangle,
    (ScaleMode.BICUBIC, False): _bicubic,
    (ScaleMode.BICUBIC, True): _bicubic,
    (ScaleMode.NEAREST, True): _nearest,
}


def _taps(t: Tensor, a: Tensor) -> list[Taps]:
    bits = t.param_i32(0)
    method = METHODS[ScaleMode(bits & 0xFF), bool(bits & ScaleFlag.ANTIALIAS)]
    offset = np.float32(0.0 if bits & ScaleFlag.ALIGN_CORNERS else 0.5)
    return [
        (method if dim < 2 else _nearest)(t.ne[dim], a.ne[dim], _factor(t, a, dim), offset)
        for dim in range(4)
    ]


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    if source(t, 0).is_empty():
        return "an image without values"
    return why_not_types(t, frozenset({Type.F32}))


def _emit(b: PlanBuilder, t: Tensor) -> None:
    a = source(t, 0)
    taps = _taps(t, a)
    y, x = strides_of(t), strides_of(a)
    w = Walk([Dim(t.ne[i], {"dst": y[i]}, {"dst": 0}) for i in range(t.n_dims)], ("dst",))
    groups = finish(w, 1, workgroup(b.profile))
    sizes = [k.index.size for k in taps]
    b.dispatch(
        "image/upscale.wgsl",
        operands=[
            b.operand(a, "f32", name="src0"),
            b.constant(np.concatenate([k.packed() for k in taps]), "vec2<u32>", name="taps"),
            b.operand(t, "f32", name="dst", write=True),
        ],
        consts=w.consts,
        params={
            **w.params, "taps0": taps[0].index.shape[1], "taps1": taps[1].index.shape[1],
            "at1": sizes[0], "at2": sum(sizes[:2]), "at3": sum(sizes[:3]),
            **{f"src0_s{i}": x[i] for i in range(4)},
        },
        groups=groups,
        label="upscale",
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {Op.UPSCALE: OpImpl(_why_not, _emit)}
