"""Small pieces of output that the commands share."""

from __future__ import annotations

import sys
from typing import Any

from wggml.units import nbytes_text

__all__ = ["nbytes_text", "utf8_stdout"]


def utf8_stdout() -> Any:
    """stdout as UTF-8 wherever it is piped to; a terminal keeps its own encoding.

    What the encoding lacks is replaced, so that no character ends a run.
    """
    out = sys.stdout
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        if out.isatty():
            reconfigure(errors="replace")
        else:
            reconfigure(encoding="utf-8", errors="replace", newline="")
    return out
