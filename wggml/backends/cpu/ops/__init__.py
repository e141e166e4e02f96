"""Kernels by op: one module per family, one table row per op."""

from __future__ import annotations

import wggml.backends.cpu.ops.attention as attention
import wggml.backends.cpu.ops.backward as backward
import wggml.backends.cpu.ops.conv as conv
import wggml.backends.cpu.ops.custom as custom
import wggml.backends.cpu.ops.elementwise as elementwise
import wggml.backends.cpu.ops.image as image
import wggml.backends.cpu.ops.loss as loss
import wggml.backends.cpu.ops.matmul as matmul
import wggml.backends.cpu.ops.norm as norm
import wggml.backends.cpu.ops.recurrent as recurrent
import wggml.backends.cpu.ops.reduce as reduce
import wggml.backends.cpu.ops.rows as rows
import wggml.backends.cpu.ops.shape as shape
from wggml.backends.cpu.ops._impl import Fusion, OpImpl
from wggml.core.opcodes import Op

FAMILIES = (
    elementwise, norm, matmul, rows, shape, attention, reduce, conv, image, recurrent, loss,
    backward, custom,
)  # fmt: skip

OPS: dict[Op, OpImpl] = {op: impl for family in FAMILIES for op, impl in family.OPS.items()}

# What begins with such a node may take the next ones along.
FUSIONS: dict[Op, Fusion] = {Op.RMS_NORM: norm.fuse_rms_norm}
