"""Planning: walk a graph in execution order; each tensor gets memory that others are done with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wggml.alloc.dyn_tallocr import Addr, DynTallocr, pad
from wggml.alloc.plan import BEFORE, Lifetime, Place
from wggml.core.graph import Graph
from wggml.core.opcodes import INPLACE_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.errors import PlanError
from wggml.hal.interface import BufferType

# Of the in-place ops, these read only their first operand at the elements they write.
_FIRST_OPERAND_ONLY = frozenset({Op.ADD_ID, Op.ROPE, Op.ROPE_BACK, Op.SOFT_MAX})

# Plain ints and a list by number: enum members are slow to hash and to combine.
_INPLACE = [op in INPLACE_OPS for op in Op]
_FIRST_ONLY = [op in _FIRST_OPERAND_ONLY for op in Op]
_INPUT, _OUTPUT, _PARAM = int(Flag.INPUT), int(Flag.OUTPUT), int(Flag.PARAM)
_NONE = Op.NONE

Trace = Callable[[str], None]


class _Life:
    """What planning knows of a tensor: readers and views to come, and its place while it has one.

    `owned` is False before it is placed, after it is freed, and once another took its memory over.
    `start` and `end` are the steps at which it was placed and given up.
    """

    __slots__ = ("addr", "buffer_id", "children", "end", "owned", "size", "start", "views")

    def __init__(self) -> None:
        self.children = 0
        self.views = 0
        self.buffer_id = -1  # never placed
        self.addr: Addr = (0, 0)
        self.size = 0
        self.owned = False
        self.start = self.end = BEFORE


class Planner:
    """One planning run.

    With `exact` it follows ggml to the letter. Without, it leaves that path where it leads to
    memory being overwritten too early:

    - an operator node marked INPUT is placed while readers are still being counted; it does not
      take an operand's memory over by a count that is not final;
    - a PARAM leaf, which is a node, is placed as early as an input, for it too is written by the
      user before the run;
    - a view that is no operator node of the graph keeps its root alive like any other view;
    - a view marked OUTPUT keeps its root for good;
    - ADD_ID, ROPE and SOFT_MAX take over their first operand only: the others are read at other
      elements than are written;
    - a node that needs more bytes than the operand it could take over gets memory of its own (in
      ggml this ends the program; with `exact` it is a `PlanError`).

    Args:
        bufts: the buffer type of each buffer id.
        tallocs: the placement of each buffer id; ids of one type share it.
        exact: see above.
        trace: called with a line for each allocation and release.
    """

    __slots__ = (
        "at", "bufts", "counted", "exact", "inplace", "lives", "settled", "tallocs", "trace",
    )  # fmt: skip

    def __init__(
        self,
        bufts: Sequence[BufferType],
        tallocs: Sequence[DynTallocr],
        *,
        exact: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.bufts = bufts
        self.tallocs = tallocs
        self.exact = exact
        self.trace = trace
        self.lives: dict[Tensor, _Life] = {}
        self.counted: set[Tensor] = set()  # views that count as such on their root
        self.settled = exact  # counts are final, memory may be taken over
        self.inplace: list[tuple[Tensor, Tensor]] = []  # (node, operand whose memory it took)
        self.at = BEFORE  # index of the node being placed

    def run(
        self, graph: Graph, node_ids: Sequence[int] | None, leaf_ids: Sequence[int] | None
    ) -> None:
        """Plan `graph` (buffer id 0 for all where no ids are given). `place_of` tells the result.

        Raises `PlanError` that names the tensor when a limit of `DynTallocr` is reached.
        """
        # Leafs come first, read or not: the user may write them at any time before the run.
        for i, leaf in enumerate(graph.leafs):
            self._alloc(leaf, leaf_ids[i] if leaf_ids else 0)
        self._count(graph, node_ids)
        self.settled = True
        lives = self.lives
        for i, node in enumerate(graph.nodes):
            self.at = i
            buffer_id = node_ids[i] if node_ids else 0
            for s in node.src:
                if s is not None and s.view_src is None:
                    self._alloc(s, buffer_id)
            if node.view_src is None:
                self._alloc(node, buffer_id)
            for s in node.src:
                if s is not None:
                    life = lives[s]
                    life.children -= 1
                    if life.children == 0 and life.views == 0:
                        self._consumed(s, life)
        self.at = len(graph.nodes)

    def place_of(self, t: Tensor) -> Place | None:
        """The planned place, None for views, for tensors placed before and for those that the
        graph does not compute or read."""
        if t.view_src is not None or t.data is not None or t.buffer is not None:
            return None
        life = self.lives.get(t)
        if life is None or life.buffer_id < 0:
            return None
        return Place(life.buffer_id, *life.addr, life.size)

    def lifetime_of(self, t: Tensor) -> Lifetime | None:
        """From which node to which the planned place is the tensor's; None without a place."""
        life = self.lives.get(t)
        if life is None or life.buffer_id < 0:
            return None
        return Lifetime(life.start, self.at if life.owned else life.end)

    def _life(self, t: Tensor) -> _Life:
        life = self.lives.get(t)
        if life is None:
            life = self.lives[t] = _Life()
        return life

    def _count(self, graph: Graph, node_ids: Sequence[int] | None) -> None:
        """Count readers and views. Inputs get their place here, before any memory is given back,
        so that nothing is written over them before they are read."""
        get, exact = self._life, self.exact
        early = _INPUT if exact else _INPUT | _PARAM
        for leaf in () if exact else graph.leafs:
            if leaf.view_src is not None and leaf.flags & _OUTPUT:
                self._count_view(leaf)
        for i, node in enumerate(graph.nodes):
            # A view without an op only orders others; nobody looks through it.
            if node.view_src is not None and node.op != _NONE:
                self._count_view(node)
            buffer_id = node_ids[i] if node_ids else 0
            if node.flags & early:
                self._alloc(node, buffer_id)
            for s in node.src:
                if s is not None:
                    get(s).children += 1
                    if s.view_src is not None and not exact:
                        self._count_view(s)
                    if s.flags & early:
                        self._alloc(s, buffer_id)

    def _count_view(self, t: Tensor) -> None:
        if t not in self.counted:
            self.counted.add(t)
            assert t.view_src is not None
            self._life(t.view_src).views += 1

    def _alloc(self, t: Tensor, buffer_id: int) -> None:
        life = self._life(t)
        if life.owned or t.view_src is not None or t.data is not None or t.buffer is not None:
            return
        life.start = self.at
        if _INPLACE[t.op] and self.settled and self._take_over(t, life):
            life.owned = True
            return
        life.owned = True
        life.buffer_id = buffer_id
        life.size = self.bufts[buffer_id].alloc_size(t)
        try:
            life.addr = self.tallocs[buffer_id].alloc(life.size)
        except PlanError as e:
            raise PlanError(f"tensor {t.name!r}, ne {list(t.ne)}: {e}") from None
        if self.trace:
            self.trace(f"alloc {t.name}: {life.size} bytes at {life.addr} of buffer {buffer_id}")

    def _take_over(self, t: Tensor, life: _Life) -> bool:
        """Give `t` the memory of an operand that only `t` reads; what is left over is freed."""
        for s in t.src[:1] if _FIRST_ONLY[t.op] and not self.exact else t.src:
            if s is None:
                continue
            old = self._life(s)
            if (
                not old.owned
                or old.children != 1
                or old.views
                or s.flags & _OUTPUT
                or not t.same_layout(s)
            ):
                continue
            size = self.bufts[old.buffer_id].alloc_size(t)
            if size > old.size:
                if self.exact:
                    raise PlanError(
                        f"tensor {t.name!r} needs {size} bytes and takes over {s.name!r}, which "
                        f"has only {old.size}; plan with key='safe'"
                    )
                continue
            old.owned = False
            old.end = self.at
            life.buffer_id, life.addr, life.size = old.buffer_id, old.addr, size
            self.inplace.append((t, s))
            if self.trace:
                self.trace(f"reuse {s.name} for {t.name}: {size} bytes at {old.addr}")
            self._free_rest(s, old, size)
            return True
        return False

    def _free_rest(self, t: Tensor, old: _Life, size: int) -> None:
        talloc = self.tallocs[old.buffer_id]
        kept, had = pad(size, talloc.alignment), pad(old.size, talloc.alignment)
        if had > kept:
            chunk, offset = old.addr
            self._free(t, old.buffer_id, (chunk, offset + kept), had - kept)

    def _consumed(self, t: Tensor, life: _Life) -> None:
        """Free `t`, or when it is a view, the root that nothing reads any more."""
        if t.view_src is not None:
            if t.flags & _OUTPUT and not self.exact:
                return
            t = t.view_src
            life = self._life(t)
            life.views -= 1
            if life.views or life.children:
                return
        if not life.owned or t.flags & _OUTPUT:
            return
        life.owned = False
        life.end = self.at
        self._free(t, life.buffer_id, life.addr, life.size)

    def _free(self, t: Tensor, buffer_id: int, addr: Addr, size: int) -> None:
        try:
            self.tallocs[buffer_id].free(addr, size)
        except PlanError as e:
            raise PlanError(f"tensor {t.name!r}, ne {list(t.ne)}: {e}") from None
        if self.trace:
            self.trace(f"free {t.name}: {size} bytes at {addr} of buffer {buffer_id}")
