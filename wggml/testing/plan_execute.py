"""Runs a placed graph on tokens instead of numbers, to see whether any memory is given away early.

Every root tensor has memory of its own beside the planned one. A node writes a token that was never
used before to both; whatever is read must hold in the planned memory what it holds in its own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, INPLACE_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.hal.interface import Buffer

Tokens = npt.NDArray[np.int64]
_OUTPUT, _PARAM = int(Flag.OUTPUT), int(Flag.PARAM)
NEVER = -1  # bytes that nothing was written to

# Ops that read operands other than the first at other elements than they write.
_GATHERING = frozenset({Op.ADD_ID, Op.ROPE, Op.ROPE_BACK, Op.SOFT_MAX})


@dataclass(slots=True)
class _Memory:
    planned: dict[Buffer, Tokens] = field(default_factory=dict)
    own: dict[Tensor, Tokens] = field(default_factory=dict)
    token: Any = field(default_factory=lambda: itertools.count(1))

    def planned_bytes(self, t: Tensor) -> Tokens | None:
        if t.buffer is None or t.data is None:
            return None
        if t.buffer not in self.planned:
            self.planned[t.buffer] = np.full(t.buffer.size, NEVER, np.int64)
        return self.planned[t.buffer][t.data : t.data + t.nbytes]

    def own_bytes(self, t: Tensor) -> Tokens:
        root = t.view_src if t.view_src is not None else t
        if root not in self.own:
            self.own[root] = np.full(root.nbytes, NEVER, np.int64)
        return self.own[root][t.view_offs : t.view_offs + t.nbytes]

    def write(self, t: Tensor) -> None:
        token = next(self.token)
        planned = self.planned_bytes(t)
        if planned is not None:
            planned[:] = token
        self.own_bytes(t)[:] = token

    def intact(self, t: Tensor) -> bool:
        """True when the written bytes of `t` are in planned memory as they should be."""
        planned, own = self.planned_bytes(t), self.own_bytes(t)
        return planned is None or bool(np.all((planned == own) | (own == NEVER)))


def memory_errors(graph: Graph) -> list[str]:
    """What would be wrong if the placed `graph` were run once, in words; empty when all is well.

    Checked: places lie inside live buffers; all leafs are intact when read; so is every operand;
    a result overlaps an operand only in the ways an in-place op allows; outputs, and views marked
    as output, are intact in the end.
    """
    memory = _Memory()
    errors = [e for t in (*graph.leafs, *graph.nodes) if (e := _bad_place(t))]
    if errors:
        return errors
    params = [t for t in graph.nodes if t.op == Op.NONE and t.flags & _PARAM]
    for t in (*graph.leafs, *params):
        if t.view_src is None:
            memory.write(t)
    for node in graph.nodes:
        if node.op in EMPTY_OPS:
            if node.op == Op.NONE and node.view_src is None and not node.flags & _PARAM:
                memory.write(node)  # a copy made here by the scheduler
            continue
        sources = [s for s in node.src if s is not None]
        errors += [
            f"{s.name!r}, read by {node.name!r}, was overwritten"
            for s in sources
            if not memory.intact(s)
        ]
        errors += [e for s in sources if (e := _bad_overlap(node, s))]
        memory.write(node)
    errors += [
        f"output {t.name!r} was overwritten before the end"
        for t in (*graph.leafs, *graph.nodes)
        if t.flags & _OUTPUT and not memory.intact(t)
    ]
    return errors


def _bad_place(t: Tensor) -> str:
    if t.buffer is None or t.data is None:
        return "" if t.view_src is not None else f"{t.name!r} was not placed"
    if t.buffer.freed:
        return f"{t.name!r} lies in a freed buffer"
    if t.data < 0 or t.data + t.nbytes > t.buffer.size:
        return f"{t.name!r} ends at {t.data + t.nbytes} in a buffer of {t.buffer.size} bytes"
    root = t.view_src
    if root is not None and (
        t.buffer is not root.buffer or t.data != (root.data or 0) + t.view_offs
    ):
        return f"view {t.name!r} does not lie where its root does"
    return ""


def _bad_overlap(node: Tensor, s: Tensor) -> str:
    if node.view_src is not None and s in (node.view_src, *_views_of(node, s)):
        return ""  # in place by the user's own wish
    if node.buffer is None or s.buffer is not node.buffer or node.data is None or s.data is None:
        return ""
    if not node.nbytes or not s.nbytes:
        return ""
    if node.data >= s.data + s.nbytes or s.data >= node.data + node.nbytes:
        return ""
    fits = node.op in INPLACE_OPS and node.data == s.data and node.same_layout(s)
    if fits and not (node.op in _GATHERING and s is not node.src[0]):
        return ""
    return f"{node.op.name} {node.name!r} overlaps its operand {s.name!r}"


def _views_of(node: Tensor, s: Tensor) -> list[Tensor]:
    return [s] if s.view_src is not None and s.view_src is node.view_src else []
