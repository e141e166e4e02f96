"""`Engine`: the one thread that computes.

The window hands it commands and reads snapshots; it never waits for it. Long work is a job, a
generator that yields between short submits, so that several jobs share the thread and a command
is never far from its turn.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator

from wggml.errors import WggmlError

Command = Callable[[], None]
Job = Iterator[None]

JOIN_SECONDS = 20.0
"""How long closing waits for the submit in flight; a driver that hangs must not keep the window."""


class Engine:
    """Runs commands in order and jobs in turns, on one daemon thread.

    Everything that touches a compute device does so on this thread. `errors` holds the message of
    the last command or job that failed, by its name.
    """

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        self._commands: queue.SimpleQueue[tuple[str, Command]] = queue.SimpleQueue()
        self._jobs: dict[str, Job] = {}
        self._closers: list[Command] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wggml engine", daemon=True)
        self._in_command = False
        self.changes = 0  # grows with every turn: the window redraws while it does

    def start(self) -> None:
        self._thread.start()

    # ---- called by the window -----------------------------------------------------------------

    def post(self, name: str, command: Command) -> None:
        """Have `command` run on the engine's thread; `name` says whose errors its errors are."""
        self._commands.put((name, command))

    @property
    def busy(self) -> bool:
        """Whether a job or a command is under way, or one waits."""
        return bool(self._jobs) or self._in_command or not self._commands.empty()

    def is_running(self, name: str) -> bool:
        """Whether the job of that name is under way."""
        return name in self._jobs

    def stop(self) -> bool:
        """End all jobs, run the closers and join; False where the thread does not end in time."""
        self._stopping.set()
        self.post("engine", lambda: None)
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)
        return not self._thread.is_alive()

    # ---- called on the engine's thread ----------------------------------------------------------

    def stopping(self) -> bool:
        """Whether the window closes: what computes asks this to stop early."""
        return self._stopping.is_set()

    def start_job(self, name: str, job: Job) -> None:
        """Add a job; one of the same name is ended first."""
        self.end_job(name)
        self.errors.pop(name, None)
        self._jobs[name] = job

    def end_job(self, name: str) -> None:
        """End a job where it stands; its `finally` blocks run."""
        job = self._jobs.pop(name, None)
        if job is not None:
            job.close()  # type: ignore[attr-defined]

    def on_close(self, closer: Command) -> None:
        """Have `closer` run at the end, the last one added first."""
        self._closers.append(closer)

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._run_commands()
            for name, job in list(self._jobs.items()):
                if self._jobs.get(name) is job:
                    self._guard(name, lambda name=name, job=job: self._advance(name, job))  # type: ignore[misc]
        for name in list(self._jobs):
            self._guard(name, lambda name=name: self.end_job(name))  # type: ignore[misc]
        for closer in reversed(self._closers):
            self._guard("engine", closer)

    def _run_commands(self) -> None:
        """All that wait; blocks for the first one where no job is under way."""
        try:
            name, command = self._commands.get(block=not self._jobs)
            while not self._stopping.is_set():
                self._in_command = True
                self._guard(name, command)
                name, command = self._commands.get(block=False)
        except queue.Empty:
            pass
        finally:
            self._in_command = False

    def _advance(self, name: str, job: Job) -> None:
        try:
            next(job)
        except StopIteration:
            self._jobs.pop(name, None)
        time.sleep(0)  # let the window have the interpreter between two turns

    def _guard(self, name: str, command: Command) -> None:
        """Run it; what it raises becomes the message of `name` and ends its job."""
        try:
            command()
        except WggmlError as error:
            self._failed(name, str(error))
        except Exception as error:
            logging.getLogger(__name__).exception("%s failed", name)
            self._failed(name, f"{type(error).__name__}: {error}")
        self.changes += 1

    def _failed(self, name: str, message: str) -> None:
        self._jobs.pop(name, None)
        self.errors[name] = message
