"""The benchmarks run, and their frame reckons right. Nothing here judges how long anything took."""

from __future__ import annotations

import importlib
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
if str(BENCH) not in sys.path:
    sys.path.insert(0, str(BENCH))

from _common import Figure, Report, main, number, peer_figure  # noqa: E402
from _plot import svg  # noqa: E402

from wggml.errors import UsageError  # noqa: E402

RUNS = [
    ("decode", ["--context", "8"], 2),
    ("prefill", [], 1),
    ("ops", ["--types", "Q4_1", "F16"], 4 + 5),
    ("host", [], 5),
    ("startup", [], 6),
    ("memory", [], 2),
    *[("scale", ["--axis", a], 2) for a in ("context", "batch", "layers", "vocabulary")],
]


@pytest.mark.parametrize(("name", "more", "n"), RUNS, ids=lambda v: str(v))
def test_every_benchmark_runs(
    name: str, more: list[str], n: int, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    out, picture = tmp_path / "out.json", tmp_path / "out.svg"
    argv = ["--model", str(tiny_model("llama")), "--device", "cpu", "--quick", *more]
    bench: Any = importlib.import_module(name)
    assert main(bench, [*argv, "--json", str(out), "--svg", str(picture)]) == 0
    report = Report.from_json(json.loads(out.read_text()))
    assert len(report.figures) == n
    assert all(f.median >= 0 and f.samples for f in report.figures)
    assert any(f.floor is not None for f in report.figures)
    assert report.machine["versions"]["numpy"]
    assert bench.headline(report) in report.figures
    texts = [e.text for e in ET.parse(picture).iter() if e.tag.endswith("text")]
    assert report.title in texts


def test_median_spread_and_share() -> None:
    slow = Figure("t", "ms", [5.0, 1.0, 3.0, 2.0, 4.0], floor=1.5)
    assert (slow.median, slow.low, slow.high, slow.share) == (3.0, 2.0, 4.0, 0.5)
    fast = Figure("r", "tokens/s", [30.0], floor=40.0, higher_is_better=True)
    assert fast.share == 0.75
    assert Figure("n", "ms", [1.0]).share is None


@pytest.mark.parametrize(
    ("x", "text"), [(0.01234, "0.0123"), (1.234, "1.23"), (26.31, "26.3"), (1234.5, "1234")]
)
def test_numbers_have_three_digits(x: float, text: str) -> None:
    assert number(x) == text


@pytest.mark.parametrize(
    ("output", "match", "figure"),
    [
        ("warm 1.0 tokens/s\nthen 12.5 tokens/s", None, 12.5),
        ("| llama 135M | tg64 | 2.50 ± 0.01 |", None, 2.5),
        ("speed=7.25;", r"speed=([\d.]+)", 7.25),
    ],
)
def test_a_peers_figure_is_found(output: str, match: str | None, figure: float) -> None:
    code = f"print({output!r})"
    assert peer_figure(f"{sys.executable} -c {json.dumps(code)!s}", match) == figure


@pytest.mark.parametrize("command", ["exit 3", "echo nothing"])
def test_a_peer_that_fails_is_an_error(command: str) -> None:
    with pytest.raises(UsageError, match="peer"):
        peer_figure(command, None)


def test_in_turn_with_a_peer(
    tiny_model: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--model", str(tiny_model("llama")), "--device", "cpu", "--quick", "--context", "8"]
    assert main(importlib.import_module("decode"), [*argv, "--peer", "echo 2 tokens/s"]) == 0  # type: ignore[arg-type]
    said = re.search(r"ours (\S+) tokens/s, peer 2.00: (\S+)x", capsys.readouterr().out)
    assert said is not None


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(importlib.import_module("decode"), ["--model", "/nowhere.gguf"]) == 2  # type: ignore[arg-type]
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_page(tmp_path: Path) -> None:
    report_page: Any = importlib.import_module("report")
    report = Report("decode", "Decode", {"device": {"description": "A card", "api": "Vulkan"}})
    report.machine = {"processor": "P", "cores": 2, "versions": {"numpy": "2"}}
    report.add("token", "ms", [2.0], floor=1.0, floor_name="copy rate")
    (tmp_path / "cpu-x-decode.json").write_text(json.dumps(report.to_json()))
    assert report_page.main([str(tmp_path), "--docs", str(tmp_path / "docs")]) == 0
    text = (tmp_path / "docs" / "performance.md").read_text()
    assert "| token | 2.00 ms | 2.00 .. 2.00 | 1.00 (copy rate) | 50% |" in text
    assert "A card, Vulkan." in text
    assert (tmp_path / "docs" / "performance" / "cpu-x-decode.svg").read_text() == svg(report)
    assert report_page.main([str(tmp_path / "docs")]) == 2
