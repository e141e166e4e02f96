"""The report of `doctor.examine` as one block of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from wggml.units import nbytes_text

WIDTH = 110
LABEL = 16
SHOWN_LIMITS = {
    "max-buffer-size": "buffer",
    "max-storage-buffer-binding-size": "binding",
    "max-compute-workgroup-storage-size": "workgroup memory",
    "max-storage-buffers-per-shader-stage": "storage buffers",
    "max-compute-invocations-per-workgroup": "invocations",
    "max-compute-workgroups-per-dimension": "workgroups",
}
_SIZES = ("buffer", "binding", "workgroup memory")


def doctor_text(report: dict[str, Any]) -> str:
    """Versions, devices, caches and switches, ready to be pasted."""
    return "\n".join(
        [
            "wggml doctor",
            *_section("versions", _pairs(report["versions"])),
            *_section("system", _system(report)),
            *_devices(report["devices"]),
            *_section(f"cache {report['cache']['folder']}", _cache(report["cache"])),
            *_section("switches", _pairs(report["switches"]) or [("", "none is set")]),
        ]
    )


def _section(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield ""
    yield title
    for label, text in rows:
        lines = textwrap.wrap(
            text, WIDTH - LABEL - 3, break_long_words=False, break_on_hyphens=False
        ) or [""]
        yield f"  {label:{LABEL}} {lines[0]}".rstrip()
        yield from (f"  {'':{LABEL}} {line}" for line in lines[1:])


def _pairs(data: dict[str, Any]) -> list[tuple[str, str]]:
    return [(k, str(v)) for k, v in data.items()]


def _system(report: dict[str, Any]) -> list[tuple[str, str]]:
    s = report["system"]
    memory = f", {nbytes_text(s['memory'])}" if s["memory"] else ""
    return [
        ("os", s["os"]),
        ("processor", f"{s['processor']} ({s['machine']}), {s['cores']} cores{memory}"),
        ("blas", "; ".join(report["blas"]) or "none found"),
    ]


def _devices(found: dict[str, Any]) -> Iterator[str]:
    for a in found["adapters"]:
        yield from _section(f"{a['index']}: {a['name']}  {a['description']}", list(_adapter(a)))
    for problem in found["problems"]:
        yield from _section("no adapter", [("why", problem)])
    if not found["adapters"]:
        yield from _section("CPU", [("", "NumPy computes everything; a GPU needs its driver")])


def _adapter(a: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "error" in a:
        yield "FAILED", str(a["error"])
    api = (a.get("api"), a.get("driver"), a.get("vendor"), a.get("implementation"))
    kind = ", ".join([a["type"], *(str(x) for x in api if x)])
    yield "type", kind
    if a.get("also"):
        yield "also as", ", ".join(a["also"])
    if "features" in a:
        yield "features", ", ".join(a["features"]) or "none that wggml uses"
        yield "missing", ", ".join(a["missing"]) or "nothing"
    if "subgroup_size" in a:
        size = a["subgroup_size"]
        yield "subgroups", f"{size} lanes, counted by a shader" if size else "not used"
    if "limits" in a:
        yield "limits", ", ".join(_limits(a["limits"]))
    if "selftest" in a:
        yield "self-test", str(a["selftest"])
    for note in a.get("notes") or ():
        yield "note", str(note)
    if "seconds" in a:
        yield "looked at in", f"{a['seconds']} s"


def _limits(limits: dict[str, int]) -> Iterator[str]:
    for key, name in SHOWN_LIMITS.items():
        if key in limits:
            n = limits[key]
            yield f"{name} {nbytes_text(n) if name in _SIZES else n}"


def _cache(cache: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(nbytes_text(size), name) for name, size in cache["parts"].items()]
    if "error" in cache:
        rows.append(("FAILED", str(cache["error"])))
    return rows or [("", "empty")]
