"""A stretch of a running graph as one operator case, so that a device runs it as it would in the
model: nodes fused and merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wggml.core.context import Context
from wggml.core.opcodes import Flag, Op
from wggml.core.tensor import Tensor
from wggml.testing.opdata import Bytes, OpCase, is_real
from wggml.testing.placing import read_bytes
from wggml.testing.record import record_graph, with_outputs


@dataclass(slots=True)
class Window:
    """Nodes in order of execution and what is known of them.

    Attributes:
        inputs: bytes of the roots that the nodes read and that were made before, taken before the
            first one ran.
        results: bytes of each computing node right after it ran.
    """

    nodes: list[Tensor]
    inputs: dict[Tensor, Bytes] = field(default_factory=dict)
    results: dict[Tensor, Bytes] = field(default_factory=dict)

    def capture_inputs(self) -> None:
        """Read the roots that have memory by now; to be called before the first node runs."""
        for root in outer_roots(self.nodes):
            if root.placed_in is not None:
                self.inputs[root] = read_bytes(root)


def outer_roots(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Memory that `nodes` read or write into and do not own."""
    inside = set(nodes)
    found: dict[Tensor, None] = {}
    for t in nodes:
        for s in (*t.src, t.view_src):
            if s is None:
                continue
            root = s.view_src or s
            if root not in inside:
                found[root] = None
    return list(found)


def window_case(
    window: Window, first: int, end: int, outputs: Sequence[Tensor], name: str, limit: float
) -> OpCase:
    """Nodes `first` to `end` (exclusive) of a window as a case that compares `outputs`.

    What they read of earlier nodes of the window becomes an input, with the recorded result.
    """
    nodes = window.nodes[first:end]
    ctx = Context(4 * len(nodes) + 64, name=f"window {name}")
    made: dict[Tensor, Tensor] = {}
    leafs: list[Tensor] = []
    contents: dict[Tensor, Bytes] = {}
    for root in outer_roots(nodes):
        leaf = made[root] = _fresh(ctx, root)
        leafs.append(leaf)
        contents[leaf] = _content(window, root, first)
    views: list[Tensor] = []
    inside = set(nodes)
    for t in nodes:
        for s in (*t.src, t):
            if s is not None and s not in made:
                made[s] = _fresh(ctx, s)
                if s not in inside:  # a view of an input
                    views.append(_as_view(made[s], s, made))
        copy = made[t]
        copy.op, copy.op_params = t.op, t.op_params
        copy.src = [None if s is None else made[s] for s in t.src]
        if t.view_src is not None:
            copy.view_src, copy.view_offs = made[t.view_src], t.view_offs
    for t in outputs:
        made[t].flags |= Flag.OUTPUT
    copies = [made[t] for t in nodes]
    case = record_graph(
        leafs, [*views, *copies], contents, id=name, op=f"GRAPH_{len(nodes)}",
        vars=f"{nodes[0].name}..{nodes[-1].name}", origin="captured",
        max_err=limit,
    )  # fmt: skip
    index = {t: i for i, t in enumerate([*leafs, *views, *copies])}
    return with_outputs(case, {index[made[t]]: window.results[t] for t in outputs})


def _content(window: Window, root: Tensor, first: int) -> Bytes:
    """The bytes of a root just before node `first`: as it was made or last written to in the
    window, else as it was before."""
    if root in window.results:
        return window.results[root]
    for t in reversed(window.nodes[:first]):
        if t.view_src is root and t in window.results and t.nbytes == root.nbytes:
            return window.results[t]
    return window.inputs[root]


def _as_view(copy: Tensor, t: Tensor, made: Mapping[Tensor, Tensor]) -> Tensor:
    assert t.view_src is not None
    root = made[t.view_src]
    copy.op, copy.src = Op.VIEW, [root]
    copy.view_src, copy.view_offs = root, t.view_offs
    return copy


def _fresh(ctx: Context, t: Tensor) -> Tensor:
    copy = Tensor(t.type, t.ne, t.nb, ctx=ctx).set_name(t.name)
    ctx.tensors.append(copy)
    return copy


def survivors(window: Window, first: int, end: int) -> list[Tensor]:
    """Computing nodes of a stretch that nothing in it reads: what it hands on."""
    nodes = window.nodes[first:end]
    read = {s for t in nodes for s in t.src if s is not None}
    read |= {s.view_src for s in read if s.view_src is not None}
    return [t for t in nodes if is_real(t) and t in window.results and t not in read]
