"""Progress of loading a model: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Report = Callable[[float, str], None]
"""Called with the share done (0 to 1) and what is being done."""

LINE_SECONDS = 5.0
"""Least time between two plain lines; a load shorter than this prints none."""


@contextmanager
def loading_progress(*, show: bool) -> Iterator[Report | None]:
    """Yields the function to report to, or None where nothing is to be shown."""
    if not show:
        yield None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _line_report()


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("loading", total=1.0)
        yield lambda share, label: progress.update(task, completed=share, description=label)


def _line_report() -> Report:
    last = time.monotonic()

    def report(share: float, label: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            click.echo(f"{label}: {share:.0%}", err=True)

    return report
