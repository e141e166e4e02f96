"""`plan`, `trace`, `diff` and `doctor` as commands, over the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.conftest import find_adapter

Wggml = Callable[..., Result]
TinyModel = Callable[[str], Path]


@pytest.fixture
def tiny(tiny_model: TinyModel) -> str:
    return str(tiny_model("llama"))


@pytest.fixture(scope="module")
def gpu() -> str:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe here")
    return "lavapipe"


def test_plan(wggml: Wggml, tiny: str, tmp_path: Path):
    page, data = tmp_path / "p.html", tmp_path / "p.json"
    done = wggml(
        "plan", tiny, "--device", "cpu", "--ubatch", "16", "-c", "256", "--html", str(page),
        "--json", str(data),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "high-water mark" in done.stdout and "16 tokens over 256 cells" in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(data.read_text())["memory"]["n_steps"] > 50
    piped = wggml("plan", tiny, "--device", "cpu", "--tokens", "1", "--json", "-")
    assert "one token" in json.loads(piped.stdout)["title"]


def test_trace(wggml: Wggml, tiny: str, tmp_path: Path):
    page, data = tmp_path / "t.html", tmp_path / "t.json"
    done = wggml(
        "trace", tiny, "-p", "abc", "--device", "cpu", "--token", "3", "--html", str(page),
        "--json", str(data),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "its graph was used again" in done.stdout and "matrix products" in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(data.read_text())["traceEvents"]


def test_diff(wggml: Wggml, tiny: str, gpu: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WGGML_SELFTEST", "off")
    done = wggml("diff", tiny, "-p", "abc", "--b", gpu, "-q")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("no node differs between CPU and WGPU0")
    assert "the same likeliest token" in done.stdout


def test_diff_saves_what_differs(
    wggml: Wggml, tiny: str, gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from tests.inspect.test_diff import FAULTS, plant

    monkeypatch.setenv("WGGML_SELFTEST", "off")
    # an adapter that was opened keeps its shaders, so this one is opened anew
    monkeypatch.setattr("wggml.hal.registry._default", None)
    plant(tmp_path / "shaders", *FAULTS["rope"][:3])
    monkeypatch.setenv("WGGML_SHADERS", str(tmp_path / "shaders"))
    cases = str(tmp_path / "cases")
    done = wggml("diff", tiny, "-p", "abc", "--b", gpu, "-q", "--save", cases)
    assert done.exit_code == 1, done.output
    assert "(ROPE), node" in done.stdout
    assert f"wggml test-ops --cases {cases} -b {gpu}" in done.stdout
    monkeypatch.setattr("wggml.hal.registry._default", None)
    assert wggml("test-ops", "--cases", cases, "-b", gpu).exit_code == 1
    assert wggml("test-ops", "--cases", cases, "-b", "cpu").exit_code == 0


def test_doctor(wggml: Wggml, monkeypatch: pytest.MonkeyPatch):
    found = {"adapters": [], "problems": ["wgpu: no GPU adapter: apt install it"]}
    monkeypatch.setattr("wggml.inspect.doctor.devices", lambda: found)
    done = wggml("doctor")
    assert done.exit_code == 0 and "apt install it" in done.stdout
    assert json.loads(wggml("doctor", "--json").stdout)["versions"]["python"]


@pytest.mark.parametrize(
    "args, said",
    [
        (["plan", "MODEL", "--device", "nothing-like-it"], "no device 'nothing-like-it'"),
        (["plan", "MODEL", "--device", "cpu", "--ubatch", "8", "--tokens", "9"], "1 to 8 tokens"),
        (["plan", "MODEL", "--device", "cpu", "--html", "/no/such/folder/x.html"], "cannot write"),
        (["trace", "MODEL", "--device", "cpu", "-p", "a", "--token", "9999"], "cannot be traced"),
        (["diff", "MODEL", "--b", "nothing-like-it"], "no device"),
        (["diff", "MODEL"], "--b"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(wggml: Wggml, tiny: str, args: list[str], said: str):
    done = wggml(*[tiny if a == "MODEL" else a for a in args])
    assert done.exit_code == 2
    assert said in done.stderr and "Traceback" not in done.output
