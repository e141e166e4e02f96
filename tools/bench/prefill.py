"""Time to read a prompt."""

from __future__ import annotations

import argparse
import sys

from _common import Figure, Report, device_facts, main, samples_of
from _models import device_of, floor_of_prefill, open_model

DESCRIPTION = __doc__
TOKEN = 17


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--prompt", type=int, nargs="+", default=[128], metavar="N",
                   help="tokens of the prompt")  # fmt: skip
    p.add_argument("--ubatch-size", type=int, help="tokens computed in one graph")


def run(args: argparse.Namespace) -> Report:
    lengths = [min(n, 16) for n in args.prompt] if args.quick else args.prompt
    with open_model(args, n_ctx=max(lengths) + 8, n_ubatch=args.ubatch_size) as llama:
        report = Report("prefill", f"Prompt, {args.model}", {"prompt": lengths})
        report.settings["device"] = device_facts(device_of(llama))
        for n in lengths:

            def prompt(n: int = n) -> None:
                llama.context.kv.clear()
                llama.eval([TOKEN] * n)

            seconds = samples_of(prompt, seconds=0 if args.quick else 5, at_least=3)
            floor, floor_name = floor_of_prefill(llama, n)
            report.add(
                f"{n} tokens", "tokens/s", [n / s for s in seconds], higher_is_better=True,
                floor=n / floor, floor_name=floor_name,
            )  # fmt: skip
        return report


def headline(report: Report) -> Figure:
    """Tokens a second of the first length."""
    return report.figures[0]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
