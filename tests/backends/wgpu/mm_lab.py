"""Products to compare: weights of any type with their exact values, and NumPy's answer in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from wgpu_lab import Lab, rng, values

from wggml.core import ops
from wggml.core.tensor import Tensor
from wggml.core.types import Type, row_size
from wggml.hal.interface import BufferUsage
from wggml.quants.api import dequantize_rows, quantize
from wggml.quants.layouts import LAYOUTS, set_field

F64 = npt.NDArray[np.float64]
PLAIN = (Type.F32, Type.F16, Type.BF16)


def weight_bytes(type_: Type, rows: int, k: int, *seed: int) -> npt.NDArray[np.uint8]:
    """Random rows as a file has them: every code and scale occurs, block scales are small."""
    if type_ in PLAIN:
        return quantize(values((rows, k), *seed), type_)
    g = rng(*seed)
    raw = g.integers(0, 256, (rows, row_size(type_, k)), dtype=np.uint8)
    records = raw.reshape(-1).view(LAYOUTS[type_])
    names = set(records.dtype.names or ())
    if type_ == Type.NVFP4:
        set_field(records, "d", g.integers(0, 0x40, (len(records), 4), dtype=np.uint8))
        names.clear()
    if "e" in names:
        records["e"] = g.integers(110, 125, len(records))
    if type_ == Type.IQ1_M:  # d is spread over the upper bits of the scales: keep it below 2^-6
        scales = g.integers(0, 1 << 12, (len(records), 4), dtype=np.uint16)
        scales[:, 3] |= 0x2000
        set_field(records, "scales", scales)
    for name in {"d", "m", "dmin"} & names:
        records[name] = (g.random(len(records)) * 0.02 - 0.005).astype(np.float16)
    return raw


def weights(
    lab: Lab, type_: Type, ne: tuple[int, ...], *seed: int, packed: bool = True
) -> tuple[Tensor, F64]:
    """A weight tensor [k, m, ...] and its values [..., m, k]."""
    rows = int(np.prod(ne[1:]))
    raw = weight_bytes(type_, rows, ne[0], *seed)
    t = lab.ctx.new_tensor(type_, ne)
    lab.place(t, usage=BufferUsage.WEIGHTS if packed else BufferUsage.COMPUTE)
    assert t.buffer is not None
    t.buffer.set_tensor(t, raw.reshape(-1))
    exact = dequantize_rows(raw, type_).astype(np.float64).reshape(*ne[:0:-1], ne[0])
    return t, exact


def product(lab: Lab, w: Tensor, x: Tensor) -> npt.NDArray[np.float32]:
    return np.asarray(lab.run(ops.mul_mat(lab.ctx, w, x)))


def assert_close(got: Any, want: F64, scale: Any = None) -> None:
    """Equal up to f32 rounding: 2e-6 of the largest terms that went into a sum."""
    got = np.asarray(got).reshape(want.shape)
    assert np.isfinite(got).all()
    limit = 2e-6 * (np.abs(want).max() if scale is None else scale) + 1e-9
    worst = float((np.abs(got - want) / limit).max())
    assert worst <= 1, f"{worst:.2f} times the tolerance"


def magnitude(w: F64, x: F64) -> F64:
    """Sum of the terms' magnitudes, [n, m]: what rounding errors of a product scale with."""
    return np.asarray(np.abs(x) @ np.abs(w).T)
