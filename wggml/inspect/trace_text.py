"""A `Trace` as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from wggml.inspect.families import FAMILIES
from wggml.inspect.trace import Trace
from wggml.units import time_text

KERNELS = 12
BAR = 24


def trace_text(trace: Trace) -> str:
    """Totals, host phases, time by op family and by kernel."""
    lines = [f"{trace.title}: {trace.text!r}"]
    plain = f", {time_text(trace.plain_us)} without tracing" if trace.plain_us else ""
    graph = "its graph was used again" if trace.reused else "its graph was built"
    lines.append(f"{time_text(trace.total_us)} while traced{plain}; {graph}")
    lines += trace.notes
    lines += ["", *_phase_lines(trace), "", *_family_lines(trace), "", *_kernel_lines(trace)]
    return "\n".join(lines)


def _phase_lines(trace: Trace) -> Iterator[str]:
    yield "host"
    for name, us in trace.phases().items():
        share = us / trace.total_us
        bar = "█" * round(share * BAR)
        yield f"  {name:10} {time_text(us):>10}  {100 * share:5.1f} %  {bar}"


def _family_lines(trace: Trace) -> Iterator[str]:
    for d in trace.devices:
        yield (
            f"{d.name}: {d.dispatches} dispatches, {time_text(d.sum_us)} in sum, "
            f"{time_text(d.interval_us)} from first to last"
        )
    yield f"{'device':10} {'family':24} {'count':>6} {'time':>10} {'share':>8}"
    for r in trace.families():
        bar = "█" * round(r.share * BAR)
        yield (
            f"{r.track:10} {FAMILIES.get(r.family, r.family):24} {r.count:6} "
            f"{time_text(r.us):>10} {100 * r.share:6.1f} %  {bar}"
        )


def _kernel_lines(trace: Trace) -> Iterator[str]:
    rows = trace.kernels()
    yield f"{'device':10} {'time':>10} {'count':>6}  kernel"
    for r in rows[:KERNELS]:
        yield f"{r.track:10} {time_text(r.us):>10} {r.count:6}  {r.name}"
    if len(rows) > KERNELS:
        rest = sum(r.us for r in rows[KERNELS:])
        yield f"{'':10} {time_text(rest):>10} {'':6}  {len(rows) - KERNELS} more"
