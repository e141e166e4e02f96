"""A `Trace` as one HTML page."""

from __future__ import annotations

from typing import Any

from wggml.inspect.families import FAMILIES
from wggml.inspect.pages import render_page
from wggml.inspect.spans import HOST, Span
from wggml.inspect.trace import Trace
from wggml.units import time_text

KERNELS = 24
PHASE_TEXTS = {
    "build": "the graph: its key is compared, or it is built anew",
    "split": "who runs which node",
    "alloc": "places are written, by a plan that is there or a new one",
    "compile": "a backend turns its split into dispatches or calls",
    "inputs": "tokens, positions, masks",
    "copy": "inputs of splits are brought to their device",
    "record": "dispatches are written into a command buffer, with timestamps",
    "submit": "the command buffer is handed to the driver",
    "compute": "NumPy's work",
    "wait": "until the device is done",
    "readback": "the logits come to the host",
    "sample": "the next token is chosen",
}


def trace_page(trace: Trace) -> str:
    """A self-contained page with the timeline and the tables."""
    used = {s.family for s in trace.spans if s.track != HOST}
    return render_page(
        "trace.html.j2",
        trace.title,
        _script_data(trace),
        text=trace.text,
        notes=trace.notes,
        tiles=_tiles(trace),
        families=[{"key": k, "label": v} for k, v in FAMILIES.items() if k in used],
        devices=[_device(trace, name) for name in _tracks(trace)],
        phases=[
            {"name": name, "time": time_text(us), "share": _percent(us, trace.total_us),
             "text": PHASE_TEXTS[name]}
            for name, us in trace.phases().items()
        ],
        kernels=[
            {"time": time_text(r.us), "track": r.track, "name": r.name, "family": r.family,
             "count": r.count, "each": time_text(r.us / r.count)}
            for r in trace.kernels()[:KERNELS]
        ],
    )  # fmt: skip


def _tracks(trace: Trace) -> list[str]:
    return list(dict.fromkeys(s.track for s in trace.spans if s.track != HOST))


def _percent(us: float, total: float) -> float:
    return round(100 * us / total, 1) if total else 0.0


def _script_data(trace: Trace) -> dict[str, Any]:
    def row(s: Span) -> dict[str, Any]:
        return {
            "name": s.name, "start": round(s.start, 2), "duration": round(s.duration, 2),
            "family": s.family, "detail": s.detail,
        }  # fmt: skip

    timed = {d.name for d in trace.devices}
    tracks = [
        {
            "name": name,
            "host": name == HOST,
            "note": "GPU time" if name in timed else "",
            "spans": [row(s) for s in trace.spans if s.track == name],
        }
        for name in (HOST, *_tracks(trace))
    ]
    end = max((s.end for s in trace.spans), default=1.0)
    return {"total": max(end, trace.total_us, 1.0), "tracks": tracks}


def _tiles(trace: Trace) -> list[dict[str, str]]:
    plain = trace.plain_us
    tiles = [
        {
            "label": "this token, traced",
            "value": time_text(trace.total_us),
            "note": f"{time_text(plain)} without tracing" if plain else "the first token",
        }
    ]
    tiles += [
        {
            "label": f"{d.name}, all dispatches",
            "value": time_text(d.sum_us),
            "note": f"{d.dispatches} dispatches in {time_text(d.interval_us)}",
        }
        for d in trace.devices
    ]
    host = trace.phases()
    own = sum(us for name, us in host.items() if name not in ("wait", "compute"))
    graph = "the graph was used again" if trace.reused else "the graph was built"
    tiles.append({"label": "host, without waiting", "value": time_text(own), "note": graph})
    return tiles


def _device(trace: Trace, name: str) -> dict[str, Any]:
    rows = [r for r in trace.families() if r.track == name]
    timed = next((d for d in trace.devices if d.name == name), None)
    text = f"{time_text(sum(r.us for r in rows))} in {sum(r.count for r in rows)} calls"
    if timed is not None:
        text = (
            f"{timed.dispatches} dispatches take {time_text(timed.sum_us)}; from the first pass to "
            f"the last {time_text(timed.interval_us)}"
        )
    return {
        "name": name,
        "text": text,
        "what": "dispatches" if timed is not None else "nodes",
        "rows": [
            {
                "key": r.family,
                "label": FAMILIES.get(r.family, r.family),
                "count": r.count,
                "time": time_text(r.us),
                "share": round(100 * r.share, 1),
            }
            for r in rows
        ],
    }
