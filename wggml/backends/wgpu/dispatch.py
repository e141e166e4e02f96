"""`Dispatch`: one entry of a plan, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wggml.backends.wgpu.binding import Slot
from wggml.backends.wgpu.pipelines import Pipeline


@dataclass(slots=True)
class Dispatch:
    """A pipeline, what it binds, a block of parameters per part, the grid. Where the blocks lie in
    the plan's uniform buffer, and the bind group, are set when the plan is complete."""

    label: str
    node: str
    pipeline: Pipeline
    slots: tuple[Slot, ...]
    params: tuple[bytes, ...]
    groups: tuple[int, int, int]
    params_at: tuple[int, ...] = ()
    bind_group: Any = None
