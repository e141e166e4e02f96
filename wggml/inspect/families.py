"""Ops in the few families that maps and timelines colour them by."""

from __future__ import annotations

from wggml.core.opcodes import GluOp, UnaryOp

FAMILIES: dict[str, str] = {
    "matmul": "matrix products",
    "attention": "attention",
    "norm": "norms",
    "elementwise": "elementwise",
    "rope": "rope",
    "rows": "rows, copies of memory",
    "other": "other ops",
    "input": "inputs",
    "leaf": "constants",
    "copy": "copies from another backend",
}
"""Family -> its name for people."""

_MEMBERS: dict[str, str] = {
    "matmul": "MUL_MAT MUL_MAT_ID OUT_PROD CONV_2D CONV_3D CONV_2D_DW CONV_TRANSPOSE_1D "
    "CONV_TRANSPOSE_2D",
    "attention": "FLASH_ATTN_EXT FLASH_ATTN_BACK SOFT_MAX SOFT_MAX_BACK",
    "norm": "NORM RMS_NORM RMS_NORM_BACK GROUP_NORM L2_NORM",
    "elementwise": "UNARY GLU ADD ADD_ID ADD1 SUB MUL DIV SQR SQRT LOG SIN COS SCALE CLAMP "
    "SILU_BACK " + " ".join(e.name for e in (*UnaryOp, *GluOp)),
    "rope": "ROPE ROPE_BACK",
    "rows": "GET_ROWS GET_ROWS_BACK SET_ROWS CPY CONT DUP CONCAT REPEAT REPEAT_BACK SET ACC",
}
_FAMILY_OF = {op: family for family, ops in _MEMBERS.items() for op in ops.split()}


def family_of(op: str) -> str:
    """The family of an op by its label (`words.op_label`)."""
    return _FAMILY_OF.get(op, "other")
