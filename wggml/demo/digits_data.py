"""Digits as the data set has them: 8x8 images, and drawings brought into that form.

The set (scikit-learn's copy of UCI's optical digits) was made from 32x32 bitmaps, normalised to
fill their frame, by counting the ink in blocks of 4x4. Drawings go the same way.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wggml.errors import UsageError

F32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Point = tuple[float, float]
Stroke = Sequence[Point]

SIDE = 32
INK = 27.0
"""Pixels of the frame that the larger side of a drawing's middle line fills."""
PEN = 2.6
"""Half the width of the line in pixels of the frame."""


def load_digits() -> tuple[tuple[F32, Ints], tuple[F32, Ints]]:
    """1437 images to learn from and 360 to be tested on: pixels [n, 64] in -1 .. 1, digits [n].

    Raises `UsageError` where scikit-learn is not installed.
    """
    spec = find_spec("sklearn")
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0] if folders else "", "datasets", "data", "digits.csv.gz")
    if not folders or not path.is_file():
        raise UsageError("the digits come with scikit-learn: pip install 'wggml[demo]'")
    with gzip.open(path, "rt") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    table = np.random.default_rng(0).permutation(table)  # the file is in order of writers
    pixels: F32 = table[:, :64].astype(np.float32) / np.float32(8) - np.float32(1)
    digits = table[:, 64].astype(np.int64)
    n_test = len(table) // 5
    return (pixels[n_test:], digits[n_test:]), (pixels[:n_test], digits[:n_test])


def from_drawing(strokes: Sequence[Stroke]) -> F32:
    """A drawing, strokes of points (x to the right, y down) of any scale, as pixels [64]: as large
    as its frame allows, in the middle. All -1 where nothing was drawn."""
    points = [np.asarray(s, np.float64).reshape(-1, 2) for s in strokes if len(s)]
    if not points:
        return np.full(64, -1, np.float32)
    every = np.concatenate(points)
    low, high = every.min(axis=0), every.max(axis=0)
    scale = INK / max(float((high - low).max()), 1e-6)
    middle = (low + high) / 2
    y, x = np.mgrid[0:SIDE, 0:SIDE] + 0.5
    ink = np.zeros((SIDE, SIDE), bool)
    for stroke in points:
        placed = (stroke - middle) * scale + SIDE / 2
        for a, b in pairwise(placed):
            ink |= _distance(x, y, a, b) <= PEN
        if len(placed) == 1:
            ink |= np.hypot(x - placed[0, 0], y - placed[0, 1]) <= PEN
    counts = ink.reshape(8, 4, 8, 4).sum(axis=(1, 3)).astype(np.float32)
    pixels: F32 = counts.reshape(64) / np.float32(8) - np.float32(1)
    return pixels


def _distance(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], a: npt.NDArray[np.float64],
    b: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:  # fmt: skip
    """From every pixel to the segment between two points."""
    d = b - a
    along = ((x - a[0]) * d[0] + (y - a[1]) * d[1]) / max(float(d @ d), 1e-12)
    along = np.clip(along, 0.0, 1.0)
    out: npt.NDArray[np.float64] = np.hypot(x - a[0] - along * d[0], y - a[1] - along * d[1])
    return out


def augment(pixels: F32, rng: np.random.Generator) -> F32:
    """The same digits turned, slanted, moved and scaled a little, in thinner and thicker ink:
    pixels [n, 64] -> [n, 64]."""
    n = len(pixels)
    turn, slant = rng.uniform(-0.18, 0.18, n), rng.uniform(-0.15, 0.15, n)
    sx, sy = rng.uniform(0.85, 1.35, n), rng.uniform(0.9, 1.1, n)
    dx, dy = rng.uniform(-0.6, 0.6, (2, n))
    gy, gx = np.mgrid[0:8, 0:8].reshape(2, 64) - 3.5
    c, s = np.cos(turn)[:, None], np.sin(turn)[:, None]
    x = (c * gx - s * gy) * sx[:, None] + slant[:, None] * gy + dx[:, None] + 3.5
    y = (s * gx + c * gy) * sy[:, None] + dy[:, None] + 3.5
    framed = np.full((n, 10, 10), -1, np.float32)
    framed[:, 1:9, 1:9] = pixels.reshape(n, 8, 8)
    x, y = np.clip(x + 1, 0, 8.999), np.clip(y + 1, 0, 8.999)
    ix, iy = x.astype(np.int64), y.astype(np.int64)
    fx, fy = (x - ix).astype(np.float32), (y - iy).astype(np.float32)
    rows = np.arange(n)[:, None]

    def at(j: int, i: int) -> F32:
        out: F32 = framed[rows, iy + j, ix + i]
        return out

    top = at(0, 0) * (1 - fx) + at(0, 1) * fx
    bottom = at(1, 0) * (1 - fx) + at(1, 1) * fx
    ink = (top * (1 - fy) + bottom * fy + 1) * rng.uniform(0.7, 1.5, (n, 1)).astype(np.float32)
    out: F32 = np.minimum(ink, 2) - 1
    return out
