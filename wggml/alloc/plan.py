"""`Plan`: where each tensor of a graph is to lie, as data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

BEFORE = -1
"""The step of what is placed before the first node runs."""


class Lifetime(NamedTuple):
    """The nodes, by index and both included, while which a place belongs to a tensor. It starts at
    `BEFORE` for what is written before the run, and ends at the number of nodes for what stays."""

    start: int
    end: int


class Place(NamedTuple):
    """Bytes `offset` to `offset + size` of a chunk of a buffer id."""

    buffer_id: int
    chunk: int
    offset: int
    size: int


@dataclass(slots=True)
class Plan:
    """The memory plan of one graph.

    Attributes:
        nodes, leafs: the place of each node and leaf, None for views and for tensors that had a
            place before.
        chunk_sizes: bytes of each chunk, per buffer id (ids that share memory repeat it).
        node_names, leaf_names: for people; not compared.
        node_lives, leaf_lives: when each place is in use, parallel to `nodes` and `leafs`.
        inplace: (tensor, operand whose memory it took over); leafs are numbered first, then nodes.
    """

    nodes: list[Place | None] = field(default_factory=list)
    leafs: list[Place | None] = field(default_factory=list)
    chunk_sizes: list[list[int]] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list, compare=False, repr=False)
    leaf_names: list[str] = field(default_factory=list, compare=False, repr=False)
    node_lives: list[Lifetime | None] = field(default_factory=list, compare=False, repr=False)
    leaf_lives: list[Lifetime | None] = field(default_factory=list, compare=False, repr=False)
    inplace: list[tuple[int, int]] = field(default_factory=list, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Plain lists: `[buffer id, chunk, offset, size]` or null for each node and leaf."""
        return {
            "nodes": [p and list(p) for p in self.nodes],
            "leafs": [p and list(p) for p in self.leafs],
            "chunk_sizes": [list(sizes) for sizes in self.chunk_sizes],
            "node_names": list(self.node_names),
            "leaf_names": list(self.leaf_names),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""
        return cls(
            nodes=[None if p is None else Place(*p) for p in data["nodes"]],
            leafs=[None if p is None else Place(*p) for p in data["leafs"]],
            chunk_sizes=[list(sizes) for sizes in data["chunk_sizes"]],
            node_names=list(data["node_names"]),
            leaf_names=list(data["leaf_names"]),
        )

    def largest(self, buffer_ids: Collection[int], chunk: int) -> tuple[str, int]:
        """Name and bytes of the largest tensor planned into a chunk of one of these buffer ids
        (`("", 0)`: none is)."""
        best = ("", 0)
        for names, places in self._lists():
            for name, p in zip(names, places, strict=True):
                if p is None or p.chunk != chunk or p.buffer_id not in buffer_ids:
                    continue
                if p.size > best[1]:
                    best = (name, p.size)
        return best

    def table(self) -> str:
        """The plan as text: chunks, then one line for each leaf and node with a place."""
        lines = [
            f"buffer {i}: {sum(sizes)} bytes in chunks {sizes}"
            for i, sizes in enumerate(self.chunk_sizes)
        ]
        lines.append(f"{'tensor':40} {'buffer':>6} {'chunk':>5} {'offset':>12} {'bytes':>12}")
        for names, places in self._lists():
            for name, p in zip(names, places, strict=True):
                if p is not None:
                    lines.append(f"{name:40} {p.buffer_id:6} {p.chunk:5} {p.offset:12} {p.size:12}")
        return "\n".join(lines)

    def _lists(self) -> list[tuple[list[str], list[Place | None]]]:
        return [(self.leaf_names, self.leafs), (self.node_names, self.nodes)]

    def __str__(self) -> str:
        return self.table()
