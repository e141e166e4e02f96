#!/usr/bin/env python3
"""Fetches known models into the cache and prints their paths.

    python tools/get_models.py [NAME ...] [--list]

Without names, all of them. Needs wggml installed (`python tools/dev.py run` does that); run it with
`.venv/bin/python`.
"""

from __future__ import annotations

import argparse
import sys

from wggml.errors import WggmlError
from wggml.hub import KNOWN_MODELS, cache_dir, resolve_model


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(KNOWN_MODELS)}")
    parser.add_argument("--list", action="store_true", help="list the known models and stop")
    options = parser.parse_args(argv)
    if options.list:
        for model in KNOWN_MODELS.values():
            size = f"{model.download_nbytes / 2**20:.0f} MiB"
            print(f"{model.name:14}{size:>9}  {model.licence:20}{model.about}")
        print(f"cache: {cache_dir()}")
        return 0
    try:
        for name in options.names or KNOWN_MODELS:
            print(resolve_model(name, progress=True))
    except WggmlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
