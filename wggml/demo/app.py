"""`App`: the frame around the tabs, and the life of window and engine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from imgui_bundle import imgui

from wggml.demo import theme
from wggml.demo.chat_engine import ChatEngine
from wggml.demo.engine import Engine
from wggml.demo.frames import FrameLog
from wggml.demo.theme import BIG, BODY, SMALL, mix, u32
from wggml.demo.ui import FOOT, GAP, RAIL, Icon, Ui
from wggml.demo.window import Window, window_adapter
from wggml.hal.interface import Device
from wggml.hal.registry import Registry, default_registry

PLACES_SECONDS = 0.2
IDLE_SECONDS = 0.1
SWITCH_SECONDS = 0.0002
"""How long a thread keeps the interpreter while another waits. Each call into the graphics library
gives it up, some sixty a frame; 5 ms for each (Python's) would show while the engine plans."""


class Tab(Protocol):
    """A page of the window."""

    name: str
    icon: str

    def draw(self, ui: Ui, width: float, height: float) -> None:
        """Draw into the current window, `width` by `height` logical pixels."""

    def status(self) -> str:
        """A few words for the foot of the window; empty for none."""

    def drop(self, path: Path) -> bool:
        """Take a dropped file; False where it is none of this tab's."""


@dataclass(slots=True, kw_only=True)
class Options:
    """What the command line says."""

    model: Path | None = None
    device: str | None = None
    dark: bool = True
    size: tuple[int, int] = (1280, 800)
    tab: str = ""
    frame_log: Path | None = None
    places: Path | None = None
    seconds: float | None = None


class App:
    """A window with its engine; `run` returns when it is closed."""

    def __init__(self, options: Options, registry: Registry | None = None) -> None:
        self.options = options
        self.registry = registry or default_registry()
        self.device = choose_device(options.device, self.registry)
        adapter = window_adapter(self.device, self.registry.devices())
        self.window = Window(adapter, title="wggml", size=options.size, on_drop=self._dropped)
        self.engine = Engine()
        self.chat = ChatEngine(self.engine, options.device or self.device.name)
        self.frames = FrameLog(options.frame_log)
        self.ui = Ui(self.window, theme.load_fonts(), theme.DARK if options.dark else theme.LIGHT)
        theme.apply(self.ui.p)
        self.closers: list[Callable[[], None]] = []
        self.tabs: list[Tab] = self._make_tabs()
        names = [t.name.lower() for t in self.tabs]
        self.current = names.index(options.tab) if options.tab in names else 0
        self._started = time.perf_counter()
        self._places_at = 0.0
        self._moved = 0.0

    def _make_tabs(self) -> list[Tab]:
        from wggml.demo.tabs import make_tabs

        return make_tabs(self)

    def run(self) -> None:
        """Show the window until it is closed."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self.window.pace = self._pace
        self.engine.start()
        if self.options.model is not None:
            self.chat.load(self.options.model)
        try:
            self.window.run(self._draw)
        finally:
            self.close()
            sys.setswitchinterval(before)

    def close(self) -> None:
        """End the engine, then the window's device."""
        for closer in self.closers:
            closer()
        self.engine.stop()
        self.window.free()
        self.frames.flush()

    # ---- what happens -------------------------------------------------------------------------

    def _pace(self) -> float:
        """Seconds until the next frame: none while a person moves things or the engine computes."""
        now = time.perf_counter()
        io = imgui.get_io()
        if io.mouse_delta.x or io.mouse_delta.y or io.mouse_wheel or imgui.is_any_item_active():
            self._moved = now
        if now - self._moved < 0.3:
            return 0.0
        return 0.0 if self.engine.busy else IDLE_SECONDS

    def _dropped(self, paths: Sequence[Path]) -> None:
        order = [self.tabs[self.current], *self.tabs]
        for path in paths:
            for tab in order:
                if tab.drop(path):
                    self.current = self.tabs.index(tab)
                    break

    def _draw(self) -> None:
        start = time.perf_counter()
        ui, p = self.ui, self.ui.p
        ui.places.clear()
        self._keys()
        size = imgui.get_io().display_size
        imgui.set_next_window_pos((0, 0))
        imgui.set_next_window_size((size.x, size.y))
        flags = (
            imgui.WindowFlags_.no_decoration | imgui.WindowFlags_.no_move
            | imgui.WindowFlags_.no_background
            | imgui.WindowFlags_.no_saved_settings | imgui.WindowFlags_.no_bring_to_front_on_focus
            | imgui.WindowFlags_.no_nav
        )  # fmt: skip
        imgui.begin("wggml", None, flags)
        self.window.renderer.back = theme.rgba(p.back)
        self._rail(size.y)
        width, height = size.x - RAIL - 2 * GAP, size.y - FOOT - GAP
        if width > 50 and height > 50:
            imgui.set_cursor_pos((RAIL + GAP, GAP))
            imgui.push_style_color(imgui.Col_.child_bg, 0)
            imgui.begin_child("page", (width, height), 0, imgui.WindowFlags_.no_scrollbar)
            imgui.pop_style_color()
            self.tabs[self.current].draw(ui, width, height - GAP)
            imgui.end_child()
        self._foot(size.x, size.y)
        imgui.end()
        self._after(start)

    def _keys(self) -> None:
        io = imgui.get_io()
        if io.key_ctrl:
            for i in range(len(self.tabs)):
                if imgui.is_key_pressed(imgui.Key(imgui.Key._1.value + i), False):
                    self.current = i

    def _rail(self, height: float) -> None:
        ui, p, draw = self.ui, self.ui.p, imgui.get_window_draw_list()
        draw.add_rect_filled((0, 0), (RAIL, height), u32(p.panel))
        draw.add_line((RAIL, 0), (RAIL, height), u32(p.border), 1.0)
        ui.draw_text(RAIL / 2, 15, "w", size=BIG, face=ui.fonts.bold, colour=p.accent, align=0.5)
        for i, tab in enumerate(self.tabs):
            y = 58 + i * 64.0
            imgui.set_cursor_pos((6, y))
            if imgui.invisible_button(f"##tab{i}", (RAIL - 12, 56)):
                self.current = i
            ui.place(f"tab.{tab.name}")
            lit, over = i == self.current, imgui.is_item_hovered()
            if lit or over:
                fill = p.raised if lit else mix(p.panel, p.raised, 0.5)
                draw.add_rect_filled((6, y), (RAIL - 6, y + 56), u32(fill), 8.0)
            colour = p.accent if lit else (p.text if over else p.dim)
            ui.draw_text(RAIL / 2, y + 9, tab.icon, size=BODY * 1.2, colour=colour, align=0.5)
            ui.draw_text(
                RAIL / 2, y + 35, tab.name, size=SMALL * 0.9, align=0.5,
                colour=p.text if lit else p.dim,
            )  # fmt: skip
        imgui.set_cursor_pos((6, height - 50))
        if imgui.invisible_button("##theme", (RAIL - 12, 40)):
            ui.p = theme.LIGHT if ui.dark else theme.DARK
            theme.apply(ui.p)
        ui.place("theme")
        colour = p.text if imgui.is_item_hovered() else p.dim
        ui.draw_text(
            RAIL / 2, height - 38, Icon.SUN if ui.dark else Icon.MOON, size=BODY, colour=colour,
            align=0.5,
        )  # fmt: skip

    def _foot(self, width: float, height: float) -> None:
        ui, p = self.ui, self.ui.p
        y = height - FOOT + 5
        left = RAIL + GAP + 4
        device = self.device.description
        ui.draw_text(left, y, device, colour=p.dim)
        words = self.tabs[self.current].status()
        if words:
            ui.draw_text(left + ui.width(device, size=SMALL) + 24, y, words, colour=p.dim)
        ui.draw_text(
            width - GAP - 4, y, self.frames.shown, colour=p.faint, align=1.0,
            face=ui.fonts.mono,
        )  # fmt: skip

    def _after(self, start: float) -> None:
        now = time.perf_counter()
        tab = self.tabs[self.current]
        self.frames.frame(
            ui_ms=(now - start) * 1e3, busy=self.engine.busy, tokens=self.tokens(), tab=tab.name
        )
        if self.options.places is not None and now - self._places_at > PLACES_SECONDS:
            self._places_at = now
            places = {k: [round(v, 1) for v in r] for k, r in self.ui.places.items()}
            temporary = self.options.places.with_suffix(".part")
            temporary.write_text(json.dumps({"tab": tab.name, "places": places}), "utf-8")
            temporary.replace(self.options.places)
        if self.options.seconds is not None and now - self._started > self.options.seconds:
            self.window.close()

    def tokens(self) -> int:
        """Tokens generated so far, over all tabs."""
        return sum(int(getattr(tab, "n_tokens", 0)) for tab in self.tabs)


def choose_device(wanted: str | None, registry: Registry) -> Device:
    """The device to compute on: the named one, else the best GPU, else the best software adapter
    (the window shows the GPU path), else the CPU."""
    if wanted is not None:
        return registry.find(wanted)
    return registry.devices()[0]


def run_demo(options: Options) -> None:
    """Open the window and stay until it is closed. Raises `UsageError` or `DeviceError` where it
    cannot open."""
    from wggml.demo.window import import_toolkit

    import_toolkit()
    App(options).run()
