"""`Ui`: the pieces that tabs are put together from, drawn in one manner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from imgui_bundle import imgui

from wggml.demo import theme
from wggml.demo.theme import BODY, SMALL, TITLE, Fonts, Palette, mix, u32
from wggml.demo.window import Window

Rect = tuple[float, float, float, float]

PAD = 16.0
GAP = 12.0
RAIL = 64.0
FOOT = 28.0


class Icon:
    """Code points of Font Awesome's solid face."""

    CHAT = "\uf086"
    CHIP = "\uf2db"
    PEN = "\uf304"
    IMAGE = "\uf03e"
    CODE = "\uf121"
    MOON = "\uf186"
    SUN = "\uf185"
    SEND = "\uf1d8"
    STOP = "\uf04d"
    PLAY = "\uf04b"
    RESET = "\uf2ea"
    ERASE = "\uf12d"
    EYE = "\uf06e"
    WARN = "\uf071"
    BRANCH = "\uf126"
    CHECK = "\uf00c"
    CROSS = "\uf00d"
    CLOCK = "\uf017"


@dataclass(slots=True)
class Series:
    """One line of a chart."""

    values: Sequence[float]
    colour: int
    label: str = ""


class Ui:
    """What a frame is drawn with. `places` are the rectangles of named things, for scripts."""

    def __init__(self, window: Window, fonts: Fonts, palette: Palette) -> None:
        self.window = window
        self.fonts = fonts
        self.p = palette
        self.places: dict[str, Rect] = {}

    @property
    def dark(self) -> bool:
        return self.p is theme.DARK

    # ---- text ---------------------------------------------------------------------------------

    @contextmanager
    def font(self, face: Any = None, size: float = BODY) -> Iterator[None]:
        imgui.push_font(face or self.fonts.text, size)
        try:
            yield
        finally:
            imgui.pop_font()

    def text(
        self,
        text: str,
        *,
        size: float = BODY,
        colour: int | None = None,
        face: Any = None,
        wrap: bool = False,
    ) -> None:
        with self.font(face, size):
            imgui.push_style_color(imgui.Col_.text, u32(self.p.text if colour is None else colour))
            if wrap:
                imgui.push_text_wrap_pos(0.0)
            imgui.text_unformatted(text)
            if wrap:
                imgui.pop_text_wrap_pos()
            imgui.pop_style_color()

    def label(self, text: str) -> None:
        """Quiet small print."""
        self.text(text, size=SMALL, colour=self.p.dim)

    def width(self, text: str, *, size: float = BODY, face: Any = None) -> float:
        with self.font(face, size):
            return float(imgui.calc_text_size(text).x)

    def draw_text(
        self, x: float, y: float, text: str, *, size: float = SMALL, colour: int | None = None,
        face: Any = None, align: float = 0.0,
    ) -> None:  # fmt: skip
        """Text at a point of the screen; `align` 1 ends it there, 0.5 centres it."""
        if align:
            x -= align * self.width(text, size=size, face=face)
        rgb = self.p.text if colour is None else colour
        imgui.get_window_draw_list().add_text(
            face or self.fonts.text, size, (round(x), round(y)), u32(rgb), text
        )

    # ---- boxes --------------------------------------------------------------------------------

    @contextmanager
    def card(
        self, name: str, width: float, height: float, title: str = "", note: str = "",
        *, scroll: bool = False,
    ) -> Iterator[Rect]:  # fmt: skip
        """A panel with a heading; yields (x, y, width, height) of its inside."""
        flags = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
        imgui.push_style_var(imgui.StyleVar_.window_padding, (PAD, PAD * 0.8))
        imgui.begin_child(name, (width, height), imgui.ChildFlags_.always_use_window_padding, flags)
        imgui.pop_style_var()
        at, size = imgui.get_window_pos(), imgui.get_window_size()
        imgui.get_window_draw_list().add_rect(
            (at.x + 0.5, at.y + 0.5), (at.x + size.x - 0.5, at.y + size.y - 0.5),
            u32(self.p.border, 0.8), 10.0,
        )  # fmt: skip
        self.places[name] = (at.x, at.y, size.x, size.y)
        if title:
            self.text(title, face=self.fonts.bold)
            if note:
                self.draw_text(
                    at.x + size.x - PAD, at.y + PAD * 0.8 + 1, note, colour=self.p.dim, align=1.0
                )
            imgui.dummy((0, 1))
        if scroll:
            imgui.begin_child(f"{name} inside", (0, 0), 0, imgui.WindowFlags_.no_background)
        try:
            at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
            yield (at.x, at.y, room.x, room.y)
        finally:
            if scroll:
                imgui.end_child()
            imgui.end_child()

    def place(self, name: str) -> None:
        """Remember where the last item is."""
        a, b = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        self.places[name] = (a.x, a.y, b.x - a.x, b.y - a.y)

    # ---- controls -----------------------------------------------------------------------------

    def button(
        self, name: str, label: str, *, primary: bool = False, enabled: bool = True,
        width: float = 0.0,
    ) -> bool:  # fmt: skip
        p = self.p
        colours = []
        if primary:
            fill = p.accent
            colours = [
                (imgui.Col_.button, fill), (imgui.Col_.button_hovered, mix(fill, p.text, 0.15)),
                (imgui.Col_.button_active, mix(fill, p.text, 0.3)), (imgui.Col_.text, p.on_accent),
            ]  # fmt: skip
        for key, rgb in colours:
            imgui.push_style_color(key, u32(rgb))
        imgui.begin_disabled(not enabled)
        pressed = imgui.button(f"{label}##{name}", (width, 0))
        imgui.end_disabled()
        if colours:
            imgui.pop_style_color(len(colours))
        self.place(name)
        return bool(pressed)

    def slider(
        self, name: str, label: str, value: float, low: float, high: float, *,
        width: float = 150.0, form: str = "{:.2f}", log: bool = False,
    ) -> tuple[bool, float]:  # fmt: skip
        """A labelled slider, its value behind it; returns (whether it moved, the value)."""
        height = imgui.get_frame_height()
        if label:
            imgui.align_text_to_frame_padding()
            self.label(label)
            imgui.same_line()
        at = imgui.get_cursor_screen_pos()
        room = self.width(form.format(high), size=SMALL, face=self.fonts.mono) + 14
        track = max(width - room, 20.0)
        imgui.invisible_button(f"##{name}", (track, height))
        self.places[name] = (at.x, at.y, track, height)
        held, over = imgui.is_item_active(), imgui.is_item_hovered()
        a, b = (np.log(low), np.log(high)) if log else (low, high)
        before = value
        if held:
            share = min(max((imgui.get_io().mouse_pos.x - at.x) / track, 0.0), 1.0)
            value = float(np.exp(a + (b - a) * share)) if log else a + (b - a) * share
        share = ((np.log(value) if log else value) - a) / ((b - a) or 1.0)
        p, draw, mid = self.p, imgui.get_window_draw_list(), at.y + height / 2
        knob = at.x + track * min(max(float(share), 0.0), 1.0)
        draw.add_rect_filled((at.x, mid - 2), (at.x + track, mid + 2), u32(p.raised), 2)
        draw.add_rect_filled((at.x, mid - 2), (knob, mid + 2), u32(p.accent), 2)
        draw.add_circle_filled((knob, mid), 7 if held or over else 6, u32(p.accent), 24)
        self.draw_text(
            at.x + track + 12, mid - SMALL / 2 - 1, form.format(value), face=self.fonts.mono,
            colour=p.text,
        )  # fmt: skip
        imgui.same_line(0, 0)
        imgui.dummy((room, height))
        return value != before, value

    def int_slider(
        self, name: str, label: str, value: int, low: int, high: int, *, width: float = 150.0,
        form: str = "{}",
    ) -> tuple[bool, int]:  # fmt: skip
        """`slider` over whole numbers."""
        whole = form.replace("{}", "{:.0f}")
        _, moved = self.slider(name, label, float(value), low, high, width=width, form=whole)
        return round(moved) != value, round(moved)

    def toggle(self, name: str, label: str, value: bool) -> bool:
        """A switch; returns the new value."""
        imgui.align_text_to_frame_padding()
        at = imgui.get_cursor_screen_pos()
        height = imgui.get_frame_height()
        w, h = 32.0, 18.0
        pressed = imgui.invisible_button(f"##{name}", (w + 8 + self.width(label), height))
        hovered = imgui.is_item_hovered()
        self.place(name)
        draw = imgui.get_window_draw_list()
        top = at.y + (height - h) / 2
        p = self.p
        fill = p.accent if value else mix(p.raised, p.text, 0.22 if hovered else 0.14)
        draw.add_rect_filled((at.x, top), (at.x + w, top + h), u32(fill), h / 2)
        knob = at.x + (w - h / 2 if value else h / 2)
        draw.add_circle_filled(
            (knob, top + h / 2), h / 2 - 3, u32(p.on_accent if value else p.text)
        )
        self.draw_text(at.x + w + 8, at.y + (height - BODY) / 2 - 1, label, size=BODY)
        return not value if pressed else value

    def segmented(self, name: str, options: Sequence[str], index: int) -> int:
        """A row of choices with one lit; returns the new index."""
        p = self.p
        for i, option in enumerate(options):
            lit = i == index
            imgui.push_style_color(imgui.Col_.button, u32(p.raised if lit else p.panel, float(lit)))
            imgui.push_style_color(imgui.Col_.text, u32(p.text if lit else p.dim))
            if imgui.button(f"{option}##{name}{i}"):
                index = i
            imgui.pop_style_color(2)
            self.place(f"{name}.{option}")
            if i + 1 < len(options):
                imgui.same_line(0, 4)
        return index

    def stats(self, items: Sequence[tuple[str, str]]) -> None:
        """Figures in a row: value above, what it is below."""
        at = imgui.get_cursor_screen_pos()
        room = imgui.get_content_region_avail().x
        step = room / max(len(items), 1)
        for i, (value, what) in enumerate(items):
            x = at.x + i * step
            self.draw_text(x, at.y, value, size=TITLE, face=self.fonts.bold)
            self.draw_text(x, at.y + TITLE + 4, what, colour=self.p.dim)
        imgui.dummy((room, TITLE + SMALL + 8))

    def notice(self, message: str, *, bad: bool = True) -> None:
        """A line that something went wrong (or a hint), wrapped, in its colour."""
        colour = self.p.bad if bad else self.p.dim
        lead = f"{Icon.WARN}  " if bad else ""
        self.text(lead + message, colour=colour, size=SMALL, wrap=True)

    # ---- pictures -----------------------------------------------------------------------------

    def picture(
        self, name: str, pixels: npt.NDArray[np.uint8], version: object, rect: Rect, *,
        smooth: bool = True, rounding: float = 4.0,
    ) -> None:  # fmt: skip
        """RGBA pixels [height, width, 4] stretched into a rectangle of the screen. Not `smooth`:
        each pixel becomes a sharp square (repeated up to the rectangle's resolution)."""
        times = 1 if smooth else int(min(max(1, rect[2] // pixels.shape[1]), 12))
        ref = self.window.image(name, pixels, version, times)
        x, y, w, h = rect
        imgui.get_window_draw_list().add_image_rounded(
            ref, (x, y), (x + w, y + h), (0, 0), (1, 1), 0xFFFFFFFF, rounding
        )

    def chart(
        self, rect: Rect, series: Sequence[Series], *, low: float, high: float,
        form: str = "{:.1f}", marks: int = 2,
    ) -> None:  # fmt: skip
        """Lines over their index, with a few horizontal marks."""
        x, y, w, h = rect
        p, draw = self.p, imgui.get_window_draw_list()
        span = (high - low) or 1.0
        for i in range(marks + 1):
            value = low + span * i / marks
            level = y + h - h * i / marks
            draw.add_line((x, level), (x + w, level), u32(p.border), 1.0)
            self.draw_text(x + w, level - SMALL - 2, form.format(value), colour=p.faint, align=1.0)
        for s in series:
            values = np.asarray(s.values, dtype=np.float64)
            n = len(values)
            if n < 2:
                continue
            if n > w:  # no more points than pixels
                values = values[np.linspace(0, n - 1, int(w)).astype(int)]
                n = len(values)
            xs = x + np.arange(n) * (w / (n - 1))
            ys = y + h - h * np.clip((values - low) / span, 0.0, 1.0)
            points: list[Any] = [(float(a), float(b)) for a, b in zip(xs, ys, strict=True)]
            draw.add_polyline(points, u32(s.colour), 2.0, 0)
        at = x
        for s in series:
            if s.label:
                draw.add_circle_filled((at + 5, y + h + 14), 4, u32(s.colour))
                self.draw_text(at + 14, y + h + 6, s.label, colour=p.dim)
                at += 14 + self.width(s.label, size=SMALL) + 16

    def bar_row(
        self, rect: Rect, label: str, share: float, value: str, *, colour: int | None = None,
        lit: bool = False, label_width: float = 110.0,
    ) -> None:  # fmt: skip
        """A labelled horizontal bar with its value at the end."""
        x, y, w, h = rect
        p, draw = self.p, imgui.get_window_draw_list()
        fill = p.accent if colour is None else colour
        value_width = 52.0
        left, right = x + label_width, x + w - value_width
        mid = y + (h - SMALL) / 2 - 1
        face = self.fonts.bold if lit else self.fonts.text
        draw.push_clip_rect((x, y), (left - 6, y + h), True)
        self.draw_text(x, mid, label, face=face)
        draw.pop_clip_rect()
        top, bottom = y + h * 0.24, y + h * 0.76
        draw.add_rect_filled((left, top), (right, bottom), u32(p.raised), 3.0)
        length = (right - left) * min(max(share, 0.0), 1.0)
        if length > 1.0:
            draw.add_rect_filled(
                (left, top), (left + length, bottom), u32(fill, 1.0 if lit else 0.6), 3.0
            )
        self.draw_text(x + w, mid, value, colour=p.dim, align=1.0, face=self.fonts.mono)


def heat_rgba(
    values: npt.NDArray[Any], low: int, mid: int, high: int, alpha: float = 1.0
) -> npt.NDArray[np.uint8]:
    """Values in 0..1, any shape [h, w], as RGBA from colour `low` over `mid` to `high`."""
    table = np.empty((256, 4), np.uint8)
    for i in range(256):
        s = i / 255
        rgb = mix(low, mid, 2 * s) if s < 0.5 else mix(mid, high, 2 * s - 1)
        table[i] = (rgb >> 16, (rgb >> 8) & 255, rgb & 255, int(alpha * 255))
    shares = np.clip(np.nan_to_num(np.asarray(values, np.float32)), 0.0, 1.0)
    index = (shares * 255).astype(np.uint8)
    out: npt.NDArray[np.uint8] = table[index]
    return out


def nbytes_text(n: float) -> str:
    """1536 -> `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} GiB"
