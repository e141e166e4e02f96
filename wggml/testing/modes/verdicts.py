"""`--mode test`: every chosen case on every chosen device, compared with its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from wggml.errors import UsageError
from wggml.hal.interface import Device, DeviceType
from wggml.testing.opcases import CaseResult
from wggml.testing.report import (
    case_progress,
    device_line,
    result_row,
    show_failure,
    show_results,
)
from wggml.testing.runner import run_cases

if TYPE_CHECKING:
    from wggml.cli.test_ops import Options

RUNS = 2
"""A case runs on blank inputs first, so that a plan which kept a value shows when replayed."""


def run(options: Options) -> int:
    """1 when a case failed, 130 when Ctrl-C stopped the run, else 0."""
    if options.selection.count == 0:
        raise UsageError("no case is chosen: -o and -p together match none; leave one out")
    rows = options.report.setdefault("devices", [])
    failed = False
    for device in options.devices:
        results, finished = run_device(options, device)
        failed |= any(r.status == "fail" for r in results)
        cases = [result_row(r) for r in results]
        rows.append({"name": device.name, "description": device.description, "cases": cases})
        if not finished:
            return 130
    return int(failed)


def run_device(options: Options, device: Device) -> tuple[list[CaseResult], bool]:
    """The verdicts, shown as they come, and whether all cases ran."""
    console, selection = options.console, options.selection
    console.print(f"[bold]{escape(device_line(device))}[/]")
    if device.type is DeviceType.CPU and selection.directory is None:
        console.print("The reference of built-in cases is this same backend: memory and replays "
                      "are tested here, values by --cases.")  # fmt: skip
    backend = device.init_backend()
    results: list[CaseResult] = []
    finished = True
    try:
        with case_progress(console, device.name, selection.count) as advance:

            def on_result(r: CaseResult) -> None:
                results.append(r)
                if r.status == "fail":
                    show_failure(console, r)
                advance(r.case.op)

            run_cases(selection.cases(), backend, on_result=on_result, runs=RUNS)
    except KeyboardInterrupt:
        console.print("stopped; the results so far:")
        finished = False
    finally:
        backend.close()
    show_results(console, results, selection.count)
    return results, finished
