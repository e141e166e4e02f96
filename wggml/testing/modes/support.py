"""`--mode support`: the table of ops, types and devices as Markdown, on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.errors import UsageError
from wggml.hal.registry import default_registry
from wggml.testing.support import Line, lines, markdown, titles

if TYPE_CHECKING:
    from wggml.cli.test_ops import Options


def run(options: Options) -> int:
    """0; the first column is NumPy's, whatever devices were named."""
    if options.selection.directory is not None:
        raise UsageError("--mode support asks about the built-in cases; leave --cases out")
    cpu = default_registry().cpu()
    devices = [cpu, *(d for d in options.devices if d is not cpu)]
    table = lines(options.selection, devices)
    options.report |= {"devices": titles(devices), "ops": [_row(line) for line in table]}
    options.console.file.write(markdown(table, devices))  # as it is: no wrapping
    return 0


def _row(line: Line) -> dict[str, object]:
    answers = [{"cases": a.cases, "runs": a.runs, "why_not": dict(a.refused)} for a in line.answers]
    return {"op": line.op, "types": line.types, "answers": answers}
