"""`Process`: the worker seen from outside. It may hang or die; this side never does."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from wggml.errors import DeviceError, UsageError
from wggml.testing.watch.worker import serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from wggml.testing.opcases import Status
    from wggml.testing.selection import Selection

START_SECONDS = 300.0  # for opening the device and reading the cases
MAX_DEATHS = 2  # in one go; a shader that every case uses would cost the limit for each of them


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a case, and the templates it was rendered from (None: not known)."""

    id: str
    status: Status
    reason: str = ""
    templates: frozenset[str] | None = None


class Process:
    """A worker process that is started again whenever it was lost.

    Raises `DeviceError` when it does not start, `UsageError` when it refuses the device.
    """

    def __init__(self, selection: Selection, device: str) -> None:
        self.selection, self.device = selection, device
        self.lines: list[tuple[str, str, str]] = []  # (id, op, parameters) of the cases
        self.starts = 0
        self._child: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._start()

    def run(self, ids: Sequence[str], edited: frozenset[str], limit: float) -> Iterator[Outcome]:
        """Verdicts in order. A case that takes longer than `limit` seconds, or takes the worker
        down, fails; after `MAX_DEATHS` of these the rest is left out."""
        rest = list(ids)
        deaths = 0
        while rest and deaths < MAX_DEATHS:
            for outcome in self._batch(rest, edited, limit):
                rest.remove(outcome.id)
                yield outcome
            if self._child is None:
                deaths += 1
                self._start()

    def _batch(self, ids: Sequence[str], edited: frozenset[str], limit: float) -> Iterator[Outcome]:
        """Until all are done, or one of them cost the worker (then `_child` is None)."""
        assert self._pipe is not None
        self._pipe.send((list(ids), edited))
        running = ids[0]
        while True:
            message = self._receive(limit)
            if message is None:
                why = f"no answer within {limit:g} s: the shader hangs, or compiles for too long"
            elif message[0] == "died":
                why = f"the process died ({message[1]}): the driver crashed"
            elif message[0] == "end":
                _, id, status, reason, templates = message
                yield Outcome(id, status, reason, templates)
                if "DeviceLostError" in reason:
                    self._end()
                    return
                continue
            elif message[0] == "done":
                return
            else:
                running = message[1]
                continue
            self._end()
            yield Outcome(running, "fail", why)
            return

    def _receive(self, limit: float) -> tuple[Any, ...] | None:
        assert self._pipe is not None and self._child is not None
        try:
            if not self._pipe.poll(limit):
                return None
            message: tuple[Any, ...] = self._pipe.recv()
            return message
        except (EOFError, OSError):
            self._child.join(5.0)
            return ("died", _exit_text(self._child.exitcode))

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._child = context.Process(
            target=serve, args=(theirs, self.selection, self.device), daemon=True
        )
        self._child.start()
        theirs.close()
        self.starts += 1
        message = self._receive(START_SECONDS)
        if message is not None and message[0] == "ready":
            self.lines = message[1]
            return
        self._end()
        if message is not None and message[0] == "refused":
            raise UsageError(message[1])
        state = "hangs" if message is None else f"died ({message[1]})"
        raise DeviceError(
            f"the process that watches shaders on {self.device} {state} while it opens the device; "
            "see whether `wggml devices` works"
        )

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child.close()
        if self._pipe is not None:
            self._pipe.close()
        self._child = self._pipe = None

    def close(self) -> None:
        self._end()


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        import signal

        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
