"""`ShaderLab`: edited copies of an op's templates, and the process that judges them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wggml.backends.wgpu.templates import path_of, shader_dir

OPS = (
    "SOFT_MAX", "RMS_NORM", "NORM", "MUL_MAT", "ROPE", "SILU", "GELU", "ADD", "MUL", "SCALE",
    "SWIGLU", "GET_ROWS", "SET_ROWS", "CPY", "SUM_ROWS", "CUMSUM", "ARGSORT", "UPSCALE",
)  # fmt: skip
"""Ops that are offered: those with a shape for measuring."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case: `pass`, `fail` or `unsupported`, and what was wrong."""

    title: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class ShaderState:
    """What the tab draws. templates: files the op's shaders are rendered from. speed: GFLOP/s,
    GB/s and seconds of `shape`, None before they were measured."""

    op: str = ""
    working: bool = False
    templates: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    seconds: float = 0.0
    speed: tuple[float, float, float] | None = None
    shape: str = ""
    error: str = ""
    version: int = 0

    @property
    def n_failed(self) -> int:
        return sum(v.status == "fail" for v in self.verdicts)


class ShaderLab:
    """Starts the worker for an op; `state` is what it said last. Its threads end with `close`."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.state = ShaderState()
        self._folder: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def _publish(self, **changes: Any) -> None:
        with self._lock:
            self.state = replace(self.state, version=self.state.version + 1, **changes)

    def choose(self, op: str) -> None:
        """Judge the shaders of another op; edits made before are forgotten."""
        self.close()
        self._folder = Path(tempfile.mkdtemp(prefix="wggml-shaders-"))
        # all of them: a template is looked up once, so that a copy made later would not be seen
        shutil.copytree(shader_dir(), self._folder, dirs_exist_ok=True)
        self._publish(
            op=op, working=True, templates=(), verdicts=(), speed=None, shape="", error=""
        )
        env = {**os.environ, "WGGML_SHADERS": str(self._folder), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wggml.demo.shader_worker", op, self.device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=env,
        )  # fmt: skip
        threading.Thread(
            target=self._listen, args=(self._process,), name="wggml shaders", daemon=True
        ).start()

    def original(self, template: str) -> str:
        """The template as it is in the package."""
        path = path_of(template)
        return path.read_text("utf-8") if path is not None else ""

    def write(self, template: str, text: str) -> None:
        """Put an edited template where the worker looks first."""
        if self._folder is None:
            return
        path = self._folder / template
        path.write_text(text, "utf-8")
        self._publish(working=True)

    def close(self) -> None:
        """End the worker and remove the copies."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if process is not self._process:
                return
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a driver that prints
            self._take(message)
        if process is self._process:
            self._publish(working=False, error=self.state.error or "the worker ended; choose again")

    def _take(self, m: dict[str, Any]) -> None:
        if m["kind"] == "refused":
            self._publish(working=False, error=m["message"])
        elif m["kind"] == "round":
            if not m["outcomes"]:
                return
            verdicts = tuple(Verdict(**o) for o in m["outcomes"])
            changes: dict[str, Any] = {"templates": tuple(m["templates"])} if m["templates"] else {}
            self._publish(
                verdicts=verdicts, seconds=m["seconds"], speed=None,
                working=all(v.status != "fail" for v in verdicts), **changes,
            )  # fmt: skip
        elif m["kind"] == "speed":
            if m.get("reason"):
                self._publish(working=False, shape=m["reason"])
            else:
                speed = (m["flops"] / 1e9, m["bytes"] / 1e9, m["seconds"])
                self._publish(working=False, shape=m["title"], speed=speed)
