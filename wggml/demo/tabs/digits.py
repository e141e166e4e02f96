"""Digits: draw one, and watch the net that reads it learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from imgui_bundle import imgui

from wggml.demo.digits_engine import HIDDEN, JOB, DigitsEngine, DigitsState
from wggml.demo.theme import BODY, mix, u32
from wggml.demo.ui import GAP, Icon, Rect, Series, Ui, heat_rgba

if TYPE_CHECKING:
    from wggml.demo.app import App

Point = tuple[float, float]
COLUMNS = 16


class DigitsTab:
    """Drawing and guess on the left, training on the right."""

    name = "Digits"
    icon = Icon.PEN

    def __init__(self, app: App) -> None:
        self.engine = app.engine
        self.digits = DigitsEngine(app.engine, app.device.name)
        self.strokes: list[list[Point]] = []
        self._drawing = False

    def status(self) -> str:
        s = self.digits.state
        return f"{s.steps} steps on {s.device}" if s.steps else ""

    def drop(self, path: Path) -> bool:
        return False

    def draw(self, ui: Ui, width: float, height: float) -> None:
        s = self.digits.state
        left = min(max(300.0, width * 0.34), height * 0.58)
        with ui.card("digits.paper", left, left + 18, "Draw a digit"):
            self._paper(ui)
        with ui.card(
            "digits.guess", left, height - left - 18 - imgui.get_style().item_spacing.y, "The guess"
        ) as rect:
            self._guess(ui, s, rect)
        imgui.set_cursor_pos((left + GAP, 0))
        imgui.begin_group()
        right = width - left - GAP
        with ui.card("digits.training", right, height * 0.62):
            self._training(ui, s)
        with ui.card(
            "digits.weights", right, height * 0.38 - imgui.get_style().item_spacing.y,
            "What the first layer looks for", f"{HIDDEN} units, blue for ink and amber for none",
        ) as rect:  # fmt: skip
            self._weights(ui, s, rect)
        imgui.end_group()

    def _paper(self, ui: Ui) -> None:
        at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
        side = min(room.x, room.y)
        imgui.set_cursor_screen_pos((at.x + room.x - 74, at.y - 38))
        if ui.button("digits.clear", f"{Icon.ERASE}  Clear", width=74, enabled=bool(self.strokes)):
            self.strokes.clear()
            self.digits.classify(self.strokes)
        draw, p = imgui.get_window_draw_list(), ui.p
        paper = (at.x + (room.x - side) / 2, at.y, side, side)
        imgui.set_cursor_screen_pos(paper[:2])
        imgui.invisible_button("##paper", (side, side))
        ui.place("digits.canvas")
        self._follow_mouse(paper)
        draw.add_rect_filled(
            paper[:2], (paper[0] + side, paper[1] + side), u32(mix(p.panel, p.back, 0.7)), 8.0
        )
        if not self.strokes:
            ui.draw_text(
                paper[0] + side / 2, paper[1] + side / 2 - BODY, "draw here with the mouse",
                colour=p.faint, align=0.5,
            )  # fmt: skip
        thick = side * 0.05
        for stroke in self.strokes:
            points: list[Any] = [(paper[0] + x * side, paper[1] + y * side) for x, y in stroke]
            if len(points) > 1:
                draw.add_polyline(points, u32(p.text), thick, 0)
            for end in (points[0], points[-1]):
                draw.add_circle_filled(end, thick / 2, u32(p.text))

    def _follow_mouse(self, paper: Rect) -> None:
        """Add to the stroke while the button is held on the paper; classify as it grows."""
        if imgui.is_item_activated():
            self.strokes.append([])
            self._drawing = True
        if self._drawing and imgui.is_item_active():
            mouse = imgui.get_io().mouse_pos
            x, y = (mouse.x - paper[0]) / paper[2], (mouse.y - paper[1]) / paper[3]
            point = (min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0))
            stroke = self.strokes[-1]
            if not stroke or np.hypot(point[0] - stroke[-1][0], point[1] - stroke[-1][1]) > 0.008:
                stroke.append(point)
                self.digits.classify(self.strokes)
        elif self._drawing:
            self._drawing = False

    def _guess(self, ui: Ui, s: DigitsState, rect: Rect) -> None:
        x, y, w, h = rect
        if s.drawing is not None:
            side = min(h, 110.0)
            p = ui.p
            pixels = heat_rgba((s.drawing.reshape(8, 8) + 1) / 2, p.raised, p.dim, p.text)
            ui.picture(
                "digits.seen", pixels, (s.version, ui.dark), (x, y, side, side), smooth=False
            )
            if h > side + 18:
                ui.draw_text(x, y + side + 4, "what it sees", colour=ui.p.dim)
            x, w = x + side + 18, w - side - 18
        row = h / 10
        best = int(np.argmax(s.probs)) if s.probs is not None else -1
        for i in range(10):
            share = float(s.probs[i]) if s.probs is not None else 0.0
            ui.bar_row(
                (x, y + i * row, w, row), str(i), share, f"{share:.0%}", lit=i == best,
                label_width=18,
            )  # fmt: skip
        ui.places[f"digits.is.{best}"] = rect

    def _training(self, ui: Ui, s: DigitsState) -> None:
        running = self.engine.is_running(JOB)
        if running:
            if ui.button("digits.stop", f"{Icon.STOP}  Stop", width=92):
                self.digits.stop()
        elif ui.button("digits.start", f"{Icon.PLAY}  Train", primary=True, width=92):
            self.digits.start()
        imgui.same_line()
        if ui.button("digits.reset", f"{Icon.RESET}  Start over"):
            self.digits.reset()
        imgui.same_line(0, 24)
        _, self.digits.rate = ui.slider(
            "digits.rate", "Learning rate", self.digits.rate, 1e-4, 3e-2, width=220,
            form="{:.4f}", log=True,
        )  # fmt: skip
        message = self.engine.errors.get(JOB, "")
        if message:
            ui.notice(message)
        imgui.dummy((1, 4))
        speed = s.steps / s.seconds if s.seconds else 0.0
        ui.stats(
            [
                (f"{s.accuracy:.1%}" if s.accuracies else "-", "right of 360 never seen"),
                (f"{s.losses[-1]:.3f}" if s.losses else "-", "loss"),
                (f"{s.steps}", "steps of 64 images"),
                (f"{speed:.0f}", "steps a second"),
                (f"{s.seconds:.0f} s", "trained for"),
            ]
        )
        at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
        half, h = (room.x - 28) / 2, room.y - 34
        if h < 30:
            return
        if len(s.losses) < 2:
            ui.label("Press Train: forward, backward and optimiser run as one graph on the device.")
            return
        top = max(0.5, float(np.percentile(s.losses, 98)))
        ui.chart(
            (at.x, at.y + 6, half, h), [Series(s.losses, ui.p.warn, "loss")], low=0.0, high=top
        )
        shares = [100 * a for _, a in s.accuracies]
        ui.chart(
            (at.x + half + 28, at.y + 6, half, h),
            [Series(shares, ui.p.good, "right on the test set, %")],
            low=80.0, high=100.0, form="{:.0f}",
        )  # fmt: skip

    def _weights(self, ui: Ui, s: DigitsState, rect: Rect) -> None:
        if s.weights is None:
            ui.label("They show up when training starts.")
            return
        x, y, w, h = rect
        rows = HIDDEN // COLUMNS
        cell = min(w / COLUMNS, h / rows)
        gap = 5.0
        p = ui.p
        scale = max(float(np.abs(s.weights).max()), 1e-6)
        shares = 0.5 + 0.5 * np.sign(s.weights) * np.sqrt(np.abs(s.weights) / scale)
        tiles = np.full((rows * 9, COLUMNS * 9), np.nan)
        for i in range(HIDDEN):
            r, c = divmod(i, COLUMNS)
            tiles[r * 9 : r * 9 + 8, c * 9 : c * 9 + 8] = shares[i]
        pixels = heat_rgba(tiles, p.warn, p.panel, p.accent)
        pixels[np.isnan(tiles)] = 0
        side = (cell * COLUMNS, cell * rows)
        ui.picture(
            "digits.weights", pixels, (s.version, ui.dark),
            (x + (w - side[0] + gap) / 2, y, *side), smooth=False, rounding=0.0,
        )  # fmt: skip
