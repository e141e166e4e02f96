"""The window itself, with real keys and a real mouse on a display without a screen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import find_adapter
from tests.demo.session import REPO, Session, missing
from tests.demo.strokes import DIGITS
from wggml.demo.window import import_toolkit
from wggml.errors import UsageError

needs_display = pytest.mark.skipif(bool(missing()), reason=missing() or "there")

BLOCKED_MS = 400.0
"""A frame that takes longer is a window that waits for the engine: on a machine that is busy with
other things all frames are slow, but a graph or a load would hold it up for seconds."""


def require_lavapipe() -> None:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")


@needs_display
def test_a_session_through_every_tab(tmp_path: Path, tiny_model: Callable[[str], Path]):
    require_lavapipe()
    model = str(tiny_model("llama"))
    with Session(tmp_path, "--device", "lavapipe", "--model", model) as s:
        s.place("think.ready", 120)
        s.click("think.input")
        s.type("abc")
        s.key("Return")
        s.place("think.token.1.3", 120)
        s.point("think.token.1.2")
        s.click("think.candidate.3")
        s.place("think.token.1.5", 120)
        s.click("think.xray")
        s.place("think.attention", 120)
        s.click("think.view.Layers")
        s.click("theme")
        s.tab("Machine")
        s.click("machine.layers", 0.3)
        s.xdo("windowsize", s.xdo_window(), 900, 620)  # resize while it computes
        s.tab("Digits")
        s.click("digits.start")
        x, y, w, h = s.place("digits.canvas")
        for stroke in DIGITS[0]:
            s.stroke([(x + a * w, y + b * h) for a, b in stroke])
        s.wait(lambda state: "digits.is.0" in state["places"], "a guess", 120)
        s.click("digits.stop")
        s.tab("Upscale")
        s.tab("Shaders")
        s.xdo("windowminimize", s.xdo_window())
        s.xdo("windowmap", s.xdo_window())
        s.xdo("windowfocus", s.xdo_window())  # no window manager does it here
        s.tab("Think")
        assert s.close() == 0, s.stderr()
    frames = s.frames()
    busy = [f for f in frames[10:] if f["busy"] and f["tokens"]]
    assert len(busy) > 20 and frames[-1]["tokens"] >= 4
    late = sorted(f["dt"] for f in busy)
    assert late[int(0.95 * len(late))] < BLOCKED_MS


@needs_display
def test_opens_and_closes_again_and_again(tmp_path: Path):
    require_lavapipe()
    code = (
        "import gc, sys, threading\n"
        "from wggml.demo.app import App, Options\n"
        "from wggml.llama import peak_rss\n"
        "sizes = []\n"
        "for i in range(6):\n"
        "    App(Options(device='lavapipe', seconds=0.3)).run()\n"
        "    gc.collect()\n"
        "    sizes.append(int(open('/proc/self/statm').read().split()[1]) * 4096)\n"
        "left = [t.name for t in threading.enumerate() if t.name.startswith('wggml')]\n"
        "print(sizes, left)\n"
        "sys.exit(bool(left) or sizes[-1] - sizes[2] > 60e6)\n"
    )
    with Session(tmp_path, command=[sys.executable, "-c", code]) as s:
        assert s.window.wait(150) == 0, s.stderr()


def run_demo(env: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wggml", "demo", "--model", "none", *flags],
        capture_output=True, text=True, timeout=100, cwd=REPO, env=env,
    )  # fmt: skip


@pytest.mark.parametrize("display", ["", ":987"])
def test_no_display_is_one_line(display: str):
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    if display:
        env["DISPLAY"] = display
    done = run_demo(env)
    assert done.returncode == 2
    lines = [x for x in done.stderr.splitlines() if "XDG_RUNTIME_DIR" not in x]
    assert len(lines) == 1 and "display" in lines[0] and "wggml run" in lines[0]


@pytest.mark.parametrize("name", ["imgui_bundle", "glfw"])
def test_missing_extra_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'wggml\[demo\]'"):
        import_toolkit()


def test_no_driver_is_one_line():
    from wggml.demo.window import window_adapter
    from wggml.errors import DeviceError
    from wggml.hal.registry import default_registry

    cpu = default_registry().cpu()
    with pytest.raises(DeviceError, match="mesa-vulkan-drivers"):
        window_adapter(cpu, [cpu])


@pytest.mark.parametrize("size", ["big", "100x800", "1280", "1280x-3"])
def test_bad_size(size: str):
    from wggml.cli.demo import parse_size

    with pytest.raises(UsageError, match="WIDTHxHEIGHT"):
        parse_size(size)
    assert parse_size("900x620") == (900, 620)
