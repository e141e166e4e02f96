"""What kernels with one workgroup per row share."""

from __future__ import annotations

from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.tensor import Tensor


def lanes(profile: DeviceProfile, n: int) -> int:
    """Lanes of a workgroup that shares a row of `n` elements.

    Software adapters run a workgroup on one core, eight lanes at once, and pay for every barrier
    per eight lanes; a GPU wants its lanes filled.
    """
    if profile.is_software:
        return 8
    top = min(256, profile.max_invocations)
    return max(32, min(top, 1 << max(n - 1, 1).bit_length()))


def row_params(t: Tensor, vec: int, **operands: Tensor) -> dict[str, int | float]:
    """Row counts of `t` and, per operand, the strides of dimensions 1-3 in elements of `vec`
    values; 0 where an operand has only one row to offer."""
    params: dict[str, int | float] = {"n1": t.ne[1], "n2": t.ne[2], "n_rows": t.n_rows}
    for name, s in operands.items():
        strides = strides_of(s)
        for i in (1, 2, 3):
            params[f"{name}_s{i}"] = strides[i] // vec if s.ne[i] > 1 else 0
    return params
