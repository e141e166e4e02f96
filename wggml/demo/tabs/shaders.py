"""Shaders: an op's WGSL to edit, with the verdict of its cases and its speed beside it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imgui_bundle import imgui
from imgui_bundle import imgui_color_text_edit as text_edit

from wggml.demo.shader_engine import OPS, ShaderLab, ShaderState, Verdict
from wggml.demo.theme import SMALL
from wggml.demo.ui import GAP, Icon, Ui
from wggml.hal.interface import DeviceType

if TYPE_CHECKING:
    from wggml.demo.app import App

SETTLE_SECONDS = 0.35
"""After the last key the text is judged."""
CODE_SIZE = 14.0


class ShadersTab:
    """Editor on the left, what came of it on the right."""

    name = "Shaders"
    icon = Icon.CODE

    def __init__(self, app: App) -> None:
        fits = [d for d in [app.device, *app.registry.devices()] if d.type is not DeviceType.CPU]
        self.lab = ShaderLab(fits[0].name) if fits else None
        self.where = fits[0].description if fits else ""
        self.template = ""
        self._editor: Any = None
        self._undo_index = 0
        self._edited_at = 0.0
        app.closers.append(self.close)

    def close(self) -> None:
        if self.lab is not None:
            self.lab.close()

    def status(self) -> str:
        return "edits stay in a copy that only this tab's own process reads"

    def drop(self, path: Path) -> bool:
        return False

    def draw(self, ui: Ui, width: float, height: float) -> None:
        if self.lab is None:
            with ui.card("shaders.none", width, 80):
                ui.label("There is no GPU adapter here; shaders need one (software ones serve).")
            return
        s = self.lab.state
        if not s.op:
            self.lab.choose(OPS[0])
        right = min(max(340.0, width * 0.34), 460.0)
        left = width - right - GAP
        with ui.card("shaders.editor", left, height):
            self._choose(ui, s, left - 32)
            self._edit(ui, s)
        imgui.same_line(0, GAP)
        imgui.begin_group()
        with ui.card("shaders.figures", right, 154, "On this device"):
            self._figures(ui, s)
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + GAP - imgui.get_style().item_spacing.y)
        with ui.card("shaders.cases", right, height - 154 - GAP, "Against NumPy", scroll=True):
            self._cases(ui, s)
        imgui.end_group()

    def _choose(self, ui: Ui, s: ShaderState, room: float) -> None:
        assert self.lab is not None
        imgui.set_next_item_width(170)
        if imgui.begin_combo("##op", s.op.lower()):
            for op in OPS:
                if imgui.selectable(op.lower(), op == s.op)[0] and op != s.op:
                    self.template, self._editor = "", None
                    self.lab.choose(op)
                ui.place(f"shaders.op.{op}")
            imgui.end_combo()
        ui.place("shaders.op")
        imgui.same_line()
        imgui.set_next_item_width(240)
        if imgui.begin_combo("##template", self.template or "..."):
            for template in s.templates:
                if imgui.selectable(template, template == self.template)[0]:
                    self._open(template)
            imgui.end_combo()
        ui.place("shaders.template")
        imgui.same_line()
        if ui.button("shaders.revert", f"{Icon.RESET}  Revert", enabled=self._editor is not None):
            self._editor.set_text(self.lab.original(self.template))
            self._edited_at = time.perf_counter() - SETTLE_SECONDS
        if not self.template and s.templates:
            own = [t for t in s.templates if not t.startswith("include/")]
            self._open((own or list(s.templates))[0])

    def _open(self, template: str) -> None:
        assert self.lab is not None
        self.template = template
        self._editor = text_edit.TextEditor()
        self._editor.set_language(text_edit.TextEditor.Language.glsl())
        self._editor.set_text(self.lab.original(template))
        self._editor.set_show_whitespaces_enabled(False)
        self._editor.set_show_scrollbar_mini_map_enabled(False)
        self._undo_index = self._editor.get_undo_index()

    def _edit(self, ui: Ui, s: ShaderState) -> None:
        if self._editor is None:
            ui.label("compiling and running the op's cases ..." if s.working else s.error)
            return
        e = self._editor
        palette = e.get_dark_palette() if ui.dark else e.get_light_palette()
        e.set_palette(palette)
        with ui.font(ui.fonts.mono, CODE_SIZE):
            room = imgui.get_content_region_avail()
            e.render("##code", (room.x, room.y))
        ui.place("shaders.code")
        now = time.perf_counter()
        index = e.get_undo_index()
        if index != self._undo_index:
            self._undo_index, self._edited_at = index, now
        if self._edited_at and now - self._edited_at > SETTLE_SECONDS:
            self._edited_at = 0.0
            assert self.lab is not None
            self.lab.write(self.template, e.get_text())

    def _figures(self, ui: Ui, s: ShaderState) -> None:
        ui.label(self.where)
        imgui.dummy((1, 2))
        if s.speed is None:
            failed = s.n_failed
            text = "working ..." if s.working else (f"{failed} cases fail" if failed else s.shape)
            ui.text(text, colour=ui.p.bad if failed and not s.working else ui.p.dim)
            return
        flops, rate, seconds = s.speed
        ui.stats(
            [
                (f"{flops:.2f}", "GFLOP/s"),
                (f"{rate:.2f}", "GB/s"),
                (f"{seconds * 1e3:.2f} ms", "a run"),
            ]
        )
        ui.text(s.shape, size=SMALL, colour=ui.p.faint)
        ui.places["shaders.measured"] = (0, 0, 1, 1)

    def _cases(self, ui: Ui, s: ShaderState) -> None:
        if s.error:
            ui.notice(s.error)
        failed = [v for v in s.verdicts if v.status == "fail"]
        if failed:
            ui.places["shaders.failed"] = (0, 0, 1, 1)
            ui.text(failed[0].reason, size=SMALL, face=ui.fonts.mono, colour=ui.p.bad, wrap=True)
            imgui.dummy((1, 6))
        for v in s.verdicts:
            self._case(ui, v)
        if s.verdicts:
            imgui.dummy((1, 4))
            ui.label(f"judged in {s.seconds:.2f} s")

    def _case(self, ui: Ui, v: Verdict) -> None:
        icon, colour = {
            "pass": (Icon.CHECK, ui.p.good), "fail": (Icon.CROSS, ui.p.bad),
        }.get(v.status, ("-", ui.p.faint))  # fmt: skip
        ui.text(icon, size=SMALL, colour=colour)
        imgui.same_line(24)
        parameters = v.title.partition("[")[2].removesuffix("]") or v.title
        ui.text(parameters, size=SMALL, colour=ui.p.dim, face=ui.fonts.mono)
        if imgui.is_item_hovered():
            imgui.set_tooltip(f"{v.title}\n{v.reason}" if v.reason else v.title)
