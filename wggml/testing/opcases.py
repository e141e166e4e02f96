"""Run golden operator cases on a backend and judge the results."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wggml.core.graph import Graph, next_uid
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import Backend, Buffer, BufferUsage
from wggml.testing import metrics
from wggml.testing.opdata import (
    BuiltCase,
    Bytes,
    OpCase,
    build_case,
    is_real,
    iter_cases,
    read_values,
)

__all__ = [
    "BuiltCase", "CaseResult", "OpCase", "build_case", "iter_cases", "read_values", "run_case",
    "tally",
]  # fmt: skip

Status = Literal["pass", "fail", "unsupported"]

POISON = 0xFF  # every float of these bytes is NaN, every integer -1
SENTINEL = 0x5C
# Ops whose first operand is a weight in a model.
WEIGHT_OPS = frozenset({Op.MUL_MAT, Op.MUL_MAT_ID, Op.GET_ROWS})


@dataclass(slots=True)
class CaseResult:
    """`error` is the largest over the compared outputs; `reason` says why it failed."""

    case: OpCase
    status: Status
    error: float = 0.0
    reason: str = ""


@dataclass(slots=True)
class _Placed:
    """Buffers of one case and the guard tensors between its tensors."""

    buffers: list[Buffer] = field(default_factory=list)
    guards: list[Tensor] = field(default_factory=list)

    def free(self) -> None:
        for b in self.buffers:
            b.free()


def run_case(
    case: OpCase,
    backend: Backend,
    *,
    sentinels: bool = True,
    weights_buffer: bool = False,
    runs: int = 1,
) -> CaseResult:
    """Place every root of the case in one buffer of the backend, run it, compare the results.

    Memory is poisoned (all bytes 0xFF) before leafs are written; with `sentinels` the bytes
    between tensors are checked after the run. `weights_buffer` puts constant first operands of
    matrix products and row look-ups into a buffer of their own with usage WEIGHTS. `runs` > 1
    gives the graph a uid, runs it once on blank inputs and then on the recorded ones, so that a
    replayed plan is judged.
    """
    built = build_case(case)
    placed = _Placed()
    try:
        weights = _weight_roots(built) if weights_buffer else []
        rest = [t for t in built.roots if t not in weights]
        _place(rest, backend, BufferUsage.COMPUTE, placed)
        if weights:
            _place(weights, backend, BufferUsage.WEIGHTS, placed)
        _place_views(built)
        for node in built.graph.nodes:
            if is_real(node) and (why := _why_not(backend, node)) is not None:
                return CaseResult(case, "unsupported", reason=f"{node.op.name}: {why}")
        return _judge(built, backend, placed, sentinels, runs)
    finally:
        placed.free()


def _why_not(backend: Backend, node: Tensor) -> str | None:
    if backend.supports_op(node):
        return None
    return backend.device.why_not(node) or "not supported"


def _weight_roots(built: BuiltCase) -> list[Tensor]:
    written = {n.view_src for n in built.graph.nodes if is_real(n) and n.view_src is not None}
    found: list[Tensor] = []
    for node in built.graph.nodes:
        a = node.src[0] if node.op in WEIGHT_OPS else None
        if a is None:
            continue
        root = a.view_src or a
        if root.op == Op.NONE and root not in written and root not in found:
            found.append(root)
    return found


def _place(roots: list[Tensor], backend: Backend, usage: BufferUsage, placed: _Placed) -> None:
    buft = backend.buffer_type()
    align = max(buft.alignment, 4)

    def up(n: int) -> int:
        return -(-n // align) * align

    offset = align  # the first guard
    places: list[int] = []
    for t in roots:
        places.append(offset)
        offset = up(offset + buft.alloc_size(t)) + align
    buffer = buft.alloc_buffer(offset)
    buffer.usage = usage
    placed.buffers.append(buffer)
    buffer.clear(POISON)
    if usage != BufferUsage.WEIGHTS:
        ends = [up(p + buft.alloc_size(t)) for p, t in zip(places, roots, strict=True)]
        placed.guards.extend(_guard(buffer, at, align) for at in [0, *ends])
    for t, at in zip(roots, places, strict=True):
        t.buffer, t.data = buffer, at
        buffer.init_tensor(t)


def _guard(buffer: Buffer, at: int, nbytes: int) -> Tensor:
    guard = Tensor(Type.I8, (nbytes, 1, 1, 1), (1, nbytes, nbytes, nbytes))
    guard.set_name("sentinel")
    guard.buffer, guard.data = buffer, at
    buffer.init_tensor(guard)
    buffer.set_tensor(guard, np.full(nbytes, SENTINEL, np.uint8))
    return guard


def _place_views(built: BuiltCase) -> None:
    for t in built.tensors:
        root = t.view_src
        if root is not None:
            assert root.buffer is not None and root.data is not None
            t.buffer, t.data = root.buffer, root.data + t.view_offs
            root.buffer.init_tensor(t)


def _write_leafs(built: BuiltCase, *, blank: bool = False) -> None:
    """The recorded contents, or zeros for all that is no index."""
    for r, t in zip(built.case.tensors, built.tensors, strict=True):
        if r.data is not None and r.data[1]:
            home = t.placed_in
            assert home is not None
            data = built.case.bytes_at(r.data)
            index = r.type in (Type.I8, Type.I16, Type.I32, Type.I64)
            home.set_tensor(t, np.zeros_like(data) if blank and not index else data)


def _read(t: Tensor) -> Bytes:
    home = t.placed_in
    assert home is not None
    return home.get_tensor(t)


def _stages(built: BuiltCase) -> Iterator[tuple[Graph, list[int]]]:
    """Stretches of the graph and the outputs to read after each.

    Outputs of a `whole_graph` case are read at the end. Others hold what a node left right after
    it ran: the graph is cut behind a node whose memory a later one overwrites.
    """
    nodes, case = built.graph.nodes, built.case
    compared = [o.id for o in case.outputs if o.compared]
    index = {id(n): i for i, n in enumerate(nodes)}
    last_write = {id(_root(n)): i for i, n in enumerate(nodes) if is_real(n)}
    late: list[int] = []
    cuts: dict[int, list[int]] = {}
    for i in compared:
        t = built.tensors[i]
        at = index.get(id(t))
        if case.whole_graph or at is None or last_write.get(id(_root(t)), -1) <= at:
            late.append(i)
        else:
            cuts.setdefault(at + 1, []).append(i)
    begin = 0
    for end in sorted(cuts):
        yield built.graph.view(begin, end), cuts[end]
        begin = end
    yield (built.graph if begin == 0 else built.graph.view(begin, len(nodes))), late


def _root(t: Tensor) -> Tensor:
    return t.view_src or t


def _judge(
    built: BuiltCase, backend: Backend, placed: _Placed, sentinels: bool, runs: int
) -> CaseResult:
    stages = list(_stages(built))
    if runs > 1:
        for graph, _ in stages:
            graph.uid = next_uid()
    worst = 0.0
    for run in range(runs):
        # A plan is compiled on blank inputs, so that one which kept a value would show.
        warm_up = runs > 1 and run == 0
        _write_leafs(built, blank=warm_up)
        results: dict[int, Bytes] = {}
        for graph, reads in stages:
            try:
                backend.graph_compute(graph)
                backend.synchronize()
            except Exception as e:  # one broken kernel must not hide the verdict on the others
                reason = f"{type(e).__name__}: {e} ({_raised_at(e)})"
                return CaseResult(built.case, "fail", metrics.WORST, reason)
            results.update({i: _read(built.tensors[i]) for i in reads})
        if sentinels and any((_read(g) != SENTINEL).any() for g in placed.guards):
            return CaseResult(built.case, "fail", metrics.WORST, "wrote outside its tensors")
        if warm_up:
            continue
        result = _compare(built, results)
        worst = max(worst, result.error)
        if result.status != "pass":
            return result
    return CaseResult(built.case, "pass", worst)


def _raised_at(e: BaseException) -> str:
    frames = traceback.extract_tb(e.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"


def _compare(built: BuiltCase, results: dict[int, Bytes]) -> CaseResult:
    case = built.case
    worst = 0.0
    for o in case.outputs:
        if not o.compared:
            continue
        record = case.tensors[o.id]
        got, ref = read_values(results[o.id], record), read_values(case.bytes_at(o.data), record)
        try:
            source = _index_source(built, o.id) if case.metric == "topk_values_set" else None
            error = metrics.compare(case.metric, got, ref, source)
        except metrics.Mismatch as e:
            return CaseResult(case, "fail", metrics.WORST, f"{record.name}: {e}")
        worst = max(worst, error)
        if not error <= case.max_err:
            reason = f"{record.name} ({record.op.name}): {case.metric} {error:.3g}"
            return CaseResult(case, "fail", error, f"{reason} > {case.max_err:.3g}")
    return CaseResult(case, "pass", worst)


def _index_source(built: BuiltCase, i: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    node = built.tensors[i]
    while not (node.src and node.op in (Op.TOP_K, Op.ARGSORT)):
        above = node.src[0] if node.src else None
        if above is None:
            raise metrics.Mismatch("found no TOP_K or ARGSORT that the indices come from")
        node = above
    source = node.src[0]
    assert source is not None
    return read_values(_read(source), source)


def tally(results: Iterable[CaseResult]) -> dict[str, Counter[str]]:
    """Number of passed, failed and unsupported cases of each op."""
    table: dict[str, Counter[str]] = {}
    for r in results:
        table.setdefault(r.case.op, Counter())[r.status] += 1
    return table
