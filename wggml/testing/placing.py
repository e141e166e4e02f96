"""Where the tensors of a case lie: one poisoned buffer with a guard around each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Backend, Buffer, BufferUsage
from wggml.testing.opdata import BuiltCase, Bytes, is_real

POISON = 0xFF  # every float of these bytes is NaN, every integer -1
SENTINEL = 0x5C
# Ops whose first operand is a weight in a model.
WEIGHT_OPS = frozenset({Op.MUL_MAT, Op.MUL_MAT_ID, Op.GET_ROWS})


@dataclass(slots=True)
class Placed:
    """Buffers of one case and the guard tensors between its tensors."""

    buffers: list[Buffer] = field(default_factory=list)
    guards: list[Tensor] = field(default_factory=list)

    def guards_are_whole(self) -> bool:
        """False when something was written outside the tensors."""
        return all((read_bytes(g) == SENTINEL).all() for g in self.guards)

    def free(self) -> None:
        for b in self.buffers:
            b.free()


def place(built: BuiltCase, backend: Backend, *, weights_buffer: bool = False) -> Placed:
    """Every root of the case in one buffer, its memory poisoned and guarded; views follow.

    `weights_buffer` puts constant first operands of matrix products and row look-ups into a buffer
    of their own with usage WEIGHTS.
    """
    placed = Placed()
    weights = weight_roots(built) if weights_buffer else []
    try:
        rest = [t for t in built.roots if t not in weights]
        _place(rest, backend, BufferUsage.COMPUTE, placed)
        if weights:
            _place(weights, backend, BufferUsage.WEIGHTS, placed)
    except BaseException:
        placed.free()
        raise
    for t in built.tensors:
        root = t.view_src
        if root is not None:
            assert root.buffer is not None and root.data is not None
            t.buffer, t.data = root.buffer, root.data + t.view_offs
            root.buffer.init_tensor(t)
    return placed


def weight_roots(built: BuiltCase) -> list[Tensor]:
    """Constant leafs that the case uses as a model uses its weights."""
    written = {n.view_src for n in built.graph.nodes if is_real(n) and n.view_src is not None}
    found: list[Tensor] = []
    for node in built.graph.nodes:
        a = node.src[0] if node.op in WEIGHT_OPS else None
        if a is None:
            continue
        root = a.view_src or a
        if root.op == Op.NONE and root not in written and root not in found:
            found.append(root)
    return found


def _place(roots: list[Tensor], backend: Backend, usage: BufferUsage, placed: Placed) -> None:
    buft = backend.buffer_type()
    align = max(buft.alignment, 4)

    def up(n: int) -> int:
        return -(-n // align) * align

    offset = align  # the first guard
    places: list[int] = []
    for t in roots:
        places.append(offset)
        offset = up(offset + buft.alloc_size(t)) + align
    buffer = buft.alloc_buffer(offset)
    buffer.usage = usage
    placed.buffers.append(buffer)
    buffer.clear(POISON)
    if usage != BufferUsage.WEIGHTS:
        ends = [up(p + buft.alloc_size(t)) for p, t in zip(places, roots, strict=True)]
        placed.guards.extend(_guard(buffer, at, align) for at in [0, *ends])
    for t, at in zip(roots, places, strict=True):
        t.buffer, t.data = buffer, at
        buffer.init_tensor(t)


def _guard(buffer: Buffer, at: int, nbytes: int) -> Tensor:
    guard = Tensor(Type.I8, (nbytes, 1, 1, 1), (1, nbytes, nbytes, nbytes))
    guard.set_name("sentinel")
    guard.buffer, guard.data = buffer, at
    buffer.init_tensor(guard)
    buffer.set_tensor(guard, np.full(nbytes, SENTINEL, np.uint8))
    return guard


def write_leafs(built: BuiltCase, *, blank: bool = False) -> None:
    """The recorded contents, or with `blank` zeros for all that is no index."""
    for r, t in zip(built.case.tensors, built.tensors, strict=True):
        if r.data is not None and r.data[1]:
            home = t.placed_in
            assert home is not None
            data = built.case.bytes_at(r.data)
            index = r.type in (Type.I8, Type.I16, Type.I32, Type.I64)
            home.set_tensor(t, np.zeros_like(data) if blank and not index else data)


def read_bytes(t: Tensor) -> Bytes:
    """The bytes of the span of `t`, wherever it lies."""
    home = t.placed_in
    assert home is not None
    return home.get_tensor(t)
