"""`check plan DIR`: compare recorded planning data with ours, file by file."""

from __future__ import annotations

import argparse
from pathlib import Path

from wggml.testing.plan_oracle import ScenarioReport, check_scenario, read_scenarios, scenario_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.add_argument("directory", type=Path, help="directory with .json.gz scenario files")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only scenarios whose name contains TEXT"
    )
    parser.add_argument("--all", action="store_true", help="print every difference, not the first")


def main(args: argparse.Namespace) -> int:
    """Print the result of each file; 0 only when every recorded field of all is matched."""
    ok = True
    for path in scenario_files(args.directory):
        scenarios = [s for s in read_scenarios(path) if args.only in s["name"]]
        reports = [check_scenario(s) for s in scenarios]
        ok &= all(r.ok for r in reports)
        _print_file(path, reports, show_all=args.all)
    return 0 if ok else 1


def _print_file(path: Path, reports: list[ScenarioReport], *, show_all: bool) -> None:
    # `graph k` entries compare the building of a graph, `step k` ones what was done with it.
    parts = [s for r in reports for s in r.steps]
    steps = [s for s in parts if s.step.startswith("step ")]
    graphs = [s for s in parts if s.step.startswith("graph ")]
    good = sum(r.ok for r in reports)
    print(
        f"{path.name}: {good} of {len(reports)} scenarios exact; "
        f"{sum(not s.mismatches for s in steps)} of {len(steps)} steps and "
        f"{sum(not s.mismatches for s in graphs)} of {len(graphs)} graphs exact; "
        f"{sum(s.fields for s in parts)} fields compared"
    )
    problems = [line for r in reports for line in r.problems()]
    for line in problems if show_all else problems[:1]:
        print(f"  {line}")
