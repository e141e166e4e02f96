"""`Spans`: what one thread did when, by wrapping methods of live objects for a while.

Nothing is measured, and nothing costs time, unless a trace is being taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

HOST = "host"


@dataclass(slots=True)
class Span:
    """Something that took `duration` microseconds from `start` on, both since the trace began.

    Attributes:
        track: `host` for phases, else the device it ran on.
        family: an op family (`families.FAMILIES`) or a host phase.
        detail: more in words: kernel label, size.
    """

    track: str
    name: str
    start: float
    duration: float
    family: str
    detail: str = ""

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(slots=True)
class Spans:
    """Spans as they are recorded. Used as a context manager it unwraps what `wrap` wrapped."""

    spans: list[Span] = field(default_factory=list)
    origin: float = field(default_factory=perf_counter)
    _undo: list[tuple[Any, str, Any, bool]] = field(default_factory=list)

    def at(self, seconds: float) -> float:
        """Microseconds since the trace began of a `perf_counter` value."""
        return (seconds - self.origin) * 1e6

    def add(
        self, track: str, name: str, began: float, ended: float, family: str, detail: str = ""
    ) -> None:
        """A span between two `perf_counter` values."""
        self.spans.append(Span(track, name, self.at(began), (ended - began) * 1e6, family, detail))

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """A span of the host."""
        began = perf_counter()
        try:
            yield
        finally:
            self.add(HOST, name, began, perf_counter(), name, detail)

    def replace(self, obj: Any, method: str, function: Callable[..., Any]) -> None:
        """Put `function` in the place of a method of one object until the trace ends."""
        own = method in getattr(obj, "__dict__", {})
        self._undo.append((obj, method, getattr(obj, method), own))
        setattr(obj, method, function)

    def wrap(self, obj: Any, method: str, phase: str) -> None:
        """Make every call of a method of one object a span of the host."""
        original = getattr(obj, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(phase):
                return original(*args, **kwargs)

        self.replace(obj, method, timed)

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *exc: object) -> None:
        for obj, method, original, own in reversed(self._undo):
            if own or not hasattr(obj, "__dict__"):
                setattr(obj, method, original)
            else:
                delattr(obj, method)
        self._undo.clear()
