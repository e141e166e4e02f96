"""Every example runs, in a process of its own, on what this machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import find_adapter

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        capture_output=True, text=True, timeout=300, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_hello_graph():
    out = run("hello_graph.py")
    assert "CPU" in out
    assert "compute buffer" in out


def test_generate(tiny_model: Callable[[str], Path]):
    assert run("generate.py", str(tiny_model("llama")), "a").startswith("a")


def test_two_devices():
    if find_adapter("swiftshader") is None or find_adapter("lavapipe") is None:
        pytest.skip("needs the lavapipe and swiftshader adapters")
    out = run("two_devices.py")
    assert "largest difference" in out


def test_train_digits(tmp_path: Path):
    """Learns to 96 % on the GPU; the saved weights, read back, are as good."""
    pytest.importorskip("sklearn")
    if find_adapter("lavapipe") is None:
        pytest.skip("needs the lavapipe adapter")
    saved = str(tmp_path / "digits.gguf")
    out = run("train_digits.py", "--device", "lavapipe", "--epochs", "8", "--save", saved)
    accuracy = out[out.rindex("test accuracy") :].splitlines()[0]
    assert float(accuracy.split()[-1].rstrip("%")) >= 96, out
    assert accuracy in run("train_digits.py", "--device", "cpu", "--epochs", "0", "--load", saved)


def test_custom_op():
    lines = run("custom_op.py").splitlines()
    errors = {line.split()[0]: float(line.split()[-1]) for line in lines}
    assert errors.pop("CPU") == 0 and all(e < 1e-4 for e in errors.values()), lines


def test_upscale(tmp_path: Path):
    pytest.importorskip("PIL")
    from tests.test_upscale import write_ncnn
    from wggml.gguf_io.ncnn import convert_realesr
    from wggml.upscale import read_picture, write_picture

    convert_realesr(*write_ncnn(tmp_path), tmp_path / "net.gguf")
    write_picture(tmp_path / "in.png", np.zeros((6, 9, 3), np.uint8))
    out = tmp_path / "out.png"
    run("upscale.py", str(tmp_path / "in.png"), str(out), "--model", str(tmp_path / "net.gguf"))
    assert read_picture(out).shape == (24, 36, 3)


def test_window_automaton(tmp_path: Path):
    from tests.demo.session import Session, missing

    if missing() or find_adapter("lavapipe") is None:
        pytest.skip(missing() or "needs the lavapipe adapter")
    command = [sys.executable, str(EXAMPLES / "window_automaton.py"), "lavapipe", "3"]
    with Session(tmp_path, size=(768, 768), command=command) as s:
        assert s.window.wait(120) == 0, s.stderr()
        assert "Traceback" not in s.stderr()


def test_no_example_is_left_out():
    tested = {
        "hello_graph.py", "generate.py", "two_devices.py", "train_digits.py", "custom_op.py",
        "upscale.py", "window_automaton.py",
    }  # fmt: skip
    assert {p.name for p in EXAMPLES.glob("*.py")} == tested
