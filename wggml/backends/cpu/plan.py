"""A graph compiled into a flat list of calls on NumPy windows that exist already.

Kernels do their thinking once, in `compile(c, node)`: they take windows on the operands, scratch
arrays for what lies between, and emit calls. Replaying a plan only makes those calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from wggml.backends.cpu import arrays, mirrors
from wggml.backends.cpu.arrays import F32, Array
from wggml.backends.cpu.buffer import CpuBuffer, aligned_bytes
from wggml.backends.cpu.weights import WeightCache
from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import UnsupportedOpError
from wggml.hal.interface import BufferUsage

Step = Callable[[], object]


@dataclass(slots=True, eq=False)
class Plan:
    """`steps` to call in order. Valid while `buffers` live and the weight cache has the
    `generation` it was built with."""

    steps: list[Step] = field(default_factory=list)
    buffers: set[CpuBuffer] = field(default_factory=set)
    generation: int = 0
    n_nodes: int = 0


class ScratchPool:
    """Arrays that kernels borrow while they compile; the same memory serves every node in turn.

    `created` counts the arrays made, `nbytes` their size.
    """

    def __init__(self) -> None:
        self.created = 0
        self.nbytes = 0
        self._free: list[arrays.U8] = []
        self._lent: list[arrays.U8] = []

    def take(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised contiguous array, ours until `give_back`."""
        d = np.dtype(dtype)
        n = d.itemsize
        for size in shape:
            n *= size
        most = max(8 * n, 65536)  # a small request must not take what a large one will need
        fits = [i for i, a in enumerate(self._free) if n <= a.size <= most]
        if fits:
            block = self._free.pop(min(fits, key=lambda i: self._free[i].size))
        else:
            block = aligned_bytes(_rounded(n))
            self.created += 1
            self.nbytes += block.size
        self._lent.append(block)
        lent: Array = block[:n].view(d).reshape(shape)
        return lent

    def give_back(self) -> None:
        """All borrowed arrays may be lent again."""
        self._free += self._lent
        self._lent.clear()


def _rounded(n: int) -> int:
    """Up to the next of eight steps between powers of two, so that sizes that differ a little
    share memory."""
    step = max(64, 1 << max(n.bit_length() - 4, 0))
    return -(-n // step) * step


class Compiler:
    """What kernels see while a plan is made.

    `weights` is the cache of dequantised weights.
    """

    def __init__(self, graph: Graph, pool: ScratchPool, weights: WeightCache) -> None:
        self.graph = graph
        self.weights = weights
        self.plan = Plan()
        self._pool = pool
        self._shared: dict[object, tuple[Tensor, Any]] = {}
        self._flushes: list[Step] = []
        self._readers: dict[Tensor, list[Tensor]] | None = None

    # ---- for kernels --------------------------------------------------------------------------

    def emit(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Call `function(*args, **kwargs)` on every run, at this point."""
        self.plan.steps.append(partial(function, *args, **kwargs) if args or kwargs else function)

    def array(self, t: Tensor) -> Array:
        """A window on `t` as it lies in memory (see `arrays.native`)."""
        self.plan.buffers.add(arrays.home_of(t))
        return arrays.native(t)

    def blocks(self, t: Tensor) -> arrays.U8:
        """A window on the bytes of `t` (see `arrays.blocks`)."""
        self.plan.buffers.add(arrays.home_of(t))
        return arrays.blocks(t)

    def scratch(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        """An uninitialised contiguous array that is this node's alone while it runs."""
        return self._pool.take(tuple(shape), dtype)

    def load(self, t: Tensor) -> F32:
        """`t` as f32 [i3, i2, i1, i0]: a window for F32, else scratch that is filled here."""
        a = self.array(t)
        if t.type == Type.F32:
            return a
        out = self.scratch(_values_shape(t))
        self.emit_load(a, t.type, out)
        return out

    def emit_load(self, a: Array, type_: Type, out: F32) -> None:
        """Fill contiguous `out` with the values of `a` (a window of `type_`) on every run."""
        self.emit(arrays.read_into, a, type_, out)

    def load_contiguous(self, t: Tensor) -> F32:
        """Like `load`, but C-contiguous."""
        a = self.load(t)
        if a.flags.c_contiguous:
            return a
        out: F32 = self.scratch(a.shape)
        self.emit(np.copyto, out, a)
        return out

    def out(self, t: Tensor) -> F32:
        """Where to put the f32 result of node `t`: its own memory for F32, else scratch that is
        converted after the kernel's last step."""
        a = self.array(t)
        if t.type == Type.F32:
            return a
        values: F32 = self.scratch(_values_shape(t))
        if t.type == Type.F16:
            self._flushes.append(partial(arrays.f32_to_f16, values, a))
        elif t.type == Type.BF16:
            self._flushes.append(partial(arrays.f32_to_bf16, values, a))
        else:
            self._flushes.append(partial(arrays.quantize_into, values, t.type, a))
        return values

    def shared(self, key: object, t: Tensor, make: Callable[[], Any]) -> Any:
        """Something derived from `t` alone that several nodes use: `make` runs at the first one,
        emits the steps that compute it on every run, and returns the arrays they fill.

        Those arrays must be the plan's own (`keep`), not scratch. A node that writes into `t`
        ends the sharing.
        """
        found = self._shared.get(key)
        if found is None or found[0] is not t:
            found = (t, make())
            self._shared[key] = found
        return found[1]

    def readers(self, t: Tensor) -> list[Tensor]:
        """The graph's nodes that have `t` as second source, in order."""
        if self._readers is None:
            self._readers = {}
            for n in self.graph.nodes:
                if len(n.src) > 1 and n.src[1] is not None:
                    self._readers.setdefault(n.src[1], []).append(n)
        return self._readers.get(t, [])

    def keep(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        """An uninitialised array that belongs to the plan for good."""
        return np.empty(tuple(shape), dtype)

    def single_use(self, t: Tensor) -> bool:
        """True when exactly one source refers to `t` and nobody else will read it, so that a
        fused kernel need not leave its value in memory."""
        if t.flags & Flag.OUTPUT or t.view_src is not None:
            return False
        return self.graph.use_counts.get(t, 0) == 1

    # ---- for the backend ------------------------------------------------------------------------

    def compile(self) -> Plan:
        """Walk the graph's nodes; `UnsupportedOpError` names one that cannot run here."""
        from wggml.backends.cpu.ops import FUSIONS, OPS

        nodes = [n for n in self.graph.nodes if n.op not in EMPTY_OPS and n.flags & Flag.COMPUTE]
        i = 0
        while i < len(nodes):
            node = nodes[i]
            impl = OPS.get(node.op)
            why = f"no kernel for {node.op.name}" if impl is None else impl.why_not(node)
            if why is not None or impl is None:
                raise UnsupportedOpError(f"the CPU backend cannot run node {node.name!r}: {why}")
            done = 1
            if not node.is_empty():
                fuse = FUSIONS.get(node.op)
                done = fuse(self, nodes, i) if fuse is not None else 0
                if not done:
                    impl.compile(self, node)
                    done = 1
            self._end_of(nodes[i : i + done])
            i += done
        self.plan.n_nodes = len(nodes)
        self.plan.generation = self.weights.generation
        return self.plan

    def _end_of(self, nodes: list[Tensor]) -> None:
        self.plan.steps += self._flushes
        self._flushes.clear()
        self._pool.give_back()
        for node in nodes:
            root = node.view_src or node
            if self._shared:
                stale = [k for k, (t, _) in self._shared.items() if (t.view_src or t) is root]
                for key in stale:
                    del self._shared[key]
            home = root.placed_in
            if isinstance(home, CpuBuffer) and home.usage != BufferUsage.COMPUTE:
                self._emit_written(node, root, home)

    def _emit_written(self, node: Tensor, root: Tensor, home: CpuBuffer) -> None:
        """Memory that outlives the graph was written: what is derived from it must follow."""
        if node.op == Op.SET_ROWS and node.same_layout(root) and mirrors.mirrored(root):
            index = node.src[1]
            assert index is not None
            if index.ne[1:] == (1, 1, 1):
                mirror = mirrors.record_of(root)
                update = mirror.row_written if index.ne[0] == 1 else mirror.rows_written
                self.emit(update, self.array(index).reshape(-1))
                return
        at = arrays.place_of(root)
        self.emit(home.written, at, at + root.nbytes)


def _values_shape(t: Tensor) -> tuple[int, int, int, int]:
    return (t.ne[3], t.ne[2], t.ne[1], t.ne[0])
