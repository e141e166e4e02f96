"""`OpImpl`: what an op family hands to the backend for each of its ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

WhyNot = Callable[[DeviceProfile, Tensor], str | None]
Emit = Callable[["PlanBuilder", Tensor], None]


@dataclass(frozen=True, slots=True)
class OpImpl:
    """One op on wgpu.

    `why_not(profile, t)` is None when these operands run, else the reason in words; it is asked
    often and before `t` has a place, so it looks at types, shapes and strides only. `emit(b, t)`
    adds the dispatches; called once a plan. `windows` tells that it splits operands larger than
    one binding by itself; without it such operands are refused before `why_not` is asked.
    """

    why_not: WhyNot
    emit: Emit
    windows: bool = False
