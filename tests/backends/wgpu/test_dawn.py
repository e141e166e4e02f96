"""The same kernels on Dawn (PyPI `wgpudawn`, test-only), whose rules are stricter: Tint compiles,
writable aliasing is refused, nothing beyond the WebGPU standard exists.

Dawn takes SwiftShader here. It runs in a child process, since the package is chosen when wgpu is
first needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import find_adapter

SHARE = 3  # one case of so many, chosen by hash

CHILD = """
import json, sys, zlib
from wggml.hal.registry import default_registry
from wggml.testing.opcases import iter_cases
from wggml.testing.runner import run_cases
device = default_registry().find("WGPU0")
cases = (c for c in iter_cases(sys.argv[1]) if zlib.crc32(c.id.encode()) % int(sys.argv[2]) == 0)
results = run_cases(cases, device.init_backend())
print(json.dumps({
    "implementation": device.profile.implementation, "device": device.description,
    "results": [(r.case.id, r.status, r.reason) for r in results],
}))
"""


@pytest.fixture(scope="module")
def sample(data_dir: Path) -> dict[str, Any]:
    """What Dawn made of the sample."""
    if find_spec("wgpudawn") is None:
        pytest.skip("the package wgpudawn is not installed")
    if find_adapter("swiftshader") is None:
        pytest.skip("no swiftshader adapter here, which Dawn needs")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(data_dir / "ops"), str(SHARE)],
        env={**os.environ, "WGGML_WGPU_MODULE": "wgpudawn"},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_dawn_is_what_runs(sample: dict[str, Any]) -> None:
    assert sample["implementation"] == "dawn" and "SwiftShader" in sample["device"]


def test_no_op_is_wrong(sample: dict[str, Any]) -> None:
    wrong = [f"{id}: {reason}" for id, status, reason in sample["results"] if status == "fail"]
    assert not wrong, "\n".join(wrong)


def test_nearly_all_run(sample: dict[str, Any]) -> None:
    rest = [f"{id}: {reason}" for id, status, reason in sample["results"] if status != "pass"]
    assert len(sample["results"]) > 150
    assert len(rest) <= 0.02 * len(sample["results"]), "\n".join(rest)
