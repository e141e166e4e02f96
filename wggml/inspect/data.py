"""What the engine decided for one graph, as plain data: a memory map, a split map, an op table.

`wggml.inspect.plan` and `snapshot` fill these classes; pages, JSON and windows draw them. Nothing
here refers to tensors, buffers or devices, so a `GraphPlan` outlives the graph it was taken from.

One axis serves all: a *step* is the index of a node in the order of execution, views included.
`BEFORE` (-1) is what is there before the first node runs, `n_steps` what is still there after the
last one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from wggml.alloc.plan import BEFORE

__all__ = [
    "BEFORE", "CAUSES", "BackendInfo", "Chunk", "Copy", "FixedMemory", "GraphPlan", "MemoryBuffer",
    "MemoryMap", "Node", "OpRow", "OpTable", "Rect", "SplitInfo", "SplitMap", "explain_cause",
]  # fmt: skip

CAUSES: dict[str, str] = {
    "usr": "the user chose this backend",
    "1.dst": "its memory lies on this backend already",
    "1.vsrc": "it is a view of memory on this backend",
    "1.inp": "the user writes it, so it lies in host memory",
    "1.off": "the batch is large enough to bring the weight from host memory",
    "1.wgt": "its weight (source {n}) lies on this backend",
    "2.sup": "it follows a neighbour, and this backend supports it",
    "3.upg": "a better backend uses the same memory",
    "3.best": "this backend reads most of its sources",
    "3.root": "it writes into a tensor that lies on this backend",
    "4.vsrc": "a view goes with its root",
    "4.cur": "it goes with the first node that reads it",
    "4.cpy": "a copy made for a split that reads it",
    "6.cpy": "a copy of an input, so that several runs can be in flight",
}
"""The scheduler's causes in words; `1.wgtN` names the source that decided."""


def explain_cause(cause: str) -> str:
    """A cause such as `1.wgt0` in words; empty for an unknown one."""
    if cause.startswith("1.wgt"):
        return CAUSES["1.wgt"].format(n=cause[5:])
    return CAUSES.get(cause, "")


@dataclass(slots=True)
class BackendInfo:
    """A backend of the scheduler, in priority order: its short name, the device in words, its kind
    (`gpu`, `igpu`, `accel`, `software`, `cpu`)."""

    name: str
    description: str
    kind: str


# ---- memory --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rect:
    """One tensor's place: bytes `offset` to `offset + size` of a chunk, from `start` to `end`.

    Attributes:
        buffer, chunk: index in `MemoryMap.buffers` and in its `chunks`.
        offset, size: bytes; `size` is what the allocator planned, at least `nbytes`.
        start, end: steps, both included.
        node: step of the node that makes it; -1 for leafs and for copies made between splits.
        kind: `node`, `leaf` (constants), `input` (written by the user), `output` (never given
            back), `copy` (of a tensor on another backend).
        inplace: name of the operand whose memory it took over while that was read; empty if none.
        reused: tensors that had (part of) these bytes just before.
    """

    name: str
    op: str
    type: str
    ne: tuple[int, int, int, int]
    nbytes: int
    buffer: int
    chunk: int
    offset: int
    size: int
    start: int
    end: int
    node: int
    kind: str
    inplace: str = ""
    reused: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Chunk:
    """`peak` is the high-water mark of this graph's plan, `size` the real buffer's bytes (larger
    where another graph needed more, 0 where none was made)."""

    peak: int
    size: int


@dataclass(slots=True)
class MemoryBuffer:
    """The compute memory of one buffer type.

    Attributes:
        name: the buffer type's; `backends`: indices of those that allocate in it.
        tensor_bytes: sum of all its tensors, each counted once: what it would take without reuse.
    """

    name: str
    backends: list[int]
    chunks: list[Chunk]
    tensor_bytes: int = 0

    @property
    def peak(self) -> int:
        """High-water mark over all chunks, in bytes."""
        return sum(c.peak for c in self.chunks)

    @property
    def size(self) -> int:
        """Bytes of the real buffers."""
        return sum(c.size for c in self.chunks)


@dataclass(slots=True)
class MemoryMap:
    """Where each tensor of a graph lies and when. `rects` are in order of `start`."""

    n_steps: int
    buffers: list[MemoryBuffer]
    rects: list[Rect]

    def live_at(self, step: int) -> list[Rect]:
        """The rectangles that hold a tensor while node `step` runs."""
        return [r for r in self.rects if r.start <= step <= r.end]

    def usage(self, buffer: int) -> list[int]:
        """Bytes in use at each step 0 .. n_steps - 1 in a buffer."""
        change = [0] * (self.n_steps + 2)
        for r in self.rects:
            if r.buffer == buffer:
                change[max(r.start, 0)] += r.size
                change[min(r.end, self.n_steps) + 1] -= r.size
                if r.inplace:  # the operand's last step is its successor's first
                    change[max(r.start, 0)] -= r.size
                    change[max(r.start, 0) + 1] += r.size
        out, total = [], 0
        for step in range(self.n_steps):
            total += change[step]
            out.append(total)
        return out


@dataclass(slots=True)
class FixedMemory:
    """Memory that outlives the graph: `what` is `weights` or `KV cache`, on a backend by index."""

    what: str
    backend: int
    nbytes: int


# ---- splits --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """One node in order of execution.

    Attributes:
        step: its index here; `index` the one in the graph as built.
        backend: index in `SplitMap.backends`; `cause` why (see `explain_cause`).
        split: index of its split.
        is_view: it computes nothing.
        sources: names of its operands.
        left: why better backends did not take it, empty where the best one runs it.
    """

    step: int
    index: int
    name: str
    op: str
    type: str
    ne: tuple[int, int, int, int]
    nbytes: int
    backend: int
    cause: str
    split: int
    is_view: bool
    sources: list[str]
    left: str = ""


@dataclass(slots=True)
class Copy:
    """`nbytes` of `name` brought from one backend to another (indices) before a split runs, at
    `step`. `made_at` is the step of the node that made it, -1 for inputs and weights."""

    name: str
    src: int
    dst: int
    nbytes: int
    split: int
    step: int
    made_at: int


@dataclass(slots=True)
class SplitInfo:
    """Steps `start` to `end` (exclusive), run by one backend in one go."""

    index: int
    backend: int
    start: int
    end: int


@dataclass(slots=True)
class SplitMap:
    """Which backend runs which node, and what is copied between them."""

    backends: list[BackendInfo]
    nodes: list[Node]
    splits: list[SplitInfo]
    copies: list[Copy]

    @property
    def copied_bytes(self) -> int:
        """Bytes copied between backends in one run."""
        return sum(c.nbytes for c in self.copies)


@dataclass(slots=True)
class OpRow:
    """All computing nodes of one op, on weights of one type, on one backend.

    Attributes:
        weight: type of the weight they read, empty where there is none.
        causes: how often each cause decided.
        left: why they are not on a better backend (each reason once); empty on the best one.
    """

    op: str
    weight: str
    backend: int
    count: int
    nbytes: int
    causes: dict[str, int]
    left: list[str]


@dataclass(slots=True)
class OpTable:
    """Which backend runs what."""

    backends: list[BackendInfo]
    rows: list[OpRow]


# ---- all of it -----------------------------------------------------------------------------------


@dataclass(slots=True)
class GraphPlan:
    """Everything decided for one graph.

    Attributes:
        title, notes: what was planned, in words.
        fixed: weights and caches; empty for a bare graph.
    """

    title: str
    memory: MemoryMap
    splits: SplitMap
    ops: OpTable
    fixed: list[FixedMemory] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, with the sums that the properties give."""
        out = asdict(self)
        for data, buffer in zip(out["memory"]["buffers"], self.memory.buffers, strict=True):
            data["peak"], data["size"] = buffer.peak, buffer.size
        out["splits"]["copied_bytes"] = self.splits.copied_bytes
        return out
