"""The frame of all benchmarks: figures with medians, spreads and floors; tables, JSON, peers.

A benchmark is a module with `DESCRIPTION`, `add_arguments(parser)`, `run(args) -> Report` and
perhaps `headline(report) -> Figure`, the figure a peer is compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

DEFAULT_MODEL = "smollm2"
PEER_ROUNDS = 3
# A rate in what llama-bench (`| 2.50 ± 0.01 |`) and most other tools print.
RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:±\s*[\d.]+\s*\|?|tokens/s|tok/s|t/s|tokens per second)")


@dataclass(slots=True)
class Figure:
    """One measured thing: `samples` in `unit`.

    `floor` is the best that the machine could do, in the same unit and measured in the same run
    (`floor_name` says what it is); None where there is none. `x` is the place on a plot's axis.
    """

    name: str
    unit: str
    samples: list[float]
    floor: float | None = None
    floor_name: str = ""
    x: float | None = None
    higher_is_better: bool = False
    median: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        """Median and quartiles."""
        ordered = sorted(self.samples)
        self.median = statistics.median(ordered)
        n = len(ordered)
        self.low, self.high = ordered[n // 4], ordered[-1 - n // 4]

    @property
    def label(self) -> str:
        """The name, with the place on the axis where there is one."""
        return self.name if self.x is None else f"{self.name} at {self.x:g}"

    @property
    def share(self) -> float | None:
        """How much of the floor's speed is reached (1 = at the floor)."""
        if not self.floor or not self.median:
            return None
        return self.median / self.floor if self.higher_is_better else self.floor / self.median


@dataclass(slots=True)
class Report:
    """All figures of one benchmark; `x_label` set means that they make lines over `x`."""

    bench: str
    title: str
    settings: dict[str, Any]
    figures: list[Figure] = field(default_factory=list)
    x_label: str = ""
    notes: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, unit: str, samples: list[float], **more: Any) -> Figure:
        """Append a figure and return it."""
        figure = Figure(name, unit, samples, **more)
        self.figures.append(figure)
        return figure

    def table(self) -> str:
        """The figures as text."""
        width = max([6, *(len(f.label) for f in self.figures)])
        lines = [f"{self.title}"]
        for f in self.figures:
            line = f"  {f.label:{width}} {number(f.median):>9} {f.unit:10}"
            line += f" ({number(f.low)} .. {number(f.high)}, {len(f.samples)} runs)"
            if f.floor is not None:
                share = f" = {f.share:.0%}" if f.share is not None else ""
                line += f"   floor {number(f.floor)}{share}, {f.floor_name}"
            lines.append(line)
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """The report that `to_json` wrote."""
        return cls(**{**data, "figures": [Figure(**f) for f in data["figures"]]})


class Bench(Protocol):
    """What a benchmark module offers (see the module's docstring)."""

    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> Report: ...


# ---- measuring ----------------------------------------------------------------------------------


def samples_of(
    run: Callable[[], object], *, seconds: float = 1.0, at_least: int = 5, at_most: int = 1000
) -> list[float]:
    """Wall seconds of each call, after one that does not count, until `seconds` are over."""
    run()
    out: list[float] = []
    end = time.perf_counter() + seconds
    while len(out) < at_least or (time.perf_counter() < end and len(out) < at_most):
        began = time.perf_counter()
        run()
        out.append(time.perf_counter() - began)
    return out


def number(x: float) -> str:
    """Three significant digits, without an exponent for ordinary sizes."""
    if x == 0 or 1e-3 <= abs(x) < 1e6:
        digits = max(0, 2 - int(len(str(int(abs(x)))) - 1)) if abs(x) >= 1 else 4
        return f"{x:.{digits}f}"
    return f"{x:.3g}"


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, system, versions."""
    from wggml.backends.cpu.device import processor_name

    versions = {}
    for package in ("wggml", "numpy", "wgpu"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
        "blas": blas(),
        "when": time.strftime("%Y-%m-%d"),
    }


def blas() -> str:
    """The BLAS library behind NumPy and its threads."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").info()
    text = [f"{i['internal_api']} {i.get('version')}, {i['num_threads']} threads" for i in found]
    return "; ".join(text) or "unknown"


def device_facts(device: Any) -> dict[str, Any]:
    """A device's description and the plain values of its properties."""
    plain = (str, int, float, bool)
    props = {k: v for k, v in device.props().items() if isinstance(v, plain)}
    return {"name": device.name, "description": device.description, **props}


# ---- command line -------------------------------------------------------------------------------


def parser_of(bench: Bench) -> argparse.ArgumentParser:
    """Arguments that all benchmarks share, then the benchmark's own."""
    p = argparse.ArgumentParser(description=bench.DESCRIPTION)
    p.add_argument("--model", default=DEFAULT_MODEL, help="a .gguf file or a known name")
    p.add_argument("--device", help="device as for `wggml run`; default: the best GPU, else cpu")
    p.add_argument("--quick", action="store_true", help="few and short runs, to see that it works")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    p.add_argument("--svg", type=Path, metavar="FILE", help="draw the figures into FILE")
    p.add_argument("--peer", metavar="CMD", help="another program's benchmark, run in turn")
    p.add_argument("--peer-match", metavar="REGEX", help="group 1 is the peer's figure; default: "
                   "the last rate in tokens/s that it prints")  # fmt: skip
    bench.add_arguments(p)
    return p


def main(bench: Bench, argv: list[str] | None = None) -> int:
    """Run a benchmark and show, store and compare what it found."""
    from wggml.errors import WggmlError

    args = parser_of(bench).parse_args(argv)
    try:
        report = bench.run(args)
        report.machine = machine()
        print(report.table())
        if args.json:
            args.json.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
        if args.svg:
            from _plot import svg

            args.svg.write_text(svg(report), encoding="utf-8")
        if args.peer:
            print(compare(bench, args))
    except WggmlError as e:
        print(f"{Path(sys.argv[0]).name}: {e}", file=sys.stderr)
        return 2
    return 0


def compare(bench: Any, args: argparse.Namespace) -> str:
    """Ours and the peer's headline figure, measured A B A B ... on the same machine."""
    ours: list[float] = []
    theirs: list[float] = []
    rounds = 1 if args.quick else PEER_ROUNDS
    unit = ""
    for _ in range(rounds):
        figure = bench.headline(bench.run(args))
        unit = figure.unit
        ours.append(figure.median)
        theirs.append(peer_figure(args.peer, args.peer_match))
    a, b = statistics.median(ours), statistics.median(theirs)
    ratio = a / b if b else float("inf")
    return f"ours {number(a)} {unit}, peer {number(b)}: {ratio:.2f}x over {rounds} rounds"


def peer_figure(command: str, match: str | None) -> float:
    """The figure that a peer's command prints; `UsageError` when it fails or prints none."""
    from wggml.errors import UsageError

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    found = (re.compile(match) if match else RATE).findall(text)
    if done.returncode or not found:
        what = f"ended with code {done.returncode}" if done.returncode else "printed no figure"
        raise UsageError(f"the peer {command!r} {what}; its last words: {text[-300:]!r}")
    return float(found[-1])
