"""Checks against recorded data: `python tools/check.py SUB-COMMAND ...`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

# sub-command -> (module with add_arguments(parser) and main(args) -> exit code, help)
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("wggml.testing.check_plan", "graph building, allocation and scheduling"),
    "llm": ("wggml.testing.check_llm", "token ids and logits of whole models"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command; returns its exit code, 2 for an error in what was asked."""
    from wggml.errors import WggmlError

    args_list = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="check.py", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="SUB-COMMAND")
    for name, (module, text) in COMMANDS.items():
        sub = subparsers.add_parser(name, help=text)
        if name in args_list[:1]:  # load only what is run
            import_module(module).add_arguments(sub)
    args = parser.parse_args(args_list)
    try:
        return int(import_module(COMMANDS[args.command][0]).main(args))
    except WggmlError as e:
        print(f"check.py {args.command}: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
