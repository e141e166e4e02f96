"""`Recipe`: one line of the built-in case table, and what makes an `OpCase` of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_name
from wggml.hal.interface import Backend
from wggml.testing.builtin.maker import Maker
from wggml.testing.opcases import compute_outputs
from wggml.testing.opdata import OpCase, is_real
from wggml.testing.record import record_graph, with_outputs

Build = Callable[..., Tensor]
MAX_NODES = 256


@dataclass(frozen=True, slots=True)
class Recipe:
    """A case before it is made.

    Attributes:
        op: display name, as in the recorded data (`ADD`, `SILU`, `RMS_NORM_MUL_ADD`).
        build: `build(maker, **params)` makes the leafs and returns the result tensor.
        params: what the case's parameter string shows, in order.
        metric, max_err: see `metrics`.
        whole_graph: compare the result alone, after the whole graph ran, so that a backend may
            fuse nodes.
        perf: a shape of a model, for measuring; it has no reference values.
    """

    op: str
    build: Build
    params: Mapping[str, object]
    metric: str = "nmse"
    max_err: float = 1e-7
    whole_graph: bool = False
    perf: bool = False

    @property
    def vars(self) -> str:
        """The parameter string, e.g. `type=f16,ne=[7,5,3,2]`."""
        return ",".join(f"{k}={_text(v)}" for k, v in self.params.items())

    def make(self, id: str) -> OpCase:
        """The case without outputs."""
        return self._recorded(id)[0]

    def case(self, id: str, reference: Backend) -> OpCase:
        """The case with the outputs that `reference` computes."""
        case, compared = self._recorded(id)
        return with_outputs(case, compute_outputs(case, reference, compared))

    def _recorded(self, id: str) -> tuple[OpCase, list[int]]:
        maker = Maker(zlib.crc32(f"{self.op} {self.vars}".encode()))
        graph = Graph(MAX_NODES)
        result = graph.build_forward_expand(self.build(maker, **self.params))
        for leaf in maker.contents:  # also those that only a view's root names
            if leaf not in graph:
                graph.build_forward_order(leaf)
        leafs = [*graph.leafs, *(n for n in graph.nodes if n in maker.contents)]
        nodes = [n for n in graph.nodes if n not in maker.contents]
        case = record_graph(
            leafs,
            nodes,
            maker.contents,
            id=id,
            op=self.op,
            vars=self.vars,
            metric=self.metric,
            max_err=self.max_err,
            whole_graph=self.whole_graph,
        )
        index = {t: i for i, t in enumerate([*leafs, *nodes])}
        real = [n for n in nodes if is_real(n)]
        wanted = real[-1:] if self.whole_graph or self.metric != "nmse" else real
        return case, [index[t] for t in (*wanted, *maker.compared)] or [index[result]]


def _text(value: object) -> str:
    if isinstance(value, Type):
        return type_name(value)
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_text, value))}]"
    return str(value)


def every(op: str, build: Build, /, *, max_err: float = 1e-7, **axes: object) -> Iterator[Recipe]:
    """A recipe for each combination of the axes; a list is an axis, anything else a constant."""
    yield from _recipes(op, build, product(*map(_axis, axes.values())), list(axes), max_err)


def each(op: str, build: Build, /, *, max_err: float = 1e-7, **axes: object) -> Iterator[Recipe]:
    """The first value of every axis, then each other value of one axis at a time."""
    values = [_axis(a) for a in axes.values()]
    first = tuple(v[0] for v in values)
    rows = [first]
    for i, axis in enumerate(values):
        rows += [(*first[:i], v, *first[i + 1 :]) for v in axis[1:]]
    yield from _recipes(op, build, rows, list(axes), max_err)


def _axis(values: object) -> Sequence[object]:
    return list(dict.fromkeys(values)) if isinstance(values, list) else [values]


def _recipes(
    op: str, build: Build, rows: object, names: list[str], max_err: float
) -> Iterator[Recipe]:
    for row in rows:  # type: ignore[attr-defined]
        yield Recipe(op, build, dict(zip(names, row, strict=True)), max_err=max_err)
