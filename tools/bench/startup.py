"""From the shell to the first token: a fresh process each time, with all caches warm."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from _common import Figure, Report, main

DESCRIPTION = __doc__

# Run in the fresh process; prints when each phase ended, in seconds since its first line.
CHILD = """
import time; began = time.perf_counter()
import json, sys
model, device, prompt = sys.argv[1:]
marks = {}
def mark(name): marks[name] = time.perf_counter() - began
from wggml.cli.run import choose_device
from wggml.cli.environment import prepare_environment
from wggml.hub import resolve_model
from wggml.llama import GenerationParams, Llama
import numpy
mark("imports")
prepare_environment()
path = resolve_model(model, progress=False)
device = choose_device(device or None, -1, show=False)
mark("devices")
last = ["weights"]
def progress(share, label):
    what = "warm-up" if label.startswith("warming") else "weights"
    if what != last[0]: mark(last[0]); last[0] = what
llama = Llama(path, device=device, progress=progress)
mark(last[0])
next(iter(llama.generate(prompt, GenerationParams(max_tokens=1, temperature=0.0))))
mark("first token")
print(json.dumps(marks))
"""


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--prompt", default="hi")
    p.add_argument("--runs", type=int, default=5)


def run(args: argparse.Namespace) -> Report:
    report = Report("startup", f"Start, {args.model}", {"prompt": args.prompt})
    runs = 1 if args.quick else args.runs
    phases: dict[str, list[float]] = {}
    total = []
    for i in range(runs + 1 - args.quick):
        began = time.perf_counter()
        marks = _child(args.model, args.device, args.prompt)
        wall = time.perf_counter() - began
        if i or args.quick:  # the first run warms the caches
            total.append(wall)
            at = 0.0
            for name, end in marks.items():
                phases.setdefault(name, []).append(end - at)
                at = end
    floor = _floor(runs)
    report.add("process to first token", "s", total, floor=floor, floor_name="import numpy alone")
    for name, seconds in phases.items():
        report.add(f"  {name}", "s", seconds)
    return report


def _child(model: str, device: str | None, prompt: str) -> dict[str, float]:
    from wggml.errors import UsageError

    command = [sys.executable, "-c", CHILD, model, device or "", prompt]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"the fresh process failed: {done.stderr[-500:]}")
    marks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return marks


def _floor(runs: int) -> float:
    seconds = []
    for _ in range(max(2, runs)):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def headline(report: Report) -> Figure:
    """The whole time."""
    return report.figures[0]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
