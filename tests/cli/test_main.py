"""The command group itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result

from wggml.cli.main import COMMANDS

Wggml = Callable[..., Result]

HEAVY = ("numpy", "wgpu", "rich", "gguf", "jinja2", "regex", "cffi", "urllib.request")


def test_help_names_every_command(wggml: Wggml) -> None:
    done = wggml("--help")
    assert done.exit_code == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert wggml("-h").stdout == done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(wggml: Wggml, name: str) -> None:
    assert wggml(name, "--help").exit_code == 0


def test_the_version_is_the_packages(wggml: Wggml) -> None:
    assert wggml("--version").stdout == f"wggml {version('wggml')}\n"


@pytest.mark.parametrize("args", [["fly"], ["--fly"], ["run"], ["info"]])
def test_wrong_usage_is_2(wggml: Wggml, args: list[str]) -> None:
    done = wggml(*args)
    assert done.exit_code == 2
    assert "Error: " in done.stderr


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["devices", "--help"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from wggml.cli.main import cli\n"
        f"cli({args!r}, standalone_mode=False)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "wggml", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("wggml ")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<!DOCTYPE html><html>not found</html>", "HTML"),
        (b"", "empty"),
        (b"PK\x03\x04" + b"\0" * 100, "not a GGUF"),
    ],
)
def test_info_refuses_what_is_no_gguf(
    wggml: Wggml, tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    done = wggml("info", str(path))
    assert done.exit_code == 2
    assert expected.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def small_gguf(folder: Path) -> Path:
    """A file with one key of each troublesome kind and two tensors."""
    import numpy as np

    gguf = pytest.importorskip("gguf")
    path = folder / "small.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_string("general.name", "evil \x1b[31m name")
    writer.add_array("test.numbers", list(range(20)))
    writer.add_float32("test.rate", 0.5)
    writer.add_string("test.long", "a" * 500)
    writer.add_tensor("blk.0.weight", np.zeros((3, 32), np.float32))
    writer.add_tensor("half", np.zeros((2, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wggml", "info", str(small_gguf(tmp_path))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(timeout=60) == 1


def test_info_shows_keys_tensors_types_and_sizes(wggml: Wggml, tmp_path: Path) -> None:
    path = small_gguf(tmp_path)
    done = wggml("info", str(path))
    assert done.exit_code == 0, done.stderr
    assert "architecture llama, 224 parameters in 2 tensors of 640 bytes" in done.stdout
    assert "\x1b" not in done.stdout
    assert "evil" in done.stdout
    assert "ARRAY of INT32 [20]" in done.stdout
    assert "(500 characters)" in done.stdout
    assert "blk.0.weight" in done.stdout
    assert "32 x 3" in done.stdout
    short = wggml("info", str(path), "--no-tensors").stdout
    assert "blk.0.weight" not in short
    assert "general.name" in short
