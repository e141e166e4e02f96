"""In the making."""

from __future__ import annotations

from wggml.backends.wgpu.family import OpImpl
from wggml.core.opcodes import Op

FAMILY: dict[Op, OpImpl] = {}
