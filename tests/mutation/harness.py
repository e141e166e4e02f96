"""Run the operator cases against one planted fault, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from tests.conftest import REPO, find_adapter
from tests.mutation.faults import Fault, all_faults

Verdict = Literal["caught", "survived", "invalid", "skipped"]
# The slowest take seconds, and no fault in the list makes a loop endless: running out of time says
# something about this machine.
LIMIT_SECONDS = 240
DATA = REPO / "tests" / "data" / "ops"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`invalid`: the shader did not compile, was not used, or its cases fail without the fault."""

    fault: Fault
    verdict: Verdict
    why: str


def try_fault(fault: Fault) -> Outcome:
    """Plant, run, judge. An adapter that is not here skips the fault."""
    if find_adapter(fault.on.split()[0]) is None:
        return Outcome(fault, "skipped", f"no {fault.on} adapter here")
    try:
        text = fault.applied((REPO / "shaders" / fault.file).read_text())
    except ValueError as e:
        return Outcome(fault, "invalid", str(e))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / fault.file
        target.parent.mkdir(parents=True)
        target.write_text(text)
        env = {**os.environ, "WGGML_SELFTEST": "off", "PYTHONPATH": str(REPO)}
        command = [sys.executable, "-m", "tests.mutation.harness", fault.name, folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=env, cwd=REPO
            )
        except subprocess.TimeoutExpired:
            return Outcome(fault, "invalid", f"not done after {LIMIT_SECONDS} s")
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        if done.returncode < 0:
            return Outcome(fault, "caught", f"the driver crashed (signal {-done.returncode})")
        return Outcome(fault, "invalid", done.stderr[-500:])
    return Outcome(fault, *json.loads(lines[-1]))


def judge(fault: Fault, folder: str) -> tuple[Verdict, str]:
    """In the child: the first case that fails, and whether it passes without the fault."""
    from wggml.backends.wgpu.templates import ENV_SHADERS
    from wggml.testing.runner import run_cases

    os.environ[ENV_SHADERS] = folder
    backend = _backend(fault)
    n = 0
    for case in _cases(fault):
        [result] = run_cases([case], backend)
        n += 1
        if result.status != "fail":
            continue
        if result.reason.startswith("ShaderError"):
            return "invalid", result.reason
        os.environ[ENV_SHADERS] = ""
        [without] = run_cases([case], _backend(fault))
        if without.status != "pass":
            return "invalid", f"{case.id} fails without the fault too: {without.reason}"
        return "caught", f"{case.id}: {result.reason}"
    used = {name for names in backend.device.pipelines.templates.values() for name in names}
    if fault.file not in used:
        return "invalid", f"none of {n} cases uses the template"
    return "survived", f"{n} cases passed"


def _backend(fault: Fault) -> Any:
    name, *mask = fault.on.split()
    device = find_adapter(name)
    assert device is not None
    return device.with_mask(",".join(mask)).init_backend()  # type: ignore[attr-defined]


def _cases(fault: Fault) -> Iterator[Any]:
    from wggml.testing.builtin import iter_builtin
    from wggml.testing.opcases import iter_cases

    own = iter_builtin(fault.ops, fault.cases)
    for pair in zip_longest(own, iter_cases(DATA, fault.ops, fault.cases)):
        yield from (case for case in pair if case is not None)


if __name__ == "__main__":
    [chosen] = [f for f in all_faults() if f.name == sys.argv[1]]
    print(json.dumps(judge(chosen, sys.argv[2])))
