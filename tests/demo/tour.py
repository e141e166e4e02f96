"""The pictures of docs/demo.md, and how evenly the window drew meanwhile:

    python -m tests.demo.tour [PART ...]

Needs Xvfb, xdotool and imagemagick. Prints figures; writes docs/images.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.demo.session import REPO, Session
from tests.demo.strokes import DIGITS

IMAGES = REPO / "docs" / "images"


def shoot(s: Session, name: str, *how: str, ending: str = "png") -> None:
    """The screen as docs/images/demo-NAME; `how` are imagemagick's settings for a small file."""
    time.sleep(0.6)
    raw = s.folder / "screen.png"
    s.screenshot(raw)
    path = IMAGES / f"demo-{name}.{ending}"
    subprocess.run(["convert", str(raw), *(how or ("-colors", "250")), str(path)], check=True)


def think(s: Session) -> None:
    s.place("think.ready", 90)
    s.click("think.input")
    s.type("What is the capital of France? Tell me about it.")
    s.key("Return")
    s.place("think.token.1.6", 60)
    time.sleep(4)
    if "think.stop" in s.state()["places"]:
        s.click("think.stop")
    s.click("think.xray")
    s.place("think.attention", 30)
    s.click("think.layer", 0.45)
    s.click("think.input")
    s.type("And of Spain?")
    s.key("Return")
    s.place("think.token.3.8", 60)
    s.point("think.token.1.4")
    shoot(s, "think")
    s.click("think.candidate.1")
    time.sleep(2)
    s.click("think.view.Layers")
    s.click("theme")
    shoot(s, "layers-light")
    s.click("theme")
    s.click("think.xray")


def machine(s: Session) -> None:
    s.tab("Think")
    s.place("think.ready", 90)
    s.click("think.input")
    s.type("Tell me a story.")
    s.key("Return")
    time.sleep(1.5)
    s.tab("Machine")
    s.click("machine.layers", 0.7)
    time.sleep(5)
    x, y, w, _ = s.place("machine.splits")
    s.xdo("mousemove", int(x + w * 0.3), int(y + 84))
    shoot(s, "machine")


def digits(s: Session) -> str:
    s.tab("Digits")
    s.click("digits.start")
    time.sleep(12)
    right = {}
    for digit, strokes in DIGITS.items():
        x, y, w, h = s.place("digits.canvas")
        for stroke in strokes:
            s.stroke([(x + a * w, y + b * h) for a, b in stroke])
        time.sleep(0.8)
        right[digit] = f"digits.is.{digit}" in s.state()["places"]
        if digit == 3:
            shoot(s, "digits")
        s.click("digits.clear")
    s.click("digits.stop")
    return f"{sum(right.values())} of 10 right"


def shaders(s: Session) -> None:
    s.tab("Shaders")
    s.place("shaders.measured", 60)
    s.click("shaders.code", 0.4, 0.44)
    s.key("End")
    s.type(" let x = ;")
    s.place("shaders.failed", 30)
    shoot(s, "shaders")


def upscale(s: Session) -> None:
    s.tab("Upscale")
    s.click("upscale.sample")
    s.place("upscale.done", 60)
    shoot(s, "upscale", "-quality", "88", ending="jpg")


def figures(frames: list[dict[str, Any]], what: str) -> None:
    """How long frames took while the engine computed."""
    dts = sorted(f["dt"] for f in frames if f["busy"])
    if dts:
        print(
            f"{what}: {len(dts)} frames, median {dts[len(dts) // 2]:.0f} ms, 99 % below "
            f"{dts[int(0.99 * (len(dts) - 1))]:.0f} ms, longest {dts[-1]:.0f} ms, "
            f"{sum(d > 100 for d in dts)} over 100 ms"
        )


def main(*parts: str) -> None:
    steps = {"think": think, "machine": machine, "digits": digits, "shaders": shaders,
             "upscale": upscale}  # fmt: skip
    IMAGES.mkdir(exist_ok=True)
    with Session(Path(tempfile.mkdtemp()), "--device", "lavapipe") as s:
        for name in parts or steps:
            print(name, steps[name](s) or "")
        print(f"closed with exit code {s.close()}")
    frames = s.frames()
    for tab in ("Think", "Machine", "Digits", "Shaders", "Upscale"):
        figures([f for f in frames if f["tab"] == tab and f["t"] > 3], tab)
    figures([f for f in frames if f["tokens"] and f["tab"] in ("Think", "Machine")], "tokens flow")


if __name__ == "__main__":
    main(*sys.argv[1:])
