"""The ten digits as a hand would draw them: strokes of points in 0..1, x to the right, y down."""

from __future__ import annotations

import math

Stroke = list[tuple[float, float]]


def arc(
    cx: float, cy: float, rx: float, ry: float, begin: float, end: float, n: int = 24
) -> Stroke:
    """Part of an ellipse, degrees clockwise from three o'clock."""
    steps = [math.radians(begin + (end - begin) * i / n) for i in range(n + 1)]
    return [(cx + rx * math.cos(a), cy + ry * math.sin(a)) for a in steps]


DIGITS: dict[int, list[Stroke]] = {
    0: [arc(0.5, 0.5, 0.27, 0.4, -90, 270)],
    1: [[(0.36, 0.26), (0.55, 0.1), (0.55, 0.5), (0.55, 0.9)]],
    2: [[*arc(0.5, 0.32, 0.25, 0.22, -170, 40), (0.28, 0.88), (0.8, 0.88)]],
    3: [[*arc(0.47, 0.3, 0.24, 0.2, -150, 90), *arc(0.47, 0.7, 0.27, 0.2, -90, 150)]],
    4: [[(0.52, 0.1), (0.22, 0.6), (0.8, 0.6)], [(0.62, 0.4), (0.6, 0.9)]],
    5: [[(0.74, 0.1), (0.34, 0.1), (0.3, 0.45), *arc(0.5, 0.64, 0.26, 0.24, -130, 150)]],
    6: [[(0.62, 0.1), (0.42, 0.32), *arc(0.5, 0.68, 0.22, 0.22, 180, 540)]],
    7: [[(0.24, 0.12), (0.76, 0.12), (0.55, 0.5), (0.44, 0.9)], [(0.34, 0.5), (0.74, 0.5)]],
    8: [[*arc(0.5, 0.3, 0.19, 0.2, 90, 450), *arc(0.5, 0.7, 0.23, 0.2, -90, 270)]],
    9: [[*arc(0.5, 0.32, 0.21, 0.21, 0, -350), (0.7, 0.34), (0.64, 0.65), (0.54, 0.9)]],
}
