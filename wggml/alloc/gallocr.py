"""`Gallocr`: plans a graph's memory once, makes the buffers, and only writes addresses after."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from wggml.alloc.dyn_tallocr import DynTallocr, pad
from wggml.alloc.empty import EmptyBuffer
from wggml.alloc.plan import Plan
from wggml.alloc.planner import Planner
from wggml.alloc.rules import PositionalRule, Rule, SafeRule
from wggml.alloc.tallocr import unplace
from wggml.core.graph import Graph, next_uid
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError
from wggml.hal.interface import UNLIMITED, Buffer, BufferType, BufferUsage

KeyKind = Literal["safe", "positional"]
_RULES: dict[str, type[Rule]] = {"safe": SafeRule, "positional": PositionalRule}
Ids = Sequence[int] | None


SMALLER_CHUNK_TRIES = 3


@dataclass(slots=True)
class _Refused:
    """A request that a buffer type refused."""

    slot: int
    chunk: int
    size: int
    error: AllocationError


class Gallocr:
    """The allocator of graphs over one or several kinds of memory.

    Contract of every call that plans or places: True when done; False, from `alloc_graph` with
    several buffer ids only, when the graph needs `reserve_n` first; `AllocationError` when the
    memory cannot be had (`PlanError` when a fixed limit of the allocator is in the way). After an
    error the plan stands without memory: nothing was placed, and the next call tries again.

    A device that refuses a buffer although it is within its stated limit is asked for smaller
    chunks, down to an eighth, before that is an error.

    Args:
        bufts: the buffer type of each buffer id; ids that name the same object share memory.
        key: when a plan may serve another graph. `"safe"`: when planning that graph would lead to
            the same places or smaller ones (`SafeRule`). `"positional"`: ggml's rule, counts and
            sizes only, which serves some graphs with places that corrupt them.

    Attributes:
        plan: the latest plan, as data. It stays when a call fails or does not plan.
        n_plans, n_reallocs: how often a plan was made, and memory was replaced by larger.

    `WGGML_ALLOC_DEBUG=1` prints each plan to stderr, `2` each allocation and release as well.
    """

    def __init__(self, bufts: Sequence[BufferType], *, key: KeyKind = "safe") -> None:
        self.bufts = list(bufts)
        self.key = key
        self.plan = Plan(chunk_sizes=[[] for _ in bufts])
        self.n_plans = 0
        self.n_reallocs = 0
        # Ids of one type share a slot: one DynTallocr, one list of buffers.
        self._slot = [self._first_use(i) for i in range(len(self.bufts))]
        self._tallocs = {
            i: DynTallocr(self.bufts[i].alignment, self.bufts[i].max_size)
            for i in sorted(set(self._slot))
        }
        self._chunks: dict[int, list[Buffer] | None] = dict.fromkeys(self._tallocs)
        self._rule = _RULES[key](self.bufts)
        self._ids: tuple[list[int] | None, list[int] | None] = (None, None)
        self._problem = "nothing was reserved yet"  # why the plan has no memory, empty if it has
        self._own: set[int] = set()
        self._debug = int(os.environ.get("WGGML_ALLOC_DEBUG") or 0)

    def _first_use(self, i: int) -> int:
        return next(j for j, b in enumerate(self.bufts) if b is self.bufts[i])

    def _sharing(self, slot: int) -> list[int]:
        return [i for i, s in enumerate(self._slot) if s == slot]

    # ---- planning ---------------------------------------------------------------------------

    def reserve(self, graph: Graph) -> bool:
        """Plan `graph` with buffer id 0 for all and make the memory; see `reserve_n`."""
        return self.reserve_n(graph, None, None)

    def reserve_n(self, graph: Graph, node_buffer_ids: Ids, leaf_buffer_ids: Ids) -> bool:
        """Plan `graph` and make sure there is memory for it.

        Buffers have exactly the plan's high-water marks; larger ones from an earlier plan stay. If
        one chunk must grow, all chunks of its buffer id are freed and requested anew.

        Args:
            node_buffer_ids, leaf_buffer_ids: parallel to the graph's nodes and leafs; None: all 0.

        Returns True. Raises `AllocationError` when a buffer cannot be had; that buffer id is left
        without memory.
        """
        limits = {slot: talloc.max_chunk_size for slot, talloc in self._tallocs.items()}
        for tries_left in range(SMALLER_CHUNK_TRIES, -1, -1):
            self._make_plan(graph, node_buffer_ids, leaf_buffer_ids)
            refused = self._make_memory()
            if refused is None:
                break
            if not (tries_left and self._halve_chunks(refused)):
                for slot, limit in limits.items():
                    self._tallocs[slot].max_chunk_size = limit
                raise AllocationError(self._describe(refused)) from refused.error
        self._problem = ""
        return True

    def _halve_chunks(self, refused: _Refused) -> bool:
        """Plan with chunks of half the refused size from now on; False where that cannot help."""
        _, largest = self.plan.largest(self._sharing(refused.slot), refused.chunk)
        if self._rule.exact or largest >= refused.size:
            return False
        talloc = self._tallocs[refused.slot]
        talloc.max_chunk_size = max(pad(refused.size // 2, talloc.alignment), talloc.alignment)
        return True

    def reserve_n_size(self, graph: Graph, node_buffer_ids: Ids, leaf_buffer_ids: Ids) -> list[int]:
        """Plan only; returns the bytes each buffer id needs (shared ones are repeated). Buffers
        that are too small for the plan are freed and not replaced."""
        self._make_plan(graph, node_buffer_ids, leaf_buffer_ids)
        dropped = self._too_small()
        for slot in dropped:
            self._drop(slot)
        self._problem = "its memory was only measured" if dropped else ""
        self._note_own()
        return [sum(sizes) for sizes in self.plan.chunk_sizes]

    def _make_plan(self, graph: Graph, node_ids: Ids, leaf_ids: Ids) -> None:
        self._rule.prepare(graph, self._own)
        for talloc in self._tallocs.values():
            talloc.reset()
        tallocs = [self._tallocs[slot] for slot in self._slot]
        self._problem = "the last graph could not be planned"
        trace = _print if self._debug > 1 else None
        planner = Planner(self.bufts, tallocs, exact=self._rule.exact, trace=trace)
        planner.run(graph, node_ids, leaf_ids)
        self._rule.remember(graph, planner)
        self._ids = (
            None if node_ids is None else list(node_ids),
            None if leaf_ids is None else list(leaf_ids),
        )
        nodes, leafs = graph.nodes, graph.leafs
        index = {t: i for i, t in enumerate((*leafs, *nodes))}
        self.plan = Plan(
            [planner.place_of(t) for t in nodes],
            [planner.place_of(t) for t in leafs],
            [t.max_sizes for t in tallocs],
            [t.name for t in nodes],
            [t.name for t in leafs],
            [planner.lifetime_of(t) for t in nodes],
            [planner.lifetime_of(t) for t in leafs],
            [(index[t], index[s]) for t, s in planner.inplace if t in index and s in index],
        )
        self.n_plans += 1
        self._problem = "its memory could not be had"
        if self._debug:
            _print(f"plan of a graph with {len(graph.nodes)} nodes\n{self.plan.table()}")

    # ---- memory -----------------------------------------------------------------------------

    def _too_small(self) -> list[int]:
        """Slots without memory or with a chunk that is smaller than planned."""
        found = []
        for slot, talloc in self._tallocs.items():
            have = self._chunks[slot]
            need = talloc.max_sizes
            if (
                have is None
                or len(have) < len(need)
                or any(b.size < n for b, n in zip(have, need, strict=False))
            ):
                found.append(slot)
        return found

    def _make_memory(self) -> _Refused | None:
        """Make the buffers the plan lacks; the first refusal ends it."""
        try:
            for slot in self._too_small():
                self.n_reallocs += bool(self._chunks[slot])
                self._drop(slot)
                made = self._request(slot)
                if isinstance(made, _Refused):
                    return made
                self._chunks[slot] = made
            return None
        finally:
            self._note_own()

    def _request(self, slot: int) -> list[Buffer] | _Refused:
        buft = self.bufts[slot]
        made: list[Buffer] = []
        for chunk, size in enumerate(self._tallocs[slot].max_sizes):
            try:
                buffer = buft.alloc_buffer(size) if size else None
            except AllocationError as e:
                for b in made:
                    b.free()
                return _Refused(slot, chunk, size, e)
            made.append(EmptyBuffer(buft, BufferUsage.COMPUTE) if buffer is None else buffer)
            made[-1].usage = BufferUsage.COMPUTE
        return made

    def _describe(self, refused: _Refused) -> str:
        slot, chunk = refused.slot, refused.chunk
        buft = self.bufts[slot]
        sizes = self._tallocs[slot].max_sizes
        name, nbytes = self.plan.largest(self._sharing(slot), chunk)
        limit = "no limit" if buft.max_size >= UNLIMITED else f"at most {buft.max_size} bytes"
        return (
            f"no compute memory for the graph: {buft.name} refused {refused.size} bytes "
            f"({refused.error}); it is chunk {chunk + 1} of {len(sizes)}, {sum(sizes)} "
            f"bytes in all; one buffer may have {limit}; "
            f"the largest tensor in it is {name!r} with {nbytes} bytes. Use a smaller ubatch (-ub) "
            "or context (-c), flash attention, or fewer layers on this device (-ngl)"
        )

    def _drop(self, slot: int) -> None:
        buffers = self._chunks[slot]
        self._chunks[slot] = None
        for b in buffers or ():
            b.free()
        self._note_own()

    def _note_own(self) -> None:
        self._own = {id(b) for buffers in self._chunks.values() for b in buffers or ()}

    # ---- placing ----------------------------------------------------------------------------

    def needs_realloc(
        self, graph: Graph, node_buffer_ids: Ids = None, leaf_buffer_ids: Ids = None
    ) -> bool:
        """True when `graph` must be reserved before it can be placed. Given buffer ids must name
        the memory that the plan was made for."""
        return bool(self.why_realloc(graph, node_buffer_ids, leaf_buffer_ids))

    def why_realloc(
        self, graph: Graph, node_buffer_ids: Ids = None, leaf_buffer_ids: Ids = None
    ) -> str:
        """The reason of `needs_realloc` in words, empty when there is none."""
        if self._problem:
            return self._problem
        for given, planned in zip((node_buffer_ids, leaf_buffer_ids), self._ids, strict=True):
            if given is not None and not self._same_ids(given, planned):
                return "its buffer ids are not those of the plan"
        return self._rule.mismatch(graph, self._own)

    def _same_ids(self, given: Sequence[int], planned: list[int] | None) -> bool:
        slot = self._slot
        old = planned if planned is not None else [0] * len(given)
        return len(given) == len(old) and all(
            a == b or slot[a] == slot[b] for a, b in zip(given, old, strict=True)
        )

    def alloc_graph(
        self,
        graph: Graph,
        node_buffer_ids: Ids = None,
        leaf_buffer_ids: Ids = None,
        *,
        stamp: bool = True,
    ) -> bool:
        """Give every tensor of `graph` its address from the plan.

        With one buffer id, a graph that the plan does not serve is reserved here. Tensors with a
        place elsewhere keep it; a view lies where its root does.

        Args:
            node_buffer_ids, leaf_buffer_ids: checked against the plan's when given.
            stamp: give the graph a new `uid`, so that what was compiled for old places is not
                used again.
        """
        why = self.why_realloc(graph, node_buffer_ids, leaf_buffer_ids)
        if why:
            if self._debug:
                _print(f"a graph of {len(graph.nodes)} nodes needs a new plan: {why}")
            if len(self.bufts) != 1:
                return False
            self.reserve(graph)
        for buffers in self._chunks.values():
            for b in buffers or ():
                b.reset()
        self._rule.write(graph, [self._chunks[slot] for slot in self._slot])
        if stamp:
            graph.uid = next_uid()
        return True

    # ---- looking ----------------------------------------------------------------------------

    def buffers(self, buffer_id: int) -> list[Buffer]:
        """The chunks of a buffer id (the same objects for ids that share memory)."""
        return list(self._chunks[self._slot[buffer_id]] or ())

    def has_memory(self, buffer_id: int) -> bool:
        """False before the first reserve and after one that failed for this id."""
        return self._chunks[self._slot[buffer_id]] is not None

    def buffer_size(self, buffer_id: int) -> int:
        """Bytes of all chunks of a buffer id; 0 for ids that share the memory of a lower one."""
        if self._slot[buffer_id] != buffer_id:
            return 0
        return sum(b.size for b in self.buffers(buffer_id))

    def owns(self, t: Tensor) -> bool:
        """True when `t` lies in memory of this allocator."""
        return t.buffer is not None and id(t.buffer) in self._own

    # ---- giving back --------------------------------------------------------------------------

    def unplace(self, tensors: Iterable[Tensor]) -> None:
        """Take the places of those tensors away that lie in memory of this allocator."""
        for t in tensors:
            if self.owns(t):
                unplace(t)

    def free(self) -> None:
        """Free all buffers. The allocator can be used again; tensors placed by it cannot."""
        for slot in self._chunks:
            self._drop(slot)
        self._problem = "its memory was freed"


def _print(text: str) -> None:
    print(f"wggml.alloc: {text}", file=sys.stderr)
