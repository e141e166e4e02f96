"""The built wheel: everything is in it, and it works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without network."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(out)], cwd=ROOT, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content as an installer would lay it out."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_outside(unpacked: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on the unpacked wheel, in a folder that is no checkout."""
    env = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *args], cwd=unpacked, env=env, capture_output=True, text=True
    )


def test_every_module_and_shader_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "wggml").rglob("*.py")}
    shaders = {f"wggml/{path.relative_to(ROOT)}" for path in (ROOT / "shaders").rglob("*.wgsl")}
    assert shaders
    assert modules | shaders | {"wggml/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "examples/"))]


def test_it_runs_away_from_the_checkout(unpacked: Path) -> None:
    where = run_outside(unpacked, "-c", "import wggml; print(wggml.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(unpacked)
    done = run_outside(unpacked, "-m", "wggml", "devices", "--json")
    assert done.returncode == 0, done.stderr
    assert '"type": "cpu"' in done.stdout
