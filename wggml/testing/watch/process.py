"""`Process`: the worker seen from outside. It may hang or die; this side never does."""

from __future__ import annotations

import multiprocessing
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

    def run(self, id: str, edited: frozenset[str], limit: float) -> Outcome:
        """The verdict on a case, after compiling anew what was rendered from the templates
        `edited`. A case that takes longer than `limit` seconds, or takes the worker down, fails,
        and the worker is started again."""
        assert self._pipe is not None
        try:
            self._pipe.send((id, edited))
        except OSError:  # it died since the last case
            self._restart()
            self._pipe.send((id, edited))
        message = self._receive(limit)
        if message is not None and message[0] == "end":
            _, status, reason, templates = message
            if "DeviceLostError" in reason:
                self._restart()
            return Outcome(id, status, reason, templates)
        self._restart()
        if message is None:
            why = f"no answer within {limit:g} s: the shader hangs, or compiles for too long"
        else:
            why = f"the process died ({message[1]}): the driver crashed"
        return Outcome(id, "fail", why)

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

    def _restart(self) -> None:
        self._end()
        self._start()

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
