"""`tools/check.py plan DIR`: what it prints and how it exits."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def check() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "check.py"
    spec = importlib.util.spec_from_file_location("check_tool", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, data_dir: Path) -> Path:
    for name in ("ctx.json.gz", "order.json.gz"):
        shutil.copy(data_dir / "plan" / name, tmp_path / name)
    return tmp_path


def test_all_exact(check: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["plan", str(folder)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert out[0].startswith("ctx.json.gz: 12 of 12 scenarios exact; 12 of 12 steps and 12 of 12")


def test_one_difference_fails_the_check_and_is_named(
    check: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "ctx.json.gz"
    scenarios = json.loads(gzip.decompress(path.read_bytes()))
    scenarios[3]["steps"][0]["expect"]["total"] += 1
    path.write_bytes(gzip.compress(json.dumps(scenarios).encode()))
    assert check.main(["plan", str(folder)]) == 1
    out = capsys.readouterr().out
    total = scenarios[3]["steps"][0]["expect"]["total"]
    assert "ctx.json.gz: 11 of 12 scenarios exact; 11 of 12 steps" in out
    assert (
        f"{scenarios[3]['name']}, step 0 ctx_alloc: total: expected {total}, got {total - 1}" in out
    )


def test_a_folder_without_scenarios(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(["plan", str(tmp_path)]) == 2
    assert "holds no .json.gz scenario files" in capsys.readouterr().err
