"""When a stored plan may serve a graph again, and how its addresses are then written.

`SafeRule` compares what the plan was derived from. `PositionalRule` is ggml's: it compares counts
and sizes position by position, and serves graphs of another topology with places that do not suit
them. It exists to follow recorded data exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from wggml.alloc.plan import Place
from wggml.alloc.planner import Planner
from wggml.alloc.tallocr import place, unplace, view_init
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag
from wggml.core.tensor import Shape4, Tensor
from wggml.errors import AllocationError
from wggml.hal.interface import Buffer, BufferType, BufferUsage

# buffers[buffer id][chunk]; None for an id without memory
Chunks = Sequence[Sequence[Buffer] | None]

_IO = int(Flag.INPUT | Flag.OUTPUT)
_TO_PLACE, _PLACED, _VIEW = 0, 1, 2


class Rule(ABC):
    """What a `Gallocr` remembers of the graph it planned last."""

    exact: bool  # plan as ggml does, see `Planner`

    def __init__(self, bufts: Sequence[BufferType]) -> None:
        self.bufts = bufts

    @abstractmethod
    def prepare(self, graph: Graph, own: set[int]) -> None:
        """Called before `graph` is planned; `own` holds the `id` of the allocator's buffers."""

    @abstractmethod
    def remember(self, graph: Graph, planned: Planner) -> None:
        """Keep what is needed to recognise `graph` and to place it."""

    @abstractmethod
    def mismatch(self, graph: Graph, own: set[int]) -> str:
        """Why the plan does not serve `graph`; empty when it does."""

    @abstractmethod
    def write(self, graph: Graph, chunks: Chunks) -> None:
        """Give the tensors of `graph`, which fits, their places."""


class PositionalRule(Rule):
    """ggml's rule."""

    exact = True

    def __init__(self, bufts: Sequence[BufferType]) -> None:
        super().__init__(bufts)
        self.leafs: list[Place | None] = []
        self.nodes: list[tuple[Place | None, list[Place | None]]] = []

    def prepare(self, graph: Graph, own: set[int]) -> None:
        pass

    def remember(self, graph: Graph, planned: Planner) -> None:
        place_of = planned.place_of
        self.leafs = [place_of(t) for t in graph.leafs]
        self.nodes = [
            (place_of(t), [None if s is None else place_of(s) for s in t.src]) for t in graph.nodes
        ]

    def mismatch(self, graph: Graph, own: set[int]) -> str:
        if len(graph.nodes) != len(self.nodes):
            return f"it has {len(graph.nodes)} nodes, the plan {len(self.nodes)}"
        if len(graph.leafs) != len(self.leafs):
            return f"it has {len(graph.leafs)} leafs, the plan {len(self.leafs)}"
        for t, (p, sources) in zip(graph.nodes, self.nodes, strict=True):
            if not self._fits(t, p):
                return f"node {t.name!r} does not fit"
            for j, s in enumerate(t.src):
                if s is not None and not self._fits(s, sources[j] if j < len(sources) else None):
                    return f"source {j} ({s.name!r}) of node {t.name!r} does not fit"
        return ""

    def _fits(self, t: Tensor, p: Place | None) -> bool:
        if t.data is not None or t.view_src is not None:
            return True
        return p is not None and self.bufts[p.buffer_id].alloc_size(t) <= p.size

    def write(self, graph: Graph, chunks: Chunks) -> None:
        for t, p in zip(graph.leafs, self.leafs, strict=True):
            _write(t, p, chunks)
        for t, (p, sources) in zip(graph.nodes, self.nodes, strict=True):
            for j, s in enumerate(t.src):
                if s is not None:
                    _write(s, sources[j] if j < len(sources) else None, chunks)
            _write(t, p, chunks)


def _write(t: Tensor, p: Place | None, chunks: Chunks) -> None:
    if t.view_src is not None:
        if t.buffer is None and t.view_src.buffer is not None:
            view_init(t)
    elif t.data is None and p is not None:
        buffers = chunks[p.buffer_id]
        assert buffers is not None
        place(t, buffers[p.chunk], p.offset)


class SafeRule(Rule):
    """Serves a graph only when planning it would lead to places that the stored ones cover.

    Compared are, for each tensor in order: op, INPUT and OUTPUT flags, whether it has a place
    already, which tensor it views, and which tensors are its sources. With these equal, tensors
    live equally long. Further, each must need at most the bytes planned for it, and a node that
    took an operand's memory over must still have that operand's layout. So a plan for the largest
    batch serves smaller ones of the same structure.

    Tensors that lie in the allocator's own memory count as unplaced, and are placed anew.
    """

    exact = False

    def __init__(self, bufts: Sequence[BufferType]) -> None:
        super().__init__(bufts)
        self.counts = (-1, -1)
        self.topology: list[tuple[Any, ...]] = []
        self.places: list[Place | None] = []
        self.layouts: list[tuple[Any, Shape4, Shape4]] = []
        self.inplace: list[tuple[int, int]] = []
        self._walked: tuple[Graph, list[Tensor]] | None = None  # by `mismatch`, for `write`
        # A backend may need more for a tensor than its layout tells; then its word is asked.
        self.by_layout = [type(b).alloc_size is BufferType.alloc_size for b in bufts]

    def prepare(self, graph: Graph, own: set[int]) -> None:
        tensors, _ = _walk(graph, own)
        for t in tensors:
            b = t.buffer
            if b is not None and (id(b) in own or _is_stale(t, b)):
                unplace(t)

    def remember(self, graph: Graph, planned: Planner) -> None:
        tensors, self.topology = _walk(graph, set())
        self.counts = (len(graph.leafs), len(graph.nodes))
        self.places = [planned.place_of(t) for t in tensors]
        self.layouts = [(t.type, t.ne, t.nb) for t in tensors]
        index = {t: i for i, t in enumerate(tensors)}
        self.inplace = [(index[t], index[s]) for t, s in planned.inplace]

    def mismatch(self, graph: Graph, own: set[int]) -> str:
        if (len(graph.leafs), len(graph.nodes)) != self.counts:
            return f"its counts of leafs and nodes are not the plan's {self.counts}"
        tensors, topology = _walk(graph, own)
        self._walked = (graph, tensors)
        if topology != self.topology:
            return self._first_difference(tensors, topology)
        bufts, by_layout = self.bufts, self.by_layout
        for t, p, layout in zip(tensors, self.places, self.layouts, strict=True):
            if p is None or (by_layout[p.buffer_id] and (t.type, t.ne, t.nb) == layout):
                continue
            if bufts[p.buffer_id].alloc_size(t) > p.size:
                return f"{t.name!r} needs more than the {p.size} bytes planned for it"
        for i, j in self.inplace:
            if not tensors[i].same_layout(tensors[j]):
                return f"{tensors[i].name!r} no longer has the layout of the operand it overwrites"
        return ""

    def _first_difference(self, tensors: list[Tensor], topology: list[tuple[Any, ...]]) -> str:
        for t, a, b in zip(tensors, topology, self.topology, strict=False):
            if a != b:
                return f"{t.name!r} has another op, flag, view, source or state of placement"
        return "it refers to other tensors outside the graph"

    def write(self, graph: Graph, chunks: Chunks) -> None:
        walked, self._walked = self._walked, None
        known = walked is not None and walked[0] is graph
        tensors = walked[1] if known and walked is not None else _walk(graph, set())[0]
        for t, p in zip(tensors, self.places, strict=True):
            if p is not None:
                buffers = chunks[p.buffer_id]
                assert buffers is not None
                buffer = buffers[p.chunk]
                t.buffer = buffer
                t.data = p.offset
                buffer.init_tensor(t)
        for t in tensors:
            root = t.view_src
            if root is not None and root.buffer is not None and root.data is not None:
                data = root.data + t.view_offs
                if t.buffer is not root.buffer or t.data != data:
                    place(t, root.buffer, data)


def _walk(graph: Graph, own: set[int]) -> tuple[list[Tensor], list[tuple[Any, ...]]]:
    """All tensors a graph refers to, each once, and what they are in terms of that list.

    Leafs and nodes come first, then their sources and roots that are neither.
    """
    tensors = list(dict.fromkeys([*graph.leafs, *graph.nodes]))
    n = len(tensors)
    index: dict[Tensor | None, int] = {t: i for i, t in enumerate(tensors)}
    index[None] = -1
    topology: list[tuple[Any, ...]] = []
    i = 0
    while i < len(tensors):
        t = tensors[i]
        sources = t.src if i < n else []
        try:
            ids = [index[s] for s in sources]
            root = index[t.view_src]
        except KeyError:
            for s in (*sources, t.view_src):
                if s not in index:
                    index[s] = len(tensors)
                    tensors.append(s)  # type: ignore[arg-type]  # None is in the index
            continue
        if root >= 0:
            state = _VIEW
        elif t.buffer is None:
            state = _TO_PLACE if t.data is None else _PLACED
        else:
            state = _TO_PLACE if id(t.buffer) in own or _is_stale(t, t.buffer) else _PLACED
        topology.append((t.op, t.flags & _IO, state, root, ids))
        i += 1
    return tensors, topology


def _is_stale(t: Tensor, buffer: Buffer) -> bool:
    """True when `t` lay in compute memory that is gone. Other memory that is gone is an error:
    what the tensor held is lost and no plan can bring it back."""
    if not buffer.freed:
        return False
    if buffer.usage == BufferUsage.COMPUTE:
        return True
    raise AllocationError(
        f"tensor {t.name!r} lies in a {buffer.buft.name} buffer of {buffer.size} bytes that was "
        "freed; keep the buffer alive as long as graphs read it"
    )
