"""Sizes and times in words."""

from __future__ import annotations


def nbytes_text(nbytes: int) -> str:
    """A size in the unit that leaves one to four digits before the point, e.g. "46.4 MiB"."""
    if nbytes >= 2**30:
        return f"{nbytes / 2**30:.2f} GiB"
    if nbytes >= 2**20:
        return f"{nbytes / 2**20:.1f} MiB"
    if nbytes >= 2**10:
        return f"{nbytes / 2**10:.1f} KiB"
    return f"{nbytes} bytes"


def time_text(us: float) -> str:
    """A time in microseconds with the unit that suits it, e.g. "12.3 ms"."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} µs"
