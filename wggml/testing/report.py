"""Verdicts on operator cases for people (tables) and for programs (plain data)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wggml.hal.interface import Device
from wggml.testing.opcases import CaseResult

SHOWN_REASONS = 2
"""Different reasons of an op that its line of the table has room for."""


@contextmanager
def case_progress(console: Console, label: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar while the block runs, on terminals only; yields what to call with the op of each case
    that is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[op]:24.24}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(escape(label), total=total, op="")
        yield lambda op: bar.update(task, advance=1, op=op)


def show_failure(console: Console, result: CaseResult) -> None:
    """One line for a case that failed, as it happens."""
    name = escape(f"{result.case}")
    console.print(f"[red]FAIL[/] {name}: {escape(result.reason)}", highlight=False)


def show_results(console: Console, results: Sequence[CaseResult], total: int) -> None:
    """The ops that did not pass all their cases with the reasons, the others by name, the sum."""
    by_op: dict[str, list[CaseResult]] = {}
    for r in results:
        by_op.setdefault(r.case.op, []).append(r)
    bad = {op: rs for op, rs in by_op.items() if any(r.status != "pass" for r in rs)}
    if bad:
        console.print(_table(bad))
    good = [f"{op} {len(rs)}" for op, rs in sorted(by_op.items()) if op not in bad]
    if good:
        console.print("[green]all cases passed:[/]")
        console.print(Columns(good, padding=(0, 2), column_first=True, expand=False))
    n = Counter(r.status for r in results)
    done = f"{len(results)} cases" if len(results) == total else f"{len(results)} of {total} cases"
    console.print(
        f"{done}: {n['pass']} passed, {n['fail']} failed, {n['unsupported']} unsupported",
        highlight=False, style="bold red" if n["fail"] else "bold",
    )  # fmt: skip


def _table(by_op: dict[str, list[CaseResult]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("op", overflow="fold")
    for name in ("passed", "failed", "unsup."):
        table.add_column(name, justify="right")
    table.add_column("reasons", overflow="fold", ratio=1)
    for op, results in sorted(by_op.items()):
        n = Counter(r.status for r in results)
        counts = [str(n[s]) if n[s] else "" for s in ("pass", "fail", "unsupported")]
        table.add_row(op, *counts, escape(_reasons(results)), style="red" if n["fail"] else "")
    return table


def _reasons(results: Sequence[CaseResult]) -> str:
    """The most frequent reasons; those of failures first, cut to their first line."""
    found: list[str] = []
    for status in ("fail", "unsupported"):
        counts = Counter(r.reason.split("\n")[0] for r in results if r.status == status)
        found += [f"{text} ({k} times)" if k > 1 else text for text, k in counts.most_common()]
    rest = len(found) - SHOWN_REASONS
    return "; ".join(found[:SHOWN_REASONS]) + (f"; {rest} more reasons" if rest > 0 else "")


def device_line(device: Device) -> str:
    """A device as a headline: its name, what it is, its driver."""
    props = device.props()
    what = ", ".join(str(props[k]) for k in ("api", "driver") if props.get(k))
    return f"{device.name}: {device.description}" + (f" ({what})" if what else "")


def result_row(r: CaseResult) -> dict[str, Any]:
    """A verdict as plain data; an infinite error is null."""
    return {
        "id": r.case.id,
        "op": r.case.op,
        "vars": r.case.vars,
        "status": r.status,
        "metric": r.case.metric,
        "error": r.error if r.error != float("inf") else None,
        "max_err": r.case.max_err,
        "reason": r.reason,
        "seconds": round(r.seconds, 6),
    }
