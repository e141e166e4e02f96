"""A window driven from outside: an X server without a screen, real keys and a real mouse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

REPO = Path(__file__).resolve().parents[2]
HAND_STEP = 24
"""Pixels between two places of a hand that draws."""

NEEDED = ("Xvfb", "xdotool")


def missing() -> str:
    """What the session lacks on this machine, in words; empty where it can run."""
    gone = [name for name in NEEDED if shutil.which(name) is None]
    return f"{' and '.join(gone)} not installed" if gone else ""


class Session:
    """`wggml demo` under Xvfb.

    `places` are the rectangles of controls as the window last reported them; one that is not
    there yet is waited for.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        size: tuple[int, int] = (1280, 800),
        command: list[str] | None = None,
    ) -> None:
        self.folder = folder
        self.places_file = folder / "places.json"
        self.log = folder / "frames.jsonl"
        self.size = size
        self.display = self._start_server(size)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(REPO),
            "DISPLAY": self.display,
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.env.pop("WAYLAND_DISPLAY", None)
        self.errors = (folder / "stderr.txt").open("w")
        default = [
            sys.executable, "-m", "wggml", "demo", "--size", f"{size[0]}x{size[1]}",
            "--places", str(self.places_file), "--frame-log", str(self.log), *flags,
        ]  # fmt: skip
        self.window = subprocess.Popen(
            command or default, cwd=REPO, env=self.env, stderr=self.errors
        )

    def _start_server(self, size: tuple[int, int]) -> str:
        read, write = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{size[0]}x{size[1]}x24",
             "-nolisten", "tcp"],
            pass_fds=[write], stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(write)
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        return f":{number}"

    # ---- looking --------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.places_file.read_text()))
        except (OSError, ValueError):
            return {"tab": "", "places": {}}

    def wait(self, until: Callable[[dict[str, Any]], bool], what: str, seconds: float = 60) -> None:
        """Wait until the window's report says so."""
        end = time.monotonic() + seconds
        while not until(self.state()):
            assert self.window.poll() is None, f"the window ended: {self.stderr()}"
            assert time.monotonic() < end, f"waited {seconds} s for {what}: {self.state()}"
            time.sleep(0.05)

    def place(self, name: str, seconds: float = 60) -> tuple[float, float, float, float]:
        self.wait(lambda s: name in s["places"], name, seconds)
        x, y, w, h = self.state()["places"][name]
        return x, y, w, h

    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text()[-2000:]

    def frames(self) -> list[dict[str, Any]]:
        """All frames of the log; after `close`."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def screenshot(self, path: Path) -> None:
        subprocess.run(["import", "-window", "root", str(path)], env=self.env, check=True)

    # ---- doing ------------------------------------------------------------

    def xdo(self, *words: object) -> None:
        subprocess.run(["xdotool", *map(str, words)], env=self.env, check=True)

    def xdo_window(self) -> str:
        """The window's id."""
        found = subprocess.run(
            ["xdotool", "search", "--name", "wggml"],
            env=self.env, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return found.stdout.split()[0]

    def point(self, name: str, fx: float = 0.5, fy: float = 0.5) -> None:
        x, y, w, h = self.place(name)
        self.xdo("mousemove", round(x + w * fx), round(y + h * fy))
        time.sleep(0.1)

    def click(self, name: str, fx: float = 0.5, fy: float = 0.5) -> None:
        self.point(name, fx, fy)
        self.xdo("mousedown", 1)
        time.sleep(0.12)
        self.xdo("mouseup", 1)
        time.sleep(0.12)

    def type(self, text: str) -> None:
        self.xdo("type", "--delay", 40, text)

    def key(self, key: str) -> None:
        self.xdo("key", key)

    def tab(self, name: str) -> None:
        self.click(f"tab.{name}")
        self.wait(lambda s: s["tab"] == name, f"tab {name}")

    def stroke(self, points: list[tuple[float, float]]) -> None:
        """Draw with the button held, through points of the screen."""
        self.xdo("mousemove", *map(round, points[0]))
        self.xdo("mousedown", 1)
        for (x0, y0), (x1, y1) in pairwise(points):
            n = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / HAND_STEP))
            for i in range(1, n + 1):  # a hand does not jump: a frame sees one place of the mouse
                x, y = x0 + (x1 - x0) * i / n, y0 + (y1 - y0) * i / n
                self.xdo("mousemove", round(x), round(y))
                time.sleep(0.012)
            time.sleep(0.03)
        self.xdo("mouseup", 1)
        time.sleep(0.1)

    def close(self) -> int:
        """Close as a person does (Ctrl-Q), and return the exit code."""
        if self.window.poll() is None:
            self.xdo("key", "ctrl+q")
        try:
            return self.window.wait(60)
        finally:
            self.end()

    def end(self) -> None:
        for process in (self.window, self.server):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
        self.errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self.end()
