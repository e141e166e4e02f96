"""CUSTOM: the NumPy reference of ops that users registered (wggml/custom.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml import custom
from wggml.backends.cpu.arrays import Array
from wggml.backends.cpu.ops._impl import OpImpl
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def _compile(c: Compiler, node: Tensor) -> None:
    op = custom.op_of(node)
    assert op is not None
    srcs = [_as_shown(c.array(s) if s.type == Type.I32 else c.load(s), s) for s in node.src if s]
    out = _as_shown(c.array(node) if node.type == Type.I32 else c.out(node), node)
    params = op.params_of(node)

    def run() -> None:
        found = np.asarray(op.reference(*srcs, **params))
        if found.shape != out.shape:
            raise ShapeError(
                f"the reference of {op.name} gave shape {found.shape}; its shape rule says "
                f"{out.shape} (innermost last)"
            )
        np.copyto(out, found, casting="same_kind")

    c.emit(run)


def _as_shown(a: Array, t: Tensor) -> Array:
    """The 4 dimensions of an array without leading ones, as `Tensor.numpy()` shows it."""
    shown: Array = a[(0,) * (4 - t.n_dims)]
    return shown


OPS = {Op.CUSTOM: OpImpl(_compile, custom.why_not)}
