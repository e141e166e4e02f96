"""Several runs in flight: which copy of the inputs a run uses, and events that tell when a
backend is done with one."""

from __future__ import annotations

from collections.abc import Sequence

from wggml.errors import UsageError
from wggml.hal.interface import Backend, Event

MAX_COPIES = 4  # what `parallel` asks for


class Pipeline:
    """The copy index rotates with every allocated graph.

    Attributes:
        n_copies: 1 without pipeline parallelism.
        markers: one more event per backend, to make others wait for it.
        cur: copy that the allocated graph uses.
    """

    __slots__ = ("_events", "_next", "cur", "markers", "n_copies")

    def __init__(self, backends: Sequence[Backend], n_copies: int) -> None:
        if n_copies < 1:
            raise UsageError(f"n_copies must be at least 1, got {n_copies}")
        self.n_copies = n_copies
        self.cur = 0
        self._next = 0
        self.markers = [b.event_new() if n_copies > 1 else None for b in backends]
        self._events: list[list[Event | None]] = [
            [b.event_new() if n_copies > 1 else None for _ in range(n_copies)] for b in backends
        ]

    def advance(self) -> None:
        """Go on to the next copy."""
        self.cur = self._next
        self._next = (self._next + 1) % self.n_copies

    def rewind(self) -> None:
        """Let the next graph use copy 0. Only when nothing is in flight: then every token of a
        generation finds the same graph and backends can replay it."""
        self._next = 0

    def event(self, backend: int) -> Event | None:
        """The event of a backend for the current copy; None without parallelism or events."""
        return self._events[backend][self.cur]
