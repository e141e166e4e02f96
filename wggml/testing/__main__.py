"""`python -m wggml.testing DIR ...` is `wggml test-ops --cases DIR ...`."""

from __future__ import annotations

import sys

from wggml.cli.test_ops import test_ops

if __name__ == "__main__":
    test_ops(["--cases", *sys.argv[1:]], prog_name="python -m wggml.testing")
