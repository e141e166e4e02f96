"""Time of one generated token, at one or more lengths of context."""

from __future__ import annotations

import argparse
import sys
import time

from _common import Figure, Report, device_facts, main
from _models import device_of, floor_of_decode, open_model

DESCRIPTION = __doc__
TOKEN = 17  # any: the work does not depend on it


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--context", type=int, nargs="+", default=[64], metavar="N",
                   help="tokens in the cache before the first measured one")  # fmt: skip
    p.add_argument("-n", type=int, default=64, help="tokens to measure")


def run(args: argparse.Namespace) -> Report:
    n = 4 if args.quick else args.n
    with open_model(args, n_ctx=max(args.context) + n + 8) as llama:
        report = Report("decode", f"Decode, {args.model}", {"n": n, "context": args.context})
        report.settings["device"] = device_facts(device_of(llama))
        for context in sorted(args.context):
            ms = token_times(llama, context, n)
            floor, floor_name = floor_of_decode(llama)
            more = {"floor": floor * 1e3, "floor_name": floor_name}
            report.add(f"token at {context}", "ms", ms, **more)
            report.add(
                f"speed at {context}", "tokens/s", [1e3 / t for t in ms], higher_is_better=True,
                floor=1 / floor, floor_name=floor_name,
            )  # fmt: skip
        counters = [b.counters for b in llama.context.backends]
        began = sum(c.dispatches for c in counters)
        llama.eval([TOKEN], position=max(args.context) + n + 2)
        report.notes.append(f"{sum(c.dispatches for c in counters) - began} dispatches a token")
        return report


def token_times(llama, context: int, n: int) -> list[float]:
    """Milliseconds of each of `n` tokens after `context` ones (two more come first, unmeasured)."""
    llama.context.kv.clear()
    llama.eval([TOKEN] * context)
    out = []
    for i in range(n + 2):
        began = time.perf_counter()
        llama.eval([TOKEN], position=context + i)
        out.append((time.perf_counter() - began) * 1e3)
    return out[2:]


def headline(report: Report) -> Figure:
    """Tokens a second at the first context."""
    return next(f for f in report.figures if f.unit == "tokens/s")


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
