"""`--mode perf`: bytes and operations a second of each case, as shares of the device's peaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wggml.errors import UsageError
from wggml.hal.interface import Device
from wggml.testing.opdata import OpCase
from wggml.testing.peaks import Peaks, measure_peaks
from wggml.testing.report import case_progress, device_line
from wggml.testing.selection import Selection
from wggml.testing.speed import Speed, measure

if TYPE_CHECKING:
    from wggml.cli.test_ops import Options


def run(options: Options) -> int:
    """0, or 130 when Ctrl-C stopped the run."""
    selection = options.selection
    if selection.directory is None:
        selection = Selection(selection.ops, selection.pattern, perf=True)
    if selection.count == 0:
        raise UsageError("no case is chosen: -o and -p together match none; leave one out")
    rows = options.report.setdefault("devices", [])
    for device in options.devices:
        peaks = measure_peaks(device)
        results, finished = _run_device(options.console, device, selection, peaks)
        rows.append({"name": device.name, "description": device.description,
                     "peaks": asdict(peaks), "cases": [_row(r) for r in results]})  # fmt: skip
        if not finished:
            return 130
    return 0


def _run_device(
    console: Console, device: Device, selection: Selection, peaks: Peaks
) -> tuple[list[Speed], bool]:
    console.print(f"[bold]{escape(device_line(device))}[/]")
    console.print(
        f"peaks by {peaks.clock}: copy {peaks.copy_bytes_per_s / 1e9:.1f} GB/s (read and written), "
        f"multiply-adds {peaks.fma_flops / 1e9:.1f} GFLOP/s"
    )
    backend = device.init_backend()
    results: list[Speed] = []
    finished = True
    try:
        with case_progress(console, device.name, selection.count) as advance:
            for case in _cases(selection):
                results.append(measure(case, backend))
                advance(case.op)
    except KeyboardInterrupt:
        console.print("stopped; the results so far:")
        finished = False
    finally:
        backend.close()
    console.print(_table(results, peaks))
    return results, finished


def _cases(selection: Selection) -> Iterator[OpCase]:
    if not selection.perf:
        yield from selection.cases()
        return
    for id, recipe in selection.recipes():
        yield recipe.make(id)


def _table(results: list[Speed], peaks: Peaks) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold", ratio=1)
    for name in ("time", "GB/s", "of copy", "GFLOP/s", "of FMA"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in results:
        name = escape(f"{r.case.op} {r.case.vars}")
        if r.reason:
            table.add_row(f"{name}: {escape(r.reason)}", style="yellow")
            continue
        flops = (f"{r.flops_per_s / 1e9:.1f}", f"{r.flops_per_s / peaks.fma_flops:.0%}")
        table.add_row(
            name, time_text(r.seconds), f"{r.bytes_per_s / 1e9:.1f}",
            f"{r.bytes_per_s / peaks.copy_bytes_per_s:.0%}", *(flops if r.flops else ()),
        )  # fmt: skip
    return table


def time_text(seconds: float) -> str:
    """A duration with three digits, e.g. "12.3 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _row(r: Speed) -> dict[str, object]:
    return {"id": r.case.id, "op": r.case.op, "vars": r.case.vars, "seconds": r.seconds,
            "clock": r.clock, "bytes": r.bytes, "flops": r.flops, "reason": r.reason}  # fmt: skip
