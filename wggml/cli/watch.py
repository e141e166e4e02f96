"""`wggml test-ops --watch`: run the cases again that an edited template concerns."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.markup import escape

from wggml.backends.wgpu import templates
from wggml.errors import UsageError
from wggml.hal.interface import DeviceType

if TYPE_CHECKING:
    from rich.console import Console

    from wggml.cli.test_ops import Options
    from wggml.hal.interface import Device
    from wggml.testing.watch import Outcome, Round, Watcher

INTERIM_SECONDS = 1.5
"""After so long a round says how it stands."""

SHOWN_FAILURES = 5
"""Different failures of a round that are written out."""


def watch(options: Options) -> int:
    """Run all chosen cases once, then wait for edits until Ctrl-C."""
    from wggml.testing.report import case_progress, device_line
    from wggml.testing.watch import Watcher

    console, device = options.console, pick(options)
    if options.selection.count == 0:
        raise UsageError("no case is chosen: -o and -p together match none; leave one out")
    console.print(f"[bold]{escape(device_line(device))}[/]")
    watcher = Watcher(options.selection, device.name)
    try:
        with case_progress(console, device.name, len(watcher.titles)) as advance:
            first = watcher.first(lambda o: advance(o.id.split("/")[0]))
        show(console, watcher, first)
        folders = ", ".join(map(str, templates.shader_dirs()))
        console.print(f"watching the .wgsl files in {escape(folders)}; Ctrl-C ends")
        while True:
            done = watcher.wait(3600.0, Interim(console))
            if done is not None:
                show(console, watcher, done)
    finally:
        watcher.close()


class Interim:
    """Says once how a round stands that takes longer than a person likes to wait."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = time.perf_counter()
        self.counts: Counter[str] = Counter()
        self.told = False

    def __call__(self, outcome: Outcome) -> None:
        if not self.counts:
            self.began = time.perf_counter()
        self.counts[outcome.status] += 1
        if not self.told and time.perf_counter() - self.began > INTERIM_SECONDS:
            self.told = True
            n = self.counts
            self.console.print(f"so far {n['pass']} passed, {n['fail']} failed; going on")


def pick(options: Options) -> Device:
    """The device to watch on: the first with shaders among those of `-b`, or at all without `-b`.
    Raises `UsageError` when there is none."""
    from wggml.hal.registry import default_registry

    for device in (*options.devices, *default_registry().devices()):
        if device.type is not DeviceType.CPU:
            return device
    raise UsageError("--watch needs a GPU adapter, and there is none; see `wggml devices`")


def show(console: Console, watcher: Watcher, done: Round) -> None:
    """What a round brought: different failures in full, then one line."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in done.outcomes:
        if outcome.status == "fail":
            groups.setdefault(kind_of(outcome), []).append(outcome)
    for group in list(groups.values())[:SHOWN_FAILURES]:
        head = f"[red]FAIL[/] {escape(watcher.titles[group[0].id])}"
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        console.print(f"{head}{more}\n  {escape(group[0].reason)}", highlight=False)
    if len(groups) > SHOWN_FAILURES:
        console.print(f"... and {len(groups) - SHOWN_FAILURES} other failures")
    console.print(escape(summary(done)), style="bold red" if groups else "bold green")


def kind_of(outcome: Outcome) -> str:
    """Equal for failures that one line of a template, or one op, has in common."""
    found = re.search(r"shader \S+:\d+", outcome.reason)
    return found[0] if found else outcome.id.split("/")[0]


def summary(done: Round) -> str:
    """`14:03:59 softmax/softmax.wgsl: 34 cases: 33 passed, 1 failed, 0 unsupported in 0.4 s`."""
    names = ", ".join(sorted(done.edited))
    what = f"{names}: " if names else ""
    if done.edited and not done.outcomes and not done.left_out:
        return f"{time.strftime('%H:%M:%S')} {what}no chosen case uses it"
    counts = ", ".join(
        f"{done.count(status)} {word}"
        for status, word in (("pass", "passed"), ("fail", "failed"), ("unsupported", "unsupported"))
    )
    left = f", {done.left_out} left out" if done.left_out else ""
    n = len(done.outcomes) + done.left_out
    return f"{time.strftime('%H:%M:%S')} {what}{n} cases: {counts}{left} in {done.seconds:.1f} s"
