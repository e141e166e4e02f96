"""A `Trace` in Chrome's trace event format, for Perfetto and chrome://tracing.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
("X" are complete events with begin and duration in microseconds, "M" name processes and threads).
"""

from __future__ import annotations

from typing import Any

from wggml.inspect.spans import HOST
from wggml.inspect.trace import Trace

PID = 1


def chrome_trace(trace: Trace) -> dict[str, Any]:
    """Plain data for `json.dumps`: one thread per track, the host first."""
    tracks = [HOST, *dict.fromkeys(s.track for s in trace.spans if s.track != HOST)]
    tid = {name: i + 1 for i, name in enumerate(tracks)}
    events: list[dict[str, Any]] = [_name("process_name", 0, trace.title)]
    for name, i in tid.items():
        events.append(_name("thread_name", i, name if name == HOST else f"{name} (device time)"))
        events.append(
            {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": PID,
                "tid": i,
                "args": {"sort_index": i},
            }
        )
    for s in trace.spans:
        event: dict[str, Any] = {
            "ph": "X", "name": s.name, "cat": s.family, "pid": PID, "tid": tid[s.track],
            "ts": round(s.start, 3), "dur": round(max(s.duration, 0.0), 3),
        }  # fmt: skip
        if s.detail:
            event["args"] = {"detail": s.detail}
        events.append(event)
    other = {"title": trace.title, "total_us": trace.total_us, "plain_us": trace.plain_us}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def _name(what: str, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PID, "tid": tid, "args": {"name": name}}
