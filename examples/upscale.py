"""Enlarge a picture four times with a small net of convolutions, tile by tile.

    python examples/upscale.py IN OUT [--device NAME] [--model realesr-x2|realesr-x3|realesr-x4]

Pictures are read and written by Pillow: pip install 'wggml[demo]'
"""

from __future__ import annotations

import argparse
import sys
import time

from wggml.errors import WggmlError
from wggml.hub import resolve_model
from wggml.upscale import Upscaler, read_picture, write_picture


def run(args: argparse.Namespace) -> None:
    picture = read_picture(args.input)
    with Upscaler(resolve_model(args.model, progress=True), device=args.device) as upscaler:
        print(f"on {upscaler.device.description}", file=sys.stderr)
        start, out = time.perf_counter(), picture
        for out, share in upscaler.tiles(picture):  # noqa: B007
            print(f"\r{share:5.0%}", end="", file=sys.stderr)
        seconds = time.perf_counter() - start
    write_picture(args.output, out)
    sizes = " -> ".join(f"{p.shape[1]}x{p.shape[0]}" for p in (picture, out))
    print(f"\r{sizes} in {seconds:.1f} s: {args.output}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="Enlarge a picture.")
    p.add_argument("input", metavar="IN")
    p.add_argument("output", metavar="OUT")
    p.add_argument("--device", help="index or part of a name (see `wggml devices`)")
    p.add_argument("--model", default="realesr-x4", help="known name or .gguf file")
    try:
        run(p.parse_args(argv))
    except WggmlError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
