"""What a kernel is, and checks that several share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.backends.cpu.arrays import readable, writable
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import ShapeError

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

WhyNot = Callable[[Tensor], str | None]
Compile = Callable[["Compiler", Tensor], None]
# Compiles nodes[i] together with those that follow; returns how many nodes it did, 0 for none.
Fusion = Callable[["Compiler", list[Tensor], int], int]


@dataclass(frozen=True, slots=True)
class OpImpl:
    """`compile(c, node)` emits the steps of a node; `why_not(node)` says in words why it cannot,
    or None. The frame skips empty nodes, so kernels see at least one element."""

    compile: Compile
    why_not: WhyNot


def anything(node: Tensor) -> str | None:
    """No restriction."""
    return None


def floats(node: Tensor) -> str | None:
    """All sources readable as f32 and the result storable from f32; rows of block types whole."""
    for t in node.src:
        if t is not None and not readable(t.type):
            return f"source of type {TRAITS[t.type].name}"
        if t is not None and TRAITS[t.type].is_quantized and not t.is_contiguous_rows():
            return f"a {TRAITS[t.type].name} source whose rows have gaps"
    if not writable(node.type):
        return f"a result of type {TRAITS[node.type].name}"
    return None


def only(*types: Type) -> WhyNot:
    """Sources and result all of one of these types."""
    allowed = frozenset(types)

    def why_not(node: Tensor) -> str | None:
        for t in (*node.src, node):
            if t is not None and t.type not in allowed:
                return f"an operand of type {TRAITS[t.type].name}"
        return None

    return why_not


F32_ONLY = only(Type.F32)


def check_index(index: npt.NDArray[Any], n: int, node: Tensor) -> None:
    """Raise `ShapeError` unless all row numbers are in 0..n-1 (NumPy would wrap negative ones)."""
    if index.size and (int(index.min()) < 0 or int(index.max()) >= n):
        raise ShapeError(
            f"{node.op.name} {node.name!r}: row numbers {int(index.min())}..{int(index.max())} "
            f"reach outside the {n} rows there are; check the index tensor's contents"
        )


def take_rows(rows: npt.NDArray[Any], index: npt.NDArray[Any], out: Any, node: Tensor) -> None:
    """out[...] = rows[index], along the first axis."""
    check_index(index, rows.shape[0], node)
    np.take(rows, index, axis=0, out=out, mode="clip")
