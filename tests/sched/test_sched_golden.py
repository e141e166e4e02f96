"""Every recorded field of ggml's own scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from wggml.testing.plan_oracle import check_scenario, read_scenarios

FILES = ("sched.json.gz", "real.json.gz")


def check_file(path: Path) -> None:
    problems = [
        line
        for s in read_scenarios(path)
        if s["kind"] == "sched"
        for line in check_scenario(s).problems()
    ]
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize("name", ["sched.json.gz", "sched_more.json.gz"])
def test_committed_selection(data_dir: Path, name: str) -> None:
    check_file(data_dir / "plan" / name)


@pytest.mark.parametrize("name", FILES)
def test_all_recorded(shared_dir: Path, name: str) -> None:
    check_file(shared_dir / "oracle" / "plan" / name)


def test_a_wrong_field_is_noticed(data_dir: Path) -> None:
    scenario = read_scenarios(data_dir / "plan" / "sched_more.json.gz")[0]
    scenario["steps"][0]["expect"]["splits"][0][0] += 1
    assert any("splits" in line for line in check_scenario(scenario).problems())
