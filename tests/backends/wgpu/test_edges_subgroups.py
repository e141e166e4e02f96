"""The edge cases again with other real subgroup sizes, which lavapipe takes when it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO, find_adapter

HERE = Path(__file__).parent
CASES = "lavapipe and (awkward and GPU or huge or experts)"


@pytest.mark.parametrize("size", [4, 16])
def test_edges_with_subgroups_of(size: int) -> None:
    """lavapipe's own is 8, SwiftShader's 4: their tests run in this process."""
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    env = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": str(32 * size)}
    files = [str(HERE / "test_edges_values.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-k", CASES, "-p", "no:cacheprovider", *files],
        capture_output=True, text=True, timeout=300, env=env, cwd=REPO,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and probed(env) == size


def probed(env: dict[str, str]) -> int:
    """The subgroup size that a process with this environment finds."""
    script = (
        "from wggml.hal.registry import default_registry as r;"
        "print(r().find('lavapipe').profile.subgroup_size)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env,
        check=True,
    )  # fmt: skip
    return int(done.stdout.split()[-1])
