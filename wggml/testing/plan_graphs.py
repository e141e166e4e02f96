"""Scenarios of recorded planning data, built as core objects on memory that only keeps a log.

The format is that of the golden data for graph building, allocation and scheduling: a scenario
names buffer types, buffers that exist beforehand and graphs; every id is an index into the
`tensors` of its graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wggml.core.graph import Graph, Order
from wggml.core.opcodes import Op
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import BY_NAME, TRAITS
from wggml.errors import AllocationError, UnsupportedOpError
from wggml.hal.interface import UNLIMITED, Buffer, BufferType, BufferUsage, Bytes

Spec = dict[str, Any]
StepResult = dict[str, Any]  # the fields of a step's `expect`, or {"abort": message} when we raised
LogEntry = list[Any]  # ["a" | "f" | "x", index of the buffer type, bytes]

_USAGE = {
    "any": BufferUsage.ANY,
    "weights": BufferUsage.WEIGHTS,
    "compute": BufferUsage.COMPUTE,
}
_ORDER = {"ltr": Order.LEFT_TO_RIGHT, "rtl": Order.RIGHT_TO_LEFT}


class MockBufferType(BufferType):
    """A buffer type as a scenario describes it; requests are written to `log`."""

    def __init__(self, spec: Spec, index: int, log: list[LogEntry]) -> None:
        self.name = spec["name"]
        self.alignment = spec["align"]
        self.max_size = UNLIMITED if spec["max_size"] is None else spec["max_size"]
        self.is_host = spec["host"]
        self.index = index
        self.log = log
        self.alloc_extra: dict[Op, int] = {
            Op[k]: v for k, v in (spec.get("alloc_extra") or {}).items()
        }
        self.quant_pad: int = spec.get("quant_pad") or 0
        self.fail_above: int | None = spec.get("fail_above")

    def alloc_size(self, t: Tensor) -> int:
        size = t.nbytes + self.alloc_extra.get(t.op, 0)
        if self.quant_pad and TRAITS[t.type].is_quantized:
            size += self.quant_pad
        return size

    def alloc_buffer(self, size: int) -> MockBuffer:
        if self.fail_above is not None and size > self.fail_above:
            self.log.append(["x", self.index, size])
            raise AllocationError(
                f"{self.name} cannot give {size} bytes: requests above {self.fail_above} fail"
            )
        self.log.append(["a", self.index, size])
        return MockBuffer(self, size)


class MockBuffer(Buffer):
    """A buffer without bytes: it has a size, a usage, and logs when it is freed."""

    def __init__(
        self, buft: MockBufferType, size: int, usage: BufferUsage = BufferUsage.ANY
    ) -> None:
        self.buft: MockBufferType = buft
        self.size = size
        self.usage = usage
        self.freed = False

    def _no_bytes(self) -> UnsupportedOpError:
        return UnsupportedOpError(f"a planning buffer of {self.buft.name} holds no bytes")

    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        raise self._no_bytes()

    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        raise self._no_bytes()

    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        raise self._no_bytes()

    def clear(self, value: int = 0) -> None:
        raise self._no_bytes()

    def free(self) -> None:
        if not self.freed:
            self.freed = True
            self.buft.log.append(["f", self.buft.index, self.size])


@dataclass(slots=True)
class BuiltGraph:
    """One graph of a scenario.

    Attributes:
        spec: its description.
        tensors: in creation order; an id is an index into it.
        ids: tensor -> id.
        graph: built by the `build` steps of the description.
        alloc_deps: (t, u) pairs: t is asked to stay allocated until node u has run.
    """

    spec: Spec
    tensors: list[Tensor]
    ids: dict[Tensor, int]
    graph: Graph
    alloc_deps: list[tuple[Tensor, Tensor]] = field(default_factory=list)


class GraphBuilder:
    """The buffer types, buffers and log of one scenario, and its graphs.

    Attributes: `scenario`; `log` of requests since it was last emptied (`take_log`); `bufts`;
    `buffers` that exist beforehand (not logged).
    """

    def __init__(self, scenario: Spec) -> None:
        self.scenario = scenario
        self.log: list[LogEntry] = []
        self.bufts = [MockBufferType(b, i, self.log) for i, b in enumerate(scenario["bufts"])]
        self.buffers = [
            MockBuffer(self.bufts[b["buft"]], b["size"], _USAGE[b["usage"]])
            for b in scenario["buffers"]
        ]

    def take_log(self) -> list[LogEntry]:
        """The requests since the last call."""
        taken = list(self.log)
        self.log.clear()
        return taken

    def build_graphs(self) -> list[BuiltGraph]:
        """All graphs of the scenario, tensors made afresh."""
        return [self.build_graph(g) for g in self.scenario["graphs"]]

    def build_graph(self, spec: Spec) -> BuiltGraph:
        """One graph from its description."""
        tensors = self._tensors(spec["tensors"])
        graph = Graph(max(len(tensors), 1), order=_ORDER[spec["order"]])
        for step in spec["build"]:
            _BUILD[step[0]](graph, tensors, step)
        deps = [(tensors[t], tensors[u]) for t, u in spec.get("alloc_deps") or []]
        return BuiltGraph(spec, tensors, {t: i for i, t in enumerate(tensors)}, graph, deps)

    def _tensors(self, specs: Sequence[Spec]) -> list[Tensor]:
        tensors = [_record(s) for s in specs]
        for s, t in zip(specs, tensors, strict=True):
            t.src = [None if i is None else tensors[i] for i in s.get("src") or []]
            if s.get("buf") is not None:
                t.buffer, t.data = self.buffers[s["buf"]], s["off"]
            elif s.get("extern"):
                t.data = 0
            if s.get("view_src") is not None:
                t.view_src, t.view_offs = tensors[s["view_src"]], s["view_offs"]
        for t in tensors:
            if t.view_src is not None and t.data is None and t.view_src.data is not None:
                t.data = t.view_src.data + t.view_offs
        return tensors


def build_graphs(scenario: Spec) -> list[BuiltGraph]:
    """The graphs of a scenario on memory of their own."""
    return GraphBuilder(scenario).build_graphs()


def _record(s: Spec) -> Tensor:
    t = Tensor(BY_NAME[s["type"]], _four(s["ne"]), _four(s["nb"]))
    t.op = Op[s["op"]]
    t.name = s["name"]
    t.flags = s.get("flags") or 0
    return t


def _four(v: Sequence[int]) -> Shape4:
    return (v[0], v[1], v[2], v[3])


def _expand(graph: Graph, tensors: list[Tensor], step: list[Any]) -> None:
    graph.build_forward_expand(tensors[step[1]])


def _order(graph: Graph, tensors: list[Tensor], step: list[Any]) -> None:
    graph.build_forward_order(tensors[step[1]])


def _select(graph: Graph, tensors: list[Tensor], step: list[Any]) -> None:
    graph.build_forward_select([tensors[i] for i in step[1]], step[2])


_BUILD = {"expand": _expand, "order": _order, "select": _select}


# ---- what building gave -------------------------------------------------------------------------


def built_fields(built: BuiltGraph) -> StepResult:
    """The fields of a graph's `built`, as we have them."""
    g, ids = built.graph, built.ids
    return {
        "nodes": [ids[t] for t in g.nodes],
        "leafs": [ids[t] for t in g.leafs],
        "node_uses": [g.use_counts[t] for t in g.nodes],
        "leaf_uses": [g.use_counts[t] for t in g.leafs],
        "names": [t.name for t in built.tensors],
        "flags": [int(t.flags) for t in built.tensors],
    }


# ---- comparing ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One recorded field that differs."""

    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        where, expected, got = first_difference(self.expected, self.got)
        return f"{self.field}{where}: expected {_short(expected)}, got {_short(got)}"


MISSING = "<missing>"


def compare_fields(expect: Spec, got: StepResult) -> list[Mismatch]:
    """Every field of `expect` that `got` lacks or has another value for.

    An expected `abort` is met by any `abort`: its value is the recorded program's reason, ours is
    the message of the exception.
    """
    if "abort" in expect or "abort" in got:
        if "abort" in expect and "abort" in got:
            return []
        return [Mismatch("abort", expect.get("abort", MISSING), got.get("abort", MISSING))]
    return [
        Mismatch(k, v, got.get(k, MISSING)) for k, v in expect.items() if got.get(k, MISSING) != v
    ]


def first_difference(expected: Any, got: Any) -> tuple[str, Any, Any]:
    """Path, expected and found value of the first place where two JSON values differ."""
    if isinstance(expected, list) and isinstance(got, list):
        for i, (e, g) in enumerate(zip(expected, got, strict=False)):
            if e != g:
                path, e, g = first_difference(e, g)
                return f"[{i}]{path}", e, g
        return f" (length {len(expected)} and {len(got)})", expected, got
    if isinstance(expected, dict) and isinstance(got, dict):
        for k in expected:
            if expected[k] != got.get(k, MISSING):
                path, e, g = first_difference(expected[k], got.get(k, MISSING))
                return f".{k}{path}", e, g
    return "", expected, got


def _short(value: Any, limit: int = 70) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
