"""How tensors are called on maps and in tables."""

from __future__ import annotations

from wggml.core.opcodes import Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import type_name
from wggml.hal.interface import BufferUsage


def op_label(t: Tensor) -> str:
    """`MUL_MAT`; for UNARY and GLU which one it is, as in `SILU` or `SWIGLU`."""
    if t.op == Op.UNARY:
        return t.unary_op.name
    return t.glu_op.name if t.op == Op.GLU else Op(t.op).name


def type_label(t: Tensor) -> str:
    """The element type as files and flags spell it."""
    return type_name(t.type)


def weight_of(t: Tensor) -> Tensor | None:
    """The first source that is a weight."""
    for s in t.src:
        home = None if s is None else s.placed_in
        if home is not None and home.usage is BufferUsage.WEIGHTS:
            return s
    return None


def kind_of(t: Tensor) -> str:
    """What a place holds: `output`, `input`, `leaf` or `node`."""
    if t.flags & Flag.OUTPUT:
        return "output"
    if t.flags & Flag.INPUT:
        return "input"
    return "leaf" if t.op == Op.NONE else "node"


def name_of(t: Tensor) -> str:
    """The tensor's name; a view that only has what was done to it goes by its root as well."""
    if t.name.startswith(" (") and t.view_src is not None:
        return f"{t.view_src.name}{t.name}"
    return t.name or Op(t.op).name
