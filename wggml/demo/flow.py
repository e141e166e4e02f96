"""Tokens set as running text: lines broken between words, every token with its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Measure = Callable[[str], float]

BREAK_WIDTH = 9.0
"""Room that a token of nothing but line breaks takes, so that it can be pointed at."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A token (or its part on one line) at a point relative to the text's upper left corner."""

    token: int
    text: str
    x: float
    line: int
    width: float


class Flow:
    """Lays tokens out; what is laid out already is kept while tokens are only added."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._widths: dict[str, float] = {}
        self._key: tuple[float, tuple[str, ...]] = (0.0, ())
        self.items: list[Placed] = []
        self.n_lines = 1

    def width_of(self, text: str) -> float:
        if text not in self._widths:
            self._widths[text] = self._measure(text)
        return self._widths[text]

    def lay_out(self, texts: Sequence[str], width: float) -> None:
        """Place the tokens of these texts within `width`."""
        key = (width, tuple(texts))
        if key == self._key:
            return
        self._key = key
        self.items, x, line = [], 0.0, 0
        for word in words(texts):
            total = sum(self.width_of(part) for _, part in word if part != "\n")
            if x > 0 and x + total > width and word[0][1] != "\n":
                x, line = 0.0, line + 1
                token, first = word[0]
                word = [(token, first.lstrip(" ")), *word[1:]]
            for token, part in word:
                if part == "\n":
                    self.items.append(Placed(token, "", x, line, BREAK_WIDTH))
                    x, line = 0.0, line + 1
                    continue
                w = self.width_of(part)
                if x > 0 and x + w > width:
                    x, line = 0.0, line + 1
                self.items.append(Placed(token, part, x, line, w))
                x += w
        self.n_lines = line + 1


def words(texts: Sequence[str]) -> list[list[tuple[int, str]]]:
    """(token, text) grouped so that a line may break between the groups only; each line break is a
    group of its own."""
    out: list[list[tuple[int, str]]] = []
    for token, text in enumerate(texts):
        for i, part in enumerate(text.split("\n")):
            if i > 0:
                out.append([(token, "\n")])
            if not part:
                continue
            if part[0] == " " or not out or out[-1][0][1] == "\n":
                out.append([(token, part)])
            else:
                out[-1].append((token, part))
    return out
