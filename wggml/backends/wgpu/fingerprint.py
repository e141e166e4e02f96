"""What a plan depends on, as a value: two graphs with equal fingerprints have equal plans.

A generation graph that is built anew after each prompt lands on the same places as the last one;
its plan (shaders chosen, operands bound) need not be made again.
"""

from __future__ import annotations

from collections.abc import Hashable

from wggml.backends.wgpu.plan import runs
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.hal.interface import Buffer


def fingerprint(graph: Graph) -> tuple[Hashable, tuple[Buffer, ...]]:
    """(fingerprint, buffers it names). It holds as long as none of the buffers is freed: they are
    told apart by identity, so whoever keeps the fingerprint must keep them alive."""
    numbers: dict[Tensor, int] = {}
    buffers: dict[int, Buffer] = {}
    parts: list[Hashable] = []

    def number(t: Tensor) -> int:
        n = numbers.get(t)
        if n is None:
            root = number(t.view_src) if t.view_src is not None else -1
            home = t.placed_in
            if home is not None:
                buffers[id(home)] = home
            n = numbers[t] = len(numbers)
            usage = None if home is None else home.usage
            parts.append((t.type, t.ne, t.nb, t.data, id(home), usage, root, t.view_offs, t.op))
        return n

    uses = graph.use_counts
    for t in graph.nodes:
        if runs(t):
            sources = tuple(-1 if s is None else number(s) for s in t.src)
            parts.append((number(t), t.op_params, t.flags, uses.get(t, 0), sources))
    return tuple(parts), tuple(buffers.values())
