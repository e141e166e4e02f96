"""Small pieces of output that the commands share."""

from __future__ import annotations

import sys
from typing import Any


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


def nbytes_text(nbytes: int) -> str:
    """A size in the unit that leaves one to four digits before the point, e.g. "46.4 MiB"."""
    if nbytes >= 2**30:
        return f"{nbytes / 2**30:.2f} GiB"
    if nbytes >= 2**20:
        return f"{nbytes / 2**20:.1f} MiB"
    if nbytes >= 2**10:
        return f"{nbytes / 2**10:.1f} KiB"
    return f"{nbytes} bytes"
