"""What the scheduler decided can be printed and parsed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.sched.mocks import Machine, graph_of, new_input, new_weight, write
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.errors import UsageError
from wggml.sched import Sched
from wggml.sched.report import format_size


def example() -> tuple[Machine, Graph, Tensor]:
    m, ctx = Machine(gpu={"all_but": frozenset({Op.SQR})}), Context()
    x = new_input(ctx, "x", 4)
    a = ops.add(ctx, x, new_weight(ctx, "w", m.vram[0], 4)).set_name("sum")
    return m, graph_of(ops.sqr(ctx, ops.reshape(ctx, a, (2, 2))).set_name("square")), x


def test_describe_splits() -> None:
    m, g, _ = example()
    s = Sched(m.streams)
    assert s.describe() == ""
    s.split_graph(g)
    assert s.describe().splitlines() == [
        "## SPLIT #0: GPU0 # nodes 0..1 # 1 inputs: [x (16B)]",
        "## SPLIT #1: CPU # nodes 2..2 # 1 inputs: [sum (reshaped) (16B)]",
    ]


def test_describe_nodes_with_causes_and_uses() -> None:
    m, g, _ = example()
    s = Sched(m.streams)
    s.split_graph(g)
    lines = s.describe(2).splitlines()
    assert len(lines) == 4  # the view is left out
    for part in ("node #  0", "ADD", "sum", "[GPU0 1.wgt1]", "use=1,c=1", "x (16B) [CPU 1.inp]"):
        assert part in lines[1]
    assert "square (16B) [CPU 3.best]" in lines[3]


def test_json() -> None:
    m, g, _ = example()
    s = Sched(m.streams, n_copies=2)
    assert s.to_json() == {}
    s.alloc_graph(g)
    data = json.loads(json.dumps(s.to_json()))
    assert data["backends"] == ["GPU0", "CPU"]
    assert data["copied_bytes"] == 32
    split = data["splits"][0]
    assert (split["backend"], split["i_start"], split["i_end"]) == (0, 0, 2)
    entry = split["inputs"][0]
    assert (entry["name"], entry["nbytes"], entry["from"]) == ("x", 16, 1)
    assert [data["tensors"][i]["name"] for i in entry["copies"]] == ["GPU0#x#0", "GPU0#x#1"]
    by_name = {t["name"]: t for t in data["tensors"]}
    assert by_name["sum"]["cause"] == "1.wgt1"
    assert by_name["sum"]["backend"] == 0
    assert [data["tensors"][i]["name"] for i in by_name["sum"]["src"]] == ["x", "w"]


def test_debug_switches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WGGML_SCHED_DEBUG", "2")
    monkeypatch.setenv("WGGML_BACKEND_DEBUG", "1")
    m, g, x = example()
    with Sched(m.streams) as s:
        s.alloc_graph(g)
        printed = capsys.readouterr().err
        assert "## SPLIT #1: CPU" in printed and "1.wgt1" in printed
        write(x, np.ones(4))
        s.graph_compute(g)
        lines = capsys.readouterr().err.splitlines()
    assert "copy x (CPU) -> GPU0#x#0, 16 bytes, from host memory" in lines
    assert "copy sum (reshaped) (GPU0) -> CPU#sum (reshaped)#0, 16 bytes, to host memory" in lines
    assert "synchronize GPU0" in lines


def test_debug_switch_with_a_bad_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGGML_SCHED_DEBUG", "yes")
    with pytest.raises(UsageError, match="WGGML_SCHED_DEBUG must be 0, 1 or 2"):
        Sched(Machine().streams)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0B"), (1023, "1023B"), (1536, "1.5K"), (3 << 20, "3.0M"), (5 << 30, "5.0G")],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert format_size(nbytes) == text
