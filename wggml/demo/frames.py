"""How evenly the window drew: a record of every frame."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from wggml.errors import UsageError

KEPT = 240
SHOWN_SECONDS = 1.0


@dataclass(slots=True)
class FrameLog:
    """Times of frames in milliseconds; written as JSON lines to `path` where there is one.

    A line: `t` seconds since the start, `dt` since the frame before, `ui` for building it, `busy`
    whether the engine computed, `tokens` how many tokens there were, `tab`.
    """

    path: Path | None = None
    shown: str = ""  # frames a second in words, changing rarely: each change is drawn
    recent: list[float] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)
    _last: float = 0.0
    _shown_at: float = 0.0
    _lines: list[str] = field(default_factory=list)

    def frame(self, *, ui_ms: float, busy: bool, tokens: int, tab: str) -> None:
        now = time.perf_counter() - self._start
        dt = (now - self._last) * 1e3 if self._last else 0.0
        self._last = now
        self.recent.append(dt)
        del self.recent[:-KEPT]
        if now - self._shown_at > SHOWN_SECONDS:
            self.shown, self._shown_at = f"{self.fps:.0f} fps", now
        if self.path is not None:
            row = {
                "t": round(now, 4), "dt": round(dt, 2), "ui": round(ui_ms, 2), "busy": busy,
                "tokens": tokens, "tab": tab,
            }  # fmt: skip
            self._lines.append(json.dumps(row))
            if len(self._lines) >= KEPT:
                self.flush()

    @property
    def fps(self) -> float:
        """Frames a second over the last half second or so."""
        last = self.recent[-30:]
        total = sum(last)
        return 1e3 * len(last) / total if total else 0.0

    def flush(self) -> None:
        """Write what has been collected."""
        if self.path is None or not self._lines:
            return
        text = "\n".join(self._lines) + "\n"
        self._lines.clear()
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(
                f"cannot write the frame log {self.path}: {error.strerror}; give another path"
            ) from error
