"""Recorded planning data: every field of every scenario, from the committed selection and, where it
is at hand, the whole set."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from wggml.errors import UsageError
from wggml.testing.plan_graphs import Mismatch, compare_fields
from wggml.testing.plan_oracle import check_scenario, read_scenarios, scenario_files

FILES = ("galloc", "ctx", "order")


def assert_exact(path: Path) -> None:
    scenarios = read_scenarios(path)
    problems = [line for s in scenarios for line in check_scenario(s).problems()]
    assert scenarios and problems == []


@pytest.mark.parametrize("name", FILES)
def test_committed_selection(name: str, data_dir: Path) -> None:
    assert_exact(data_dir / "plan" / f"{name}.json.gz")


@pytest.mark.parametrize("name", FILES)
def test_whole_set(name: str, shared_dir: Path) -> None:
    assert_exact(shared_dir / "oracle" / "plan" / f"{name}.json.gz")


# ---- the comparison itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["ret", "chunks", "plan_chunks", "sizes", "node_alloc", "loc", "log"]
)
def test_a_changed_field_is_seen(field: str, data_dir: Path) -> None:
    scenario = next(
        s
        for s in read_scenarios(data_dir / "plan" / "galloc.json.gz")
        if s["steps"][-1]["do"] == "alloc"
    )
    scenario["steps"][-1]["expect"][field] = "something else"
    (problem,) = check_scenario(scenario).problems()
    assert f"{scenario['name']}, step 1 alloc: {field}: expected something else, got " in problem


def test_a_field_we_do_not_report_is_a_mismatch() -> None:
    assert compare_fields({"new": 1}, {}) == [Mismatch("new", 1, "<missing>")]


def test_an_expected_abort_must_happen_and_no_other_may() -> None:
    assert compare_fields({"abort": "why"}, {"abort": "our message"}) == []
    assert compare_fields({"abort": "why"}, {"ret": True})
    assert compare_fields({"ret": True}, {"abort": "our message"})


def test_a_graph_built_otherwise_is_seen(data_dir: Path) -> None:
    scenario = read_scenarios(data_dir / "plan" / "order.json.gz")[0]
    scenario["graphs"][0]["built"]["nodes"].reverse()
    (problem,) = check_scenario(scenario).problems()
    assert "graph 0: nodes[0]: expected 5, got 3" in problem


def test_a_replay_that_fails_is_reported(data_dir: Path) -> None:
    scenario = read_scenarios(data_dir / "plan" / "galloc.json.gz")[0]
    scenario["steps"][0]["do"] = "unheard_of"
    report = check_scenario(scenario)
    assert not report.ok and "unheard_of" in report.error
    assert "kind 'odd' is not known" in check_scenario({**scenario, "kind": "odd"}).error


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.json\.gz"):
        scenario_files(tmp_path)
    bad = tmp_path / "a.json.gz"
    bad.write_bytes(b"not gzip")
    with pytest.raises(UsageError, match="not a readable scenario file"):
        read_scenarios(bad)
    bad.write_bytes(gzip.compress(json.dumps({"a": 1}).encode()))
    with pytest.raises(UsageError, match="not a list of scenarios"):
        read_scenarios(bad)
