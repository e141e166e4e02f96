"""`Graph`: nodes in execution order and leafs, collected from result tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum

from wggml.core.opcodes import Flag, Op
from wggml.core.tensor import Tensor
from wggml.errors import ContextFullError

DEFAULT_GRAPH_SIZE = 2048

# As plain ints: `&` and `|` on an IntFlag run Python code, and visiting is a hot path.
_COMPUTE = int(Flag.COMPUTE)
_PARAM = int(Flag.PARAM)

_uids = itertools.count(1)


def next_uid() -> int:
    """A fresh graph stamp; never 0, never given twice in a process."""
    return next(_uids)


class Order(Enum):
    """Which source of a node is visited first."""

    LEFT_TO_RIGHT = "ltr"
    RIGHT_TO_LEFT = "rtl"


class Graph:
    """A compute graph of at most `size` nodes and `size` leafs.

    Attributes:
        nodes: operations (and PARAM leafs) in a valid execution order.
        leafs: tensors without an operation.
        use_counts: how many sources of visited tensors refer to a tensor.
        uid: stamp that a backend may key a compiled plan on; 0 means unset.
        grads: gradient of a tensor, filled by `backward.build_backward_expand`.
        grad_accs: tensors that outlive a run, in which gradients are added up.
    """

    __slots__ = (
        "__weakref__", "grad_accs", "grads", "leafs", "nodes", "order", "size", "uid", "use_counts",
    )  # fmt: skip

    def __init__(
        self, size: int = DEFAULT_GRAPH_SIZE, *, order: Order = Order.LEFT_TO_RIGHT
    ) -> None:
        self.size = size
        self.order = order
        self.nodes: list[Tensor] = []
        self.leafs: list[Tensor] = []
        self.use_counts: dict[Tensor, int] = {}
        self.uid = 0
        self.grads: dict[Tensor, Tensor] = {}
        self.grad_accs: dict[Tensor, Tensor] = {}

    def __contains__(self, t: object) -> bool:
        return t in self.use_counts

    def clear(self) -> None:
        """Forget everything, keep the capacity."""
        self.nodes.clear()
        self.leafs.clear()
        self.use_counts.clear()
        self.grads.clear()
        self.grad_accs.clear()
        self.uid = 0

    def get_tensor(self, name: str) -> Tensor | None:
        """The first leaf, else node, of that name, or None."""
        return next((t for t in itertools.chain(self.leafs, self.nodes) if t.name == name), None)

    def build_forward_expand(self, t: Tensor) -> Tensor:
        """Add `t` and all it depends on, to be computed; returns `t`.

        Raises `ContextFullError` when the graph holds more than `size` nodes or leafs.
        """
        self._visit(t, compute=True)
        return t

    def build_forward_order(self, t: Tensor) -> Tensor:
        """Add `t` and all it depends on without marking it for computation; returns `t`."""
        self._visit(t, compute=False)
        return t

    def build_forward_select(self, heads: Sequence[Tensor], index: int) -> Tensor:
        """Add every head so that the topology is the same whichever runs, and mark only
        `heads[index]` and its sources for computation; returns it."""
        for i, head in enumerate(heads):
            self._visit(head, compute=i == index)
        return heads[index]

    def view(self, begin: int, end: int) -> Graph:
        """A graph over `nodes[begin:end]` that shares the tensors; it has no leafs."""
        g = Graph(max(end - begin, 1), order=self.order)
        g.nodes = self.nodes[begin:end]
        g.use_counts = self.use_counts
        return g

    def _visit(self, root: Tensor, *, compute: bool) -> None:
        """Depth-first post-order over sources with a stack of our own: graphs are deeper than
        Python's recursion limit. A tensor met again only passes COMPUTE on to sources that lack
        it, which is what makes `select` and repeated expansion come out as in ggml."""
        uses = self.use_counts
        stack: list[tuple[Tensor, list[Tensor], bool]] = []

        def enter(t: Tensor, compute: bool) -> None:
            if compute and t.op != Op.NONE:
                t.flags |= _COMPUTE
            sources = [s for s in t.src if s is not None]
            if t in uses:
                if compute:
                    todo = [s for s in sources if not s.flags & _COMPUTE]
                    if todo:
                        stack.append((t, todo[::-1], False))
                return
            uses[t] = 0
            if self.order is Order.LEFT_TO_RIGHT:
                sources.reverse()
            stack.append((t, sources, True))

        enter(root, compute)
        while stack:
            t, sources, first = stack[-1]
            if sources:
                s = sources.pop()
                if first:
                    enter(s, compute)
                    uses[s] += 1
                elif not s.flags & _COMPUTE:
                    enter(s, True)
            else:
                stack.pop()
                if first:
                    self._append(t)

    def _append(self, t: Tensor) -> None:
        is_leaf = t.op == Op.NONE and not t.flags & _PARAM
        into, kind = (self.leafs, "leaf") if is_leaf else (self.nodes, "node")
        if len(into) >= self.size:
            raise ContextFullError(
                f"graph is full: it was made for {self.size} {kind}s and {t.name or t.op.name!r} "
                "is one more; make it with a larger size"
            )
        if not t.name:
            t.name = f"{kind}_{len(into)}"
        into.append(t)
