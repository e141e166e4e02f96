"""The runner of golden cases must see what a wrong backend does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wggml.backends.cpu.backend import CpuBackend
from wggml.backends.cpu.buffer import CpuBuffer
from wggml.backends.cpu.device import CpuDevice
from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError
from wggml.hal.interface import BufferUsage
from wggml.testing.opcases import build_case, iter_cases, run_case, tally
from wggml.testing.opdata import OpCase, OutputRecord, TensorRecord

DATA = Path(__file__).resolve().parents[1] / "data" / "ops"


def one_case(op: str, *, whole_graph: bool | None = None) -> OpCase:
    for case in iter_cases(DATA, op):
        if whole_graph is None or case.whole_graph == whole_graph:
            return case
    raise AssertionError(f"no such case of {op}")


class Meddling(CpuBackend):
    """Runs graphs properly, then does `harm(graph)`."""

    def __init__(self, harm: Callable[[Graph], None]) -> None:
        super().__init__(CpuDevice())
        self.harm = harm
        self.seen: list[Graph] = []

    def graph_compute(self, graph: Graph) -> None:
        super().graph_compute(graph)
        self.seen.append(graph)
        self.harm(graph)


def last(graph: Graph) -> Tensor:
    return [n for n in graph.nodes if n.op not in EMPTY_OPS][-1]


def memory(t: Tensor) -> np.ndarray:
    assert isinstance(t.buffer, CpuBuffer)
    return t.buffer.memory


def nothing(graph: Graph) -> None:
    pass


def test_build_case_keeps_every_recorded_field() -> None:
    for case in iter_cases(DATA, "ROPE_SET_ROWS|MUL_MAT|VIEW"):
        built = build_case(case)
        for r, t in zip(case.tensors, built.tensors, strict=True):
            assert (t.type, t.ne, t.nb, t.op) == (r.type, tuple(r.ne), tuple(r.nb), r.op)
            assert t.op_params == r.op_params and len(t.op_params) == 64
            assert [s and built.tensors.index(s) for s in t.src] == r.src
            assert (t.view_src and built.tensors.index(t.view_src)) == r.view_src
            assert t.view_offs == r.view_offs
            assert t.flags | Flag.COMPUTE == r.flags | Flag.COMPUTE
        assert built.graph.nodes == [t for t in built.tensors if t.op != Op.NONE]
        assert built.graph.leafs == [t for t in built.tensors if t.op == Op.NONE]
        assert all(n.flags & Flag.COMPUTE for n in built.graph.nodes)


def test_filters() -> None:
    assert {c.op for c in iter_cases(DATA, "ADD")} == {"ADD"}
    assert {c.op for c in iter_cases(DATA, "ADD.*")} > {"ADD", "ADD1"}
    case = one_case("ADD")
    assert [c.id for c in iter_cases(DATA, case_regex=f"^{case.id} ")] == [case.id]


def test_a_directory_without_cases_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="no operator case files"):
        next(iter_cases(tmp_path))


def test_right_results_pass() -> None:
    assert run_case(one_case("ADD"), Meddling(nothing)).status == "pass"


def test_a_wrong_value_fails() -> None:
    def harm(graph: Graph) -> None:
        t = last(graph)
        memory(t)[t.data : t.data + 4] = [0, 0, 0, 64]

    result = run_case(one_case("MUL_MAT"), Meddling(harm))
    assert result.status == "fail" and "nmse" in result.reason


def test_a_result_that_was_never_written_fails() -> None:
    class Idle(Meddling):
        def graph_compute(self, graph: Graph) -> None:
            pass

    result = run_case(one_case("SQR"), Idle(nothing))
    assert result.status == "fail" and "NaN" in result.reason


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_write_outside_a_tensor_fails(where: str) -> None:
    def harm(graph: Graph) -> None:
        t = last(graph)
        root = t.view_src or t
        end = -(-(root.data + root.nbytes) // 32) * 32
        memory(t)[root.data - 1 if where == "before" else end] = 1

    case = one_case("ADD")
    assert run_case(case, Meddling(harm)).reason == "wrote outside its tensors"
    assert run_case(case, Meddling(harm), sentinels=False).status == "pass"


def test_an_exception_is_a_failure_that_names_its_place() -> None:
    def harm(graph: Graph) -> None:
        raise ZeroDivisionError("oh")

    result = run_case(one_case("ADD"), Meddling(harm))
    assert result.status == "fail"
    assert result.reason.startswith("ZeroDivisionError: oh (test_opcases.py:")


def test_unsupported_gives_the_reason() -> None:
    class Picky(CpuDevice):
        def why_not(self, t: Tensor) -> str | None:
            return "not today" if t.op == Op.ADD else super().why_not(t)

    result = run_case(one_case("ADD"), Picky().init_backend())
    assert (result.status, result.reason) == ("unsupported", "ADD: not today")
    assert tally([result])["ADD"]["unsupported"] == 1


def doubled_twice(*, whole_graph: bool) -> OpCase:
    """a = [1, 2], doubled in place two times; recorded is what each step left."""
    place = {"ne": (2, 1, 1, 1), "nb": (4, 8, 8, 8), "type": Type.F32, "flags": 0}
    factor = np.array([2.0], np.float32).tobytes().ljust(64, b"\0")
    tensors = [
        TensorRecord(0, "a", Op.NONE, op_params=bytes(64), src=[], view_src=None, view_offs=0,
                     data=(0, 8), **place),
        *(
            TensorRecord(i, f"step {i}", Op.SCALE, op_params=factor, src=[i - 1], view_src=0,
                         view_offs=0, data=None, **place)
            for i in (1, 2)
        ),
    ]  # fmt: skip
    outputs = [OutputRecord(1, (8, 8), not whole_graph, 0.0), OutputRecord(2, (16, 8), True, 0.0)]
    blob = np.array([1, 2, 2, 4, 4, 8], np.float32).view(np.uint8)
    return OpCase(
        "SCALE/0", "SCALE", "", "test", "nmse", 0.0, whole_graph, 2, tensors, outputs, blob
    )


@pytest.mark.parametrize("whole_graph", [False, True])
def test_overwritten_intermediate_results_are_read_in_time(whole_graph: bool) -> None:
    """Results that a later node overwrites are read between stages of the graph."""
    backend = Meddling(nothing)
    assert run_case(doubled_twice(whole_graph=whole_graph), backend).status == "pass"
    assert len(backend.seen) == (1 if whole_graph else 2)


def test_a_plan_that_keeps_a_value_fails() -> None:
    class Forgetful(Meddling):
        """Answers every later run of a graph with what the first one gave."""

        first: bytes = b""

        def graph_compute(self, graph: Graph) -> None:
            super().graph_compute(graph)
            t = last(graph)
            if not self.first:
                self.first = memory(t)[t.data : t.data + t.nbytes].tobytes()
            memory(t)[t.data : t.data + t.nbytes] = np.frombuffer(self.first, np.uint8)

    assert run_case(one_case("ADD"), Forgetful(nothing), runs=2).status == "fail"


def test_weights_go_to_a_buffer_of_their_own() -> None:
    usages: list[tuple[BufferUsage, BufferUsage]] = []

    def harm(graph: Graph) -> None:
        t = last(graph)
        weight, x = t.src[0], t.src[1]
        assert weight is not None and x is not None
        usages.append((weight.placed_in.usage, x.placed_in.usage))

    case = one_case("MUL_MAT")
    for weights_buffer in (True, False):
        assert run_case(case, Meddling(harm), weights_buffer=weights_buffer).status == "pass"
    any_, weights = BufferUsage.COMPUTE, BufferUsage.WEIGHTS
    assert usages == [(weights, any_), (any_, any_)]


def test_runs_replay_one_plan_from_the_same_inputs() -> None:
    backend = CpuDevice().init_backend()
    case = one_case("ADD")
    assert run_case(case, backend, runs=3).status == "pass"
    assert (backend.counters.plans_built, backend.counters.plans_replayed) == (1, 2)
