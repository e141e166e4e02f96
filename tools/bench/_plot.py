"""A report as an SVG picture: bars with their floors, or lines over an axis."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from _common import Figure, Report, number

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 250, 150, 24, 48
HEIGHT, BOTTOM, GAP = 340, 44, 60  # of a picture with lines
COLOURS = ("#3465a4", "#cc5500", "#4e9a06", "#75507b", "#a40000", "#555753")


def svg(report: Report) -> str:
    """The picture as text: lines where the report has an axis, else bars."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    facts = _lines(report) if report.x_label else _bars(report)
    return env.get_template("plot.svg.j2").render(
        title=report.title, width=WIDTH, left=LEFT, top=TOP, row=ROW, **facts
    )


def _bars(report: Report) -> dict[str, Any]:
    """Each bar has a scale of its own unit; a tick marks its floor."""
    most: dict[str, float] = {}
    for f in report.figures:
        most[f.unit] = max(most.get(f.unit, 0.0), f.high, f.floor or 0.0)
    room = WIDTH - LEFT - RIGHT
    bars = []
    for i, f in enumerate(report.figures):
        scale = room / (most[f.unit] or 1.0)
        bars.append(
            {
                "name": f.name, "y": TOP + i * ROW, "width": round(f.median * scale, 1),
                "low": round(LEFT + f.low * scale, 1), "high": round(LEFT + f.high * scale, 1),
                "floor": None if f.floor is None else round(LEFT + f.floor * scale, 1),
                "text": f"{number(f.median)} {f.unit}",
            }
        )  # fmt: skip
    height = TOP + ROW * len(bars) + 16
    return {"bars": bars, "lines": [], "ticks": [], "height": height, "x_label": "", "y_label": ""}


def _lines(report: Report) -> dict[str, Any]:
    """One line a figure name, its floor dashed; both axes logarithmic."""
    groups: dict[str, list[Figure]] = {}
    for f in report.figures:
        groups.setdefault(f.name, []).append(f)
    xs = [f.x or 1.0 for f in report.figures]
    ys = [y for f in report.figures for y in (f.median, f.floor) if y]
    place_x = _log_scale(xs, GAP, WIDTH - RIGHT)
    place_y = _log_scale(ys, HEIGHT - BOTTOM, TOP)
    lines = []
    for i, (name, figures) in enumerate(groups.items()):
        points = [(place_x(f.x or 1.0), place_y(f.median)) for f in figures]
        floor = [(place_x(f.x or 1.0), place_y(f.floor)) for f in figures if f.floor]
        lines.append(
            {
                "name": name, "colour": COLOURS[i % len(COLOURS)], "label_y": TOP + 14 * i,
                "points": _points(points), "dots": points, "floor": _points(floor),
            }
        )  # fmt: skip
    ticks = [{"x": place_x(x), "y": None, "text": number(x)} for x in sorted(set(xs))]
    ticks += [{"x": None, "y": place_y(y), "text": number(y)} for y in _decades(ys)]
    unit = report.figures[0].unit if report.figures else ""
    return {
        "bars": [], "lines": lines, "ticks": ticks, "height": HEIGHT, "x_label": report.x_label,
        "y_label": unit,
    }  # fmt: skip


def _log_scale(values: list[float], begin: int, end: int) -> Any:
    low, high = min(values, default=1.0), max(values, default=1.0)
    span = math.log(high / low) or 1.0
    return lambda v: round(begin + (end - begin) * math.log(v / low) / span, 1)


def _decades(values: list[float]) -> list[float]:
    """Smallest and largest value, and the 1, 2, 5 times powers of ten between."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    steps = [m * 10.0**e for e in range(-6, 8) for m in (1, 2, 5)]
    return [low, *(s for s in steps if low * 1.15 < s < high / 1.15), high]


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
