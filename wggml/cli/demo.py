"""`wggml demo`: the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wggml.cli.flags import FlagCommand, flag

TABS = ("think", "machine", "digits", "upscale", "shaders")


# fmt: off
@click.command(cls=FlagCommand, short_help="Open a window onto the live engine.")
@flag("--model", metavar="MODEL", default="smollm2",
      help="A .gguf file or a known name for the Think and Machine tabs; none = ask for a file.")
@flag("-dev", "--device", metavar="NAME|INDEX",
      help="Device by index or part of its name (see `wggml devices`).")
@flag("--theme", type=click.Choice(("dark", "light")), default="dark", help="Colours.")
@flag("--tab", type=click.Choice(TABS), default="think", help="The tab to open first.")
@flag("--size", metavar="WxH", default="1280x800", help="Size of the window in logical pixels.")
@flag("--frame-log", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
      help="Append the time of every frame to FILE, one JSON line each.")
@flag("--places", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
      help="Keep in FILE where the controls are, for scripts that drive the window.")
@flag("--seconds", type=click.FloatRange(min=0.1), metavar="S", help="Close after S seconds.")
def demo(**o: Any) -> None:
    """Chat with a model and look inside it, watch its memory and its split over devices, train a
    net on digits you draw, enlarge pictures, edit shaders: one window, the engine live behind it.

    Needs the extra: pip install 'wggml[demo]'.
    """
    from wggml.cli.environment import prepare_environment

    prepare_environment()
    size = parse_size(o["size"])
    app = load_app()
    model = None
    if o["model"] != "none":
        from wggml.hub import resolve_model

        model = resolve_model(o["model"], progress=True)
    app.run_demo(app.Options(
        model=model, device=o["device"], dark=o["theme"] == "dark", tab=o["tab"], size=size,
        frame_log=o["frame_log"], places=o["places"], seconds=o["seconds"],
    ))
# fmt: on


def load_app() -> Any:
    """The window's module. Raises `UsageError` where a package or a display is missing, before a
    model is fetched for nothing."""
    from wggml.demo.window import import_toolkit

    import_toolkit()
    from wggml.demo import app

    return app


def parse_size(text: str) -> tuple[int, int]:
    """`1280x800` as numbers. Raises `UsageError`."""
    from wggml.errors import UsageError

    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit()) or min(int(width), int(height)) < 200:
        raise UsageError(f"--size must be WIDTHxHEIGHT of at least 200 each, got {text!r}")
    return int(width), int(height)
