"""Which backend runs what: four passes over a graph, each adding to one table.

Pass 1 takes what is certain (where bytes already lie), pass 2 spreads it to neighbours, pass 3
improves on it, pass 4 fills in sources and views. Every entry carries the cause that put it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.errors import SchedulerError, UnsupportedOpError
from wggml.hal.interface import Backend, Buffer, BufferType, BufferUsage

UNASSIGNED = -1
INPUT = int(Flag.INPUT)  # a plain int: an operator of an IntFlag costs ten times that of an int

# Ops whose extra operand (frequency table, sinks) is too small to pull the op to where it lies.
WEIGHT_DOES_NOT_DECIDE = frozenset({Op.ROPE, Op.FLASH_ATTN_EXT})


@dataclass(slots=True)
class Assignment:
    """Backend index and cause of every tensor of one graph, with remembered capability answers.

    Attributes:
        backends: in priority order; the last one is the CPU.
        bufts: the type each backend's share of the graph is allocated in.
        op_offload: whether host weights may be computed with elsewhere.
        ids: backend index per tensor; absent or -1 while unassigned.
        causes: why, e.g. `1.wgt0`.
    """

    backends: Sequence[Backend]
    bufts: Sequence[BufferType]
    op_offload: bool
    ids: dict[Tensor, int] = field(default_factory=dict)
    causes: dict[Tensor, str] = field(default_factory=dict)
    _ops: list[dict[Tensor, bool]] = field(init=False)
    _bufts: list[dict[BufferType, bool]] = field(init=False)

    def __post_init__(self) -> None:
        self._ops = [{} for _ in self.backends]
        self._bufts = [{} for _ in self.backends]

    @property
    def last(self) -> int:
        """Index of the CPU backend."""
        return len(self.backends) - 1

    def id_of(self, t: Tensor) -> int:
        return self.ids.get(t, UNASSIGNED)

    def put(self, t: Tensor, backend: int, cause: str) -> None:
        self.ids[t] = backend
        self.causes[t] = cause

    def supports_op(self, backend: int, t: Tensor) -> bool:
        known = self._ops[backend]
        answer = known.get(t)
        if answer is None:
            answer = known[t] = self.backends[backend].supports_op(t)
        return answer

    def reads(self, backend: int, buft: BufferType) -> bool:
        """Whether ops on the backend read operands of that type in place."""
        known = self._bufts[backend]
        answer = known.get(buft)
        if answer is None:
            answer = known[buft] = self.backends[backend].supports_buft(buft)
        return answer

    def reads_tensor(self, backend: int, t: Tensor) -> bool:
        """Whether the backend reads `t` where it lies, or will lie by what is assigned so far."""
        root = t.view_src
        buffer = t.buffer if root is None else root.buffer
        if buffer is not None:
            return self.reads(backend, buffer.buft)
        at = self.id_of(t)
        if at == UNASSIGNED and root is not None:
            at = self.id_of(root)
        return at != UNASSIGNED and self.reads(backend, self.bufts[at])

    def from_buffer(self, buffer: Buffer, op: Tensor) -> int:
        """First backend that reads the buffer and runs the op, else -1."""
        for b in range(len(self.backends)):
            if self.reads(b, buffer.buft) and self.supports_op(b, op):
                return b
        return UNASSIGNED


# ---- pass 1: facts -----------------------------------------------------------------------------


def assign_from_facts(a: Assignment, graph: Graph) -> None:
    """Pass 1: a buffer the tensor lies in, the INPUT flag, or a weight among its sources."""
    ids = a.ids
    for tensors in (graph.leafs, graph.nodes):
        for t in tensors:
            if ids.get(t, UNASSIGNED) == UNASSIGNED:
                _from_facts(a, t)


def _from_facts(a: Assignment, t: Tensor) -> None:
    root = t.view_src
    buffer = t.buffer if root is None else root.buffer
    if buffer is not None:
        b = a.from_buffer(buffer, t)
        if b == UNASSIGNED:
            raise _unusable_buffer(a, t, buffer)
        a.put(t, b, "1.dst" if root is None else "1.vsrc")
    elif t.buffer is not None:
        raise _unusable_buffer(a, t, t.buffer)
    elif t.flags & INPUT:
        a.put(t, a.last, "1.inp")
    elif t.op not in WEIGHT_DOES_NOT_DECIDE:
        _from_weights(a, t)


def _from_weights(a: Assignment, t: Tensor) -> None:
    """The first weight among the sources decides alone, even when the answer is "no backend"."""
    for i, s in enumerate(t.src):
        if s is None or s.buffer is None or s.buffer.usage is not BufferUsage.WEIGHTS:
            continue
        root = s.view_src
        home = s.buffer if root is None else root.buffer
        b = UNASSIGNED if home is None else a.from_buffer(home, t)
        if a.op_offload and b == a.last and s.buffer.buft.is_host:
            for c in range(b):
                if a.supports_op(c, t) and a.backends[c].offload_op(t):
                    a.put(t, c, "1.off")
                    return
        a.put(t, b, f"1.wgt{i}")
        return


# ---- pass 2: neighbours ------------------------------------------------------------------------

# (upwards, leave the CPU out). The CPU gets an op only when its weights lie there or when no other
# backend is on either side.
SWEEPS = ((False, True), (True, True), (False, False), (True, False))


def spread_to_neighbours(a: Assignment, graph: Graph) -> None:
    """Pass 2: carry assignments along node order to unassigned nodes the backend supports.

    A node it does not support stays open and does not stop the sweep.
    """
    ids, supports, last = a.ids, a.supports_op, a.last
    nodes = [t for t in graph.nodes if t.op not in VIEW_OPS]
    open_ = sum(ids.get(t, UNASSIGNED) == UNASSIGNED for t in nodes)
    for upwards, skip_cpu in SWEEPS:
        if not open_:
            return
        cur = UNASSIGNED
        for t in reversed(nodes) if upwards else nodes:
            b = ids.get(t, UNASSIGNED)
            if b != UNASSIGNED:
                cur = UNASSIGNED if skip_cpu and b == last else b
            elif cur != UNASSIGNED and supports(cur, t):
                a.put(t, cur, "2.sup")
                open_ -= 1


# ---- pass 3: better backends -------------------------------------------------------------------


def upgrade_or_best(a: Assignment, graph: Graph) -> None:
    """Pass 3: move nodes to a better backend with the same buffer type; give nodes nobody's
    neighbour could take to the backend that reads most of their sources."""
    better = [[c for c in range(b) if a.bufts[c] is a.bufts[b]] for b in range(len(a.backends))]
    for t in graph.nodes:
        if t.op in VIEW_OPS:
            continue
        b = a.id_of(t)
        if b == UNASSIGNED:
            _take_best(a, t)
        else:
            for c in better[b]:
                if a.supports_op(c, t) and all(a.reads_tensor(c, s) for s in t.src if s):
                    a.put(t, c, "3.upg")
                    break


def _take_best(a: Assignment, t: Tensor) -> None:
    most = -1
    for b in range(len(a.backends)):
        if not a.supports_op(b, t):
            continue
        n = sum(_is_assigned(a, s) and a.reads_tensor(b, s) for s in t.src if s is not None)
        if n > most:  # the first one wins a tie
            most = n
            a.put(t, b, "3.best")


def _is_assigned(a: Assignment, s: Tensor) -> bool:
    if a.id_of(s) != UNASSIGNED:
        return True
    return s.view_src is not None and a.id_of(s.view_src) != UNASSIGNED


# ---- pass 4: sources and views -----------------------------------------------------------------


def fill_sources_and_views(a: Assignment, graph: Graph) -> None:
    """Pass 4: views go with their root, open sources with their consumer, any other node to the
    first backend that supports it. Raises `UnsupportedOpError` when there is none."""
    ids = a.ids
    for t in graph.nodes:
        b = ids.get(t, UNASSIGNED)
        if b == UNASSIGNED and t.view_src is not None:
            b = ids.get(t.view_src, UNASSIGNED)
            a.put(t, b, "4.vsrc")
        for s in t.src:
            if s is None or ids.get(s, UNASSIGNED) != UNASSIGNED:
                continue
            if s.view_src is not None:
                a.put(s, ids.get(s.view_src, UNASSIGNED), "4.vsrc")
            else:
                a.put(s, b, "4.cur")
        if b == UNASSIGNED:
            first = next((c for c in range(len(a.backends)) if a.supports_op(c, t)), None)
            if first is None:
                raise _no_backend(a, t)
            a.put(t, first, "2.sup")


# ---- what ggml leaves out ------------------------------------------------------------------------


def keep_writers_with_roots(a: Assignment, graph: Graph) -> None:
    """Between passes 3 and 4: an op that writes into a tensor of the graph (CPY, SET_ROWS, in-place
    variants) must run where that tensor lies, for there is no copying back. Where the passes before
    parted them, all move to the first backend of theirs, else of all, that runs them.

    ggml lets such an op write to memory that its backend cannot reach.
    """
    groups: dict[Tensor, list[Tensor]] = {}
    for t in graph.nodes:
        root = t.view_src
        if root is not None and t.op not in VIEW_OPS and root.buffer is None:
            groups.setdefault(root, []).append(t)
    for root, writers in groups.items():
        if a.id_of(root) == UNASSIGNED:
            a.put(root, a.id_of(writers[0]), "3.root")
        home = a.id_of(root)
        if home == UNASSIGNED or any(not _writes(a, t, home) for t in writers):
            _move_together(a, root, writers)


def _writes(a: Assignment, t: Tensor, home: int) -> bool:
    b = a.id_of(t)
    return b != UNASSIGNED and a.reads(b, a.bufts[home])


def _move_together(a: Assignment, root: Tensor, writers: Sequence[Tensor]) -> None:
    group = [root, *writers]
    wanted = [a.id_of(t) for t in group if a.causes.get(t) == "usr"]
    wanted = wanted or [a.id_of(t) for t in group] + list(range(len(a.backends)))
    for b in wanted:
        if b != UNASSIGNED and all(a.supports_op(b, t) for t in group):
            for t in group:
                if a.id_of(t) != b:
                    a.put(t, b, "3.root")
            return
    names = "; ".join(describe_tensor(t) for t in group)
    raise UnsupportedOpError(
        f"no backend can both hold {describe_tensor(root)} and run everything that writes into it: "
        f"{names}; tried " + "; ".join(tried(a, t) for t in group) + ". Write to a copy instead "
        "(ops.cont), or assign all of them to one backend that runs them"
    )


Pass = Callable[[Assignment, Graph], None]
GGML_PASSES: tuple[Pass, ...] = (
    assign_from_facts,
    spread_to_neighbours,
    upgrade_or_best,
    fill_sources_and_views,
)
PASSES = (*GGML_PASSES[:3], keep_writers_with_roots, GGML_PASSES[3])


def assign(a: Assignment, graph: Graph, passes: Sequence[Pass] = PASSES) -> None:
    """Run passes 1-4. Entries that `a.ids` already has are the user's and stay (cause `usr`)."""
    for run in passes:
        run(a, graph)


def check_user_choices(a: Assignment, graph: Graph) -> None:
    """Raise `UnsupportedOpError` when the user gave a node to a backend that does not run it."""
    if not a.ids:
        return
    for t in graph.nodes:
        b = a.id_of(t)
        if b != UNASSIGNED and t.op not in VIEW_OPS and not a.supports_op(b, t):
            raise UnsupportedOpError(
                f"{describe_tensor(t)} was assigned to {a.backends[b].name}, which cannot run it: "
                f"{' and '.join(_objections(a, b, t, None))}. Assign another backend, or none"
            )


# ---- errors ------------------------------------------------------------------------------------


def describe_tensor(t: Tensor) -> str:
    """How messages call a tensor."""
    return f"tensor {t.name!r} (op {t.op.name}, {t.type.name.lower()}, ne {list(t.ne)})"


def tried(a: Assignment, op: Tensor, buft: BufferType | None = None) -> str:
    """What each backend says against running `op` (on operands in `buft`)."""
    return "; ".join(
        f"{backend.name}: {' and '.join(_objections(a, b, op, buft))}"
        for b, backend in enumerate(a.backends)
    )


def _objections(a: Assignment, b: int, op: Tensor, buft: BufferType | None) -> Iterable[str]:
    if buft is not None and not a.reads(b, buft):
        yield f"cannot read {buft.name} memory"
    if not a.supports_op(b, op):
        device = getattr(a.backends[b], "device", None)
        reason = None if device is None else device.why_not(op)
        yield reason or f"does not run {op.op.name} with these operands"


def _unusable_buffer(a: Assignment, t: Tensor, buffer: Buffer) -> SchedulerError:
    return SchedulerError(
        f"{describe_tensor(t)} already lies in a buffer of type {buffer.buft.name} "
        f"({buffer.size} bytes) and no backend can run it there; tried "
        f"{tried(a, t, buffer.buft)}. Place it in memory that one of these backends reads, or add "
        "the backend it was made for to the scheduler"
    )


def _no_backend(a: Assignment, t: Tensor) -> UnsupportedOpError:
    sources = ", ".join(f"{s.type.name.lower()} {list(s.ne)}" for s in t.src if s is not None)
    return UnsupportedOpError(
        f"no backend runs {describe_tensor(t)} on sources [{sources}]; tried {tried(a, t)}. "
        "Give the scheduler a backend that implements it"
    )
