"""How the cost of a token grows: with context, sequences at once, layers and vocabulary.

Context and batch use the model that is given, layers and vocabulary synthetic ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _common import Figure, Report, device_facts, main, samples_of
from _models import device_of, floor_of_decode, open_model, synthetic
from decode import TOKEN, token_times

from wggml.llama import Llama
from wggml.runtime.batch import Batch

DESCRIPTION = __doc__
AXES = ("context", "batch", "layers", "vocabulary")


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--axis", choices=AXES, default="context")
    p.add_argument("--points", type=int, nargs="+", help="values on the axis")
    p.add_argument("-n", type=int, default=12, help="tokens to measure at each point")


POINTS = {
    "context": [128, 256, 512, 1024, 2048, 4096, 8192],
    "batch": [1, 2, 4, 8, 16],
    "layers": [2, 4, 8, 16, 32],
    "vocabulary": [1024, 4096, 16384, 65536, 262144],
}
QUICK = {"context": [16, 32], "batch": [1, 2], "layers": [1, 2], "vocabulary": [64, 128]}


def run(args: argparse.Namespace) -> Report:
    points = QUICK[args.axis] if args.quick else (args.points or POINTS[args.axis])
    n = 2 if args.quick else args.n
    title = f"Cost of a token against {args.axis}, {args.model}"
    report = Report("scale", title, {"axis": args.axis, "n": n}, x_label=args.axis)
    {"context": _context, "batch": _batch}.get(args.axis, _synthetic)(report, args, points, n)
    return report


def _add(report: Report, llama: Llama, x: int, ms: list[float], name: str = "token") -> None:
    floor, floor_name = floor_of_decode(llama)
    report.settings["device"] = device_facts(device_of(llama))
    report.add(name, "ms", ms, x=x, floor=floor * 1e3, floor_name=floor_name)


def _context(report: Report, args: argparse.Namespace, points: list[int], n: int) -> None:
    with open_model(args, n_ctx=max(points) + n + 8) as llama:
        for x in points:
            _add(report, llama, x, token_times(llama, x, n))


def _batch(report: Report, args: argparse.Namespace, points: list[int], n: int) -> None:
    """Several sequences a step, each with a context of its own; time of the whole step."""
    with open_model(args, n_ctx=64 * max(points), n_seq_max=max(points)) as llama:
        for x in points:
            llama.context.kv.clear()
            position = 0

            def step(x: int = x) -> None:
                nonlocal position
                batch = Batch([TOKEN] * x, [position] * x, [(i,) for i in range(x)], [True] * x)
                llama.context.decode(batch)
                position += 1

            ms = [1e3 * s for s in samples_of(step, seconds=0, at_least=n)]
            _add(report, llama, x, ms, "step")


def _synthetic(report: Report, args: argparse.Namespace, points: list[int], n: int) -> None:
    name = "n_layer" if args.axis == "layers" else "n_vocab"
    with tempfile.TemporaryDirectory() as folder:
        for x in points:
            args.model = synthetic(Path(folder) / f"{x}.gguf", **{name: x})
            with open_model(args, n_ctx=64 + n) as llama:
                _add(report, llama, x, token_times(llama, 32, n))
    report.title = f"Cost of a token against {args.axis}, synthetic model"


def headline(report: Report) -> Figure:
    """The last point."""
    return report.figures[-1]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
