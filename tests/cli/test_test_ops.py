"""`wggml test-ops`: what it runs, refuses and writes. Each mode on NumPy, one on an adapter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.conftest import find_adapter
from wggml.backends.cpu.backend import CpuBackend
from wggml.cli.main import cli
from wggml.core.graph import Graph
from wggml.testing.builtin import iter_builtin
from wggml.testing.opdata import OpCase
from wggml.testing.record import with_outputs, write_cases

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("WGGML_PROFILE", raising=False)
    monkeypatch.setenv("WGGML_SELFTEST", "off")

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(cli, ["test-ops", *args], prog_name="wggml")

    return invoke


def case(op: str) -> OpCase:
    return next(iter_builtin(op))


def wrong(op: str) -> OpCase:
    """A case whose reference is zeros."""
    c = case(op)
    return with_outputs(c, {o.id: np.zeros(o.data[1], np.uint8) for o in c.outputs})


# ---- mode test ----------------------------------------------------------------------------------


def test_built_in_cases_of_some_ops(run: Run) -> None:
    result = run("-b", "cpu", "-o", "SQR,silu", "-p", "type=f32,ne=.7,5")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("CPU: ")
    assert "reference of built-in cases is this same backend" in result.output
    assert "SQR" in result.output and "SILU" in result.output and "GELU" not in result.output
    assert lines[-1].endswith("passed, 0 failed, 0 unsupported")


def test_recorded_cases(run: Run, data_dir: Path) -> None:
    result = run("-b", "cpu", "--cases", str(data_dir / "ops"), "-o", "SUM,ARGMAX")
    assert result.exit_code == 0, result.output
    assert "same backend" not in result.output


def test_a_failed_case_is_shown_with_its_reason(run: Run, tmp_path: Path) -> None:
    write_cases(tmp_path, [case("SQR"), wrong("SILU")])
    result = run("-b", "cpu", "--cases", str(tmp_path))
    assert result.exit_code == 1
    assert "FAIL SILU/b000 [type=f32,ne=[7,5,3,2],layout=dense,inplace=0]" in result.output
    table = [line.split() for line in result.output.splitlines() if line.startswith("SILU ")]
    assert table[0][:2] == ["SILU", "1"] and "nmse" in table[0]
    assert "2 cases: 1 passed, 1 failed, 0 unsupported" in result.output


def test_json_has_every_verdict(run: Run, tmp_path: Path) -> None:
    write_cases(tmp_path / "cases", [case("SQR"), wrong("SILU")])
    out = tmp_path / "out.json"
    result = run("-b", "cpu", "--cases", str(tmp_path / "cases"), "--json", str(out))
    assert result.exit_code == 1
    data = json.loads(out.read_text())
    assert data["mode"] == "test" and data["profile"] == ""
    [device] = data["devices"]
    status = {c["id"]: c["status"] for c in device["cases"]}
    assert device["name"] == "CPU" and status == {"SQR/b000": "pass", "SILU/b000": "fail"}
    to_stdout = run("-b", "cpu", "--cases", str(tmp_path / "cases"), "--json", "-")
    assert len(json.loads(to_stdout.stdout)["devices"][0]["cases"]) == 2


def test_ctrl_c_keeps_the_results_so_far(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = 0
    real = CpuBackend.graph_compute

    def stop_at_the_ninth(self: CpuBackend, graph: Graph) -> None:
        nonlocal count
        count += graph.uid != 0  # not when references are computed
        if count > 8:
            raise KeyboardInterrupt
        real(self, graph)

    monkeypatch.setattr(CpuBackend, "graph_compute", stop_at_the_ninth)
    out = tmp_path / "out.json"
    result = run("-b", "cpu", "-o", "SQR", "--json", str(out))
    assert result.exit_code == 130
    assert "stopped; the results so far:" in result.output
    assert "4 of " in result.output and "4 passed, 0 failed" in result.output
    assert len(json.loads(out.read_text())["devices"][0]["cases"]) == 4


def test_an_adapter_with_a_profile(run: Run) -> None:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    result = run("-b", "lavapipe", "--profile", "no-f16,no-subgroups", "-o", "SQR", "-p", "b00")
    assert result.exit_code == 0, result.output
    assert "lavapipe" in result.output.splitlines()[0]
    assert "same backend" not in result.output


# ---- refusals -----------------------------------------------------------------------------------

REFUSED: list[tuple[list[str], str]] = [
    (["-o", "SQUARE"], "no op 'SQUARE' in the built-in table"),
    (["-o", "SILUU"], "did you mean SILU"),
    (["-b", "no such adapter"], "no device 'no such adapter'; there is: "),
    (["-p", "ne=["], "is not a regular expression"),
    (["-o", "SQR", "-p", "no such case"], "no case is chosen"),
    (["--profile", "no-such"], "'no-such' is no device property; known: spec-defaults"),
    (["--mode", "fast"], "'test', 'perf', 'support', 'grad'"),
    (["--cases", "/no/such/folder"], "no operator case files"),
    (["--watch", "--mode", "perf"], "--watch goes with --mode test"),
    (["--mode", "grad", "--cases", "tests/data/ops"], "--mode grad has cases of its own"),
    (["--mode", "grad", "-o", "ARGMAX"], "no gradient case is chosen"),
]


@pytest.mark.parametrize(("args", "message"), REFUSED)
def test_what_does_not_exist_is_refused_with_what_does(
    run: Run, args: list[str], message: str
) -> None:
    backend = [] if "-b" in args else ["-b", "cpu"]
    result = run(*backend, *args)
    assert result.exit_code == 2, result.output
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_a_damaged_file_is_refused(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "ADD.npz", meta=np.zeros(3, np.uint8))
    result = run("-b", "cpu", "--cases", str(tmp_path))
    assert result.exit_code == 2 and "is no file of operator cases" in result.output


# ---- the other modes ----------------------------------------------------------------------------


def test_perf_shows_shares_of_the_peaks(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "perf.json"
    args = ["-b", "cpu", "--mode", "perf", "-o", "RMS_NORM,GET_ROWS", "-p", "4096,1]|type=q8_0"]
    result = run(*args, "--json", str(out))
    assert result.exit_code == 0, result.output
    assert "peaks by wall: copy " in result.output and "of FMA" in result.output
    [device] = json.loads(out.read_text())["devices"]
    found: dict[str, Any] = {c["op"]: c for c in device["cases"]}
    norm, rows = found["RMS_NORM"], found["GET_ROWS"]
    assert norm["bytes"] == 2 * 4096 * 4 and norm["flops"] == 4 * 4096
    assert rows["bytes"] == 512 * (4096 // 32 * 34 + 4 + 4096 * 4) and rows["flops"] == 0
    assert norm["seconds"] > 0 and device["peaks"]["fma_flops"] > 0


def test_grad_of_some_ops(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "grad.json"
    result = run("-b", "cpu", "--mode", "grad", "-o", "TANH,SQRT", "--json", str(out))
    assert result.exit_code == 0, result.output
    [device] = json.loads(out.read_text())["devices"]
    status = {c["name"]: c["status"] for c in device["cases"]}
    assert status["tanh"] == status["sqrt"] == "pass" and "gelu" not in status


def test_support_prints_markdown(run: Run) -> None:
    result = run("-b", "cpu", "--mode", "support", "-o", "ADD1")
    assert result.exit_code == 0, result.output
    assert "| op | types | NumPy | why not |" in result.output
    assert "| ADD1 | f32, f16, bf16 | yes |  |" in result.output
