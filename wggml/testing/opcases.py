"""Run operator cases on a backend and judge the results."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wggml.core.graph import Graph, next_uid
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.hal.interface import Backend
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
from wggml.testing.placing import Placed, place, read_bytes, write_leafs

__all__ = [
    "BuiltCase", "CaseResult", "OpCase", "build_case", "compute_outputs", "iter_cases",
    "read_values", "run_case", "tally",
]  # fmt: skip

Status = Literal["pass", "fail", "unsupported"]


@dataclass(slots=True)
class CaseResult:
    """`error` is the largest over the compared outputs; `reason` says why it failed or is not
    supported; `seconds` is what the run took on the host's clock, compilation included."""

    case: OpCase
    status: Status
    error: float = 0.0
    reason: str = ""
    seconds: float = 0.0


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
    placed = place(built, backend, weights_buffer=weights_buffer)
    try:
        why = why_not(built, backend)
        if why is not None:
            return CaseResult(case, "unsupported", reason=why)
        return _judge(built, backend, placed, sentinels, runs)
    finally:
        placed.free()


def why_not(built: BuiltCase, backend: Backend) -> str | None:
    """`OP: reason` of the first node of a placed case that the backend does not run, or None."""
    for node in built.graph.nodes:
        if is_real(node) and not backend.supports_op(node):
            return f"{node.op.name}: {backend.device.why_not(node) or 'not supported'}"
    return None


def compute_outputs(case: OpCase, backend: Backend, ids: Sequence[int]) -> dict[int, Bytes]:
    """What `backend` leaves in the tensors `ids` right after each was computed (at the end with
    `whole_graph`): bytes by tensor id."""
    built = build_case(case)
    placed = place(built, backend)
    try:
        write_leafs(built)
        results: dict[int, Bytes] = {}
        for graph, reads in _stages(built, ids):
            backend.graph_compute(graph)
            backend.synchronize()
            results.update({i: read_bytes(built.tensors[i]) for i in reads})
        return results
    finally:
        placed.free()


def _stages(built: BuiltCase, wanted: Sequence[int]) -> Iterator[tuple[Graph, list[int]]]:
    """Stretches of the graph and the outputs to read after each.

    Outputs of a `whole_graph` case are read at the end. Others hold what a node left right after
    it ran: the graph is cut behind a node whose memory a later one overwrites.
    """
    nodes, case = built.graph.nodes, built.case
    index = {id(n): i for i, n in enumerate(nodes)}
    last_write = {id(_root(n)): i for i, n in enumerate(nodes) if is_real(n)}
    late: list[int] = []
    cuts: dict[int, list[int]] = {}
    for i in wanted:
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
    built: BuiltCase, backend: Backend, placed: Placed, sentinels: bool, runs: int
) -> CaseResult:
    stages = list(_stages(built, [o.id for o in built.case.outputs if o.compared]))
    if runs > 1:
        for graph, _ in stages:
            graph.uid = next_uid()
    worst = 0.0
    for run in range(runs):
        # A plan is compiled on blank inputs, so that one which kept a value would show.
        warm_up = runs > 1 and run == 0
        write_leafs(built, blank=warm_up)
        results: dict[int, Bytes] = {}
        for graph, reads in stages:
            try:
                backend.graph_compute(graph)
                backend.synchronize()
            except Exception as e:  # one broken kernel must not hide the verdict on the others
                reason = f"{type(e).__name__}: {e} ({_raised_at(e)})"
                return CaseResult(built.case, "fail", metrics.WORST, reason)
            results.update({i: read_bytes(built.tensors[i]) for i in reads})
        if sentinels and not placed.guards_are_whole():
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
    return read_values(read_bytes(source), source)


def tally(results: Iterable[CaseResult]) -> dict[str, Counter[str]]:
    """Number of passed, failed and unsupported cases of each op."""
    table: dict[str, Counter[str]] = {}
    for r in results:
        table.setdefault(r.case.op, Counter())[r.status] += 1
    return table
