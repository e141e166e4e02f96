"""Reads recorded planning data and compares every recorded field with what we do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from wggml.errors import UsageError
from wggml.testing.plan_graphs import (
    GraphBuilder,
    Mismatch,
    Spec,
    StepResult,
    build_graphs,
    built_fields,
    compare_fields,
)

Runner = Callable[[Spec, GraphBuilder], list[StepResult]]

# kind -> module:function
RUNNERS: dict[str, str] = {
    "galloc": "wggml.testing.plan_galloc:run_galloc_scenario",
    "ctx": "wggml.testing.plan_galloc:run_ctx_scenario",
    "order": "wggml.testing.plan_galloc:run_order_scenario",
    "sched": "wggml.testing.plan_sched:run_sched_scenario",
}


@dataclass(slots=True)
class StepReport:
    """How one step, or the building of one graph (`step` is then `graph k`), compares.

    `fields` counts the recorded fields, `mismatches` those that differ.
    """

    step: str
    fields: int
    mismatches: list[Mismatch]


@dataclass(slots=True)
class ScenarioReport:
    """How one scenario compares. `error` is set when replaying it failed unexpectedly."""

    name: str
    kind: str
    steps: list[StepReport] = field(default_factory=list)
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error and not any(s.mismatches for s in self.steps)

    def problems(self) -> Iterator[str]:
        """One line for each difference: scenario, step, field, expected and got."""
        if self.error:
            yield f"{self.name}: {self.error}"
        for s in self.steps:
            for m in s.mismatches:
                yield f"{self.name}, {s.step}: {m}"


def read_scenarios(path: Path) -> list[Spec]:
    """The scenarios of one `.json.gz` or `.json` file; `UsageError` when it holds none."""
    raw = path.read_bytes()
    try:
        data = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, ValueError) as e:
        raise UsageError(f"{path} is not a readable scenario file: {e}") from e
    if not isinstance(data, list) or not all(isinstance(s, dict) and "kind" in s for s in data):
        raise UsageError(f"{path} is not a list of scenarios that each name their kind")
    return data


def scenario_files(directory: Path) -> list[Path]:
    """Scenario files of a directory in order of name; `UsageError` when there are none."""
    files = sorted(
        p
        for p in directory.glob("*.json*")
        if p.suffixes[-2:] == [".json", ".gz"] or p.suffix == ".json"
        if p.name != "MANIFEST.json"
    )
    if not files:
        raise UsageError(f"{directory} holds no .json.gz scenario files")
    return files


def check_scenario(scenario: Spec) -> ScenarioReport:
    """Build the graphs, replay the steps, compare everything that was recorded."""
    report = ScenarioReport(scenario["name"], scenario["kind"])
    try:
        for i, built in enumerate(build_graphs(scenario)):
            expect = {**built.spec["built"], "nbytes": [t["nbytes"] for t in built.spec["tensors"]]}
            got = {**built_fields(built), "nbytes": [t.nbytes for t in built.tensors]}
            report.steps.append(_compare(f"graph {i}", expect, got))
        results = runner(scenario["kind"])(scenario, GraphBuilder(scenario))
    except Exception as e:  # a replay must never end the check of the others
        report.error = f"replaying failed: {type(e).__name__}: {e}"
        return report
    for i, step in enumerate(scenario["steps"]):
        expect = step.get("expect") or {}
        got = results[i] if i < len(results) else {}
        report.steps.append(_compare(f"step {i} {step['do']}", expect, got))
        if "abort" in expect:
            break  # the recorded program ended here
    return report


def runner(kind: str) -> Runner:
    """The function that replays scenarios of a kind; `UsageError` for an unknown kind."""
    if kind not in RUNNERS:
        raise UsageError(f"scenario kind {kind!r} is not known; known: {', '.join(RUNNERS)}")
    module, function = RUNNERS[kind].split(":")
    run: Runner = getattr(import_module(module), function)
    return run


def _compare(label: str, expect: dict[str, Any], got: StepResult) -> StepReport:
    return StepReport(label, len(expect), compare_fields(expect, got))
