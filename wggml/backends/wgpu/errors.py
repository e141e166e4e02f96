"""Errors that arrive outside of any call: caught from the log, raised at the next chance.

wgpu-py raises what goes wrong inside a call. What the driver reports later (a lost device, an error
of a call made past the public API) it can only log. `trap` collects such records for
`raise_pending`, so that a broken run never looks like a finished one.
"""

from __future__ import annotations

import logging

from wggml.backends.wgpu.implementation import module, translate


class ErrorTrap(logging.Handler):
    """Keeps error records of the WebGPU package's logger.

    Only those of its error handler: the native library also logs, as errors, what it finds out
    while it looks for drivers.
    """

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.funcName == "log_error":
            self.messages.append(record.getMessage())

    def raise_pending(self, doing: str, device_name: str) -> None:
        """Raise what has been logged since the last call, as one error of ours."""
        if self.messages:
            text = "\n".join(self.messages)
            self.messages.clear()
            raise translate(RuntimeError(text), doing, device_name)


_traps: dict[str, ErrorTrap] = {}


def trap() -> ErrorTrap:
    """The process' trap for the loaded package, set up on first use."""
    name = module().__name__
    if name not in _traps:
        _traps[name] = ErrorTrap()
        logging.getLogger(name).addHandler(_traps[name])
    return _traps[name]
