"""The strict WebGPU implementation: golden cases on Dawn, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

OPS = (
    "MUL|SWIGLU|RMS_NORM_MUL_ADD|SOFT_MAX|GET_ROWS|SET_ROWS|CONT|CONCAT|ROPE_SET_ROWS|ARGMAX"
    "|MUL_MAT|FLASH_ATTN_EXT"
)


def test_golden_cases_on_dawn(data_dir: Path) -> None:
    if importlib.util.find_spec("wgpudawn") is None:
        pytest.skip("no Dawn here (pip install wgpudawn)")
    folder = data_dir / "ops"
    command = [sys.executable, "-m", "wggml.testing", str(folder), "--device", "WGPU0", "--op", OPS]
    env = {**os.environ, "WGGML_WGPU_MODULE": "wgpudawn"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "no device 'WGPU0'" in done.stderr:
        pytest.skip("Dawn finds no adapter here")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " 0 failed" in done.stdout.splitlines()[-1]
