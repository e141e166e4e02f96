"""Progress on stderr: a bar where stderr is a terminal, a line now and then where it is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Advance = Callable[[int], None]
"""Called with the number of bytes done since the last call."""

LINE_SECONDS = 5.0
"""Least time between two plain progress lines."""


def _ignore(_: int) -> None:
    """Progress that nobody watches."""


def mib(nbytes: int) -> str:
    """`nbytes` as MiB with one decimal, e.g. "88.6 MiB"."""
    return f"{nbytes / 2**20:.1f} MiB"


def say(text: str, *, show: bool = True, stream: TextIO | None = None) -> None:
    """Writes one line to stderr (or `stream`), unless `show` is false."""
    if show:
        print(text, file=stream or sys.stderr, flush=True)


@contextmanager
def byte_progress(label: str, total: int, *, show: bool) -> Iterator[Advance]:
    """Shows how many of `total` bytes are done while the block runs; yields what to call."""
    if not show:
        yield _ignore
    elif sys.stderr.isatty():
        with _bar(label, total) as advance:
            yield advance
    else:
        with _lines(label, total) as advance:
            yield advance


@contextmanager
def _bar(label: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda nbytes: progress.advance(task, nbytes)


@contextmanager
def _lines(label: str, total: int) -> Iterator[Advance]:
    done = 0
    last = time.monotonic()
    say(f"{label}: {mib(total)}")

    def advance(nbytes: int) -> None:
        nonlocal done, last
        done += nbytes
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            share = f" ({100 * done // total} %)" if total else ""
            say(f"{label}: {mib(done)} of {mib(total)}{share}")

    yield advance
    say(f"{label}: done")
