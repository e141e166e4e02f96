"""`--mode grad`: gradients against finite differences, for each op that has a gradient."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from wggml.errors import UsageError
from wggml.hal.interface import Device
from wggml.testing.gradient_cases import CASES
from wggml.testing.report import case_progress, device_line
from wggml.testing.slopes import Slope, build, check_slope

if TYPE_CHECKING:
    from wggml.cli.test_ops import Options


def run(options: Options) -> int:
    """1 when a gradient is not the slope, 130 when Ctrl-C stopped the run, else 0."""
    selection = options.selection
    if selection.directory is not None:
        raise UsageError("--mode grad has cases of its own; leave --cases out")
    names = [
        name
        for name, case in CASES.items()
        if (not selection.ops or not set(selection.ops).isdisjoint(build(case).ops()))
        and re.search(selection.pattern or "", name)
    ]
    if not names:
        raise UsageError(
            "no gradient case is chosen: -o takes ops that have a gradient, and -p is searched in "
            f"{', '.join(CASES)}"
        )
    rows = options.report.setdefault("devices", [])
    code = 0
    for device in options.devices:
        results, finished = _run_device(options, device, names)
        rows.append({"name": device.name, "description": device.description,
                     "cases": [asdict(r) for r in results]})  # fmt: skip
        code = max(code, int(any(r.status == "fail" for r in results)))
        if not finished:
            return 130
    return code


def _run_device(options: Options, device: Device, names: list[str]) -> tuple[list[Slope], bool]:
    console = options.console
    console.print(f"[bold]{escape(device_line(device))}[/]")
    backend = device.init_backend()
    results: list[Slope] = []
    finished = True
    try:
        with case_progress(console, device.name, len(names)) as advance:
            for name in names:
                results.append(check_slope(name, backend))
                advance(name)
    except KeyboardInterrupt:
        console.print("stopped; the results so far:")
        finished = False
    finally:
        backend.close()
    console.print(_table(results))
    n = {s: sum(r.status == s for r in results) for s in ("pass", "fail", "unsupported")}
    console.print(
        f"{len(results)} gradients: {n['pass']} passed, {n['fail']} failed, "
        f"{n['unsupported']} unsupported", style="bold red" if n["fail"] else "bold",
    )  # fmt: skip
    return results, finished


def _table(results: list[Slope]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("gradient", overflow="fold")
    table.add_column("verdict")
    table.add_column("error", justify="right")
    table.add_column("allowed", justify="right")
    table.add_column("reason", overflow="fold", ratio=1)
    for r in results:
        shown = f"{r.error:.1e}" if r.status != "unsupported" else ""
        style = {"fail": "red", "unsupported": "yellow"}.get(r.status, "")
        table.add_row(
            escape(r.name), r.status, shown, f"{r.tolerance:.0e}", escape(r.reason), style=style
        )
    return table
