"""Upscale: a picture before and after, with a line to drag between the two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from imgui_bundle import imgui

from wggml.demo.theme import BODY, u32
from wggml.demo.ui import Icon, Rect, Ui
from wggml.demo.upscale_engine import JOB, UpscaleEngine, UpscaleState
from wggml.upscale import U8

if TYPE_CHECKING:
    from wggml.demo.app import App

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm"}


class UpscaleTab:
    """One large card: controls above, the picture below."""

    name = "Upscale"
    icon = Icon.IMAGE

    def __init__(self, app: App) -> None:
        self.engine = app.engine
        self.upscale = UpscaleEngine(app.engine, app.device.name)
        self.split = 0.5
        self._rgba: dict[str, tuple[int, U8]] = {}

    def status(self) -> str:
        s = self.upscale.state
        if s.result is None:
            return ""
        return f"{s.result.shape[1]}x{s.result.shape[0]} pixels"

    def drop(self, path: Path) -> bool:
        if path.suffix.lower() not in ENDINGS:
            return False
        self.upscale.open(path)
        return True

    def draw(self, ui: Ui, width: float, height: float) -> None:
        s = self.upscale.state
        with ui.card("upscale.card", width, height):
            self._controls(ui, s)
            at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
            rect = (at.x, at.y + 4, room.x, room.y - 4)
            if s.source is None:
                self._invite(ui, rect)
            else:
                self._compare(ui, s, rect)

    def _controls(self, ui: Ui, s: UpscaleState) -> None:
        if ui.button("upscale.sample", f"{Icon.IMAGE}  Sample picture", primary=s.source is None):
            self.upscale.sample()
        imgui.same_line()
        if self.engine.is_running(JOB):
            if ui.button("upscale.stop", f"{Icon.STOP}  Stop"):
                self.upscale.stop()
            imgui.same_line()
        elif s.result is not None:
            if ui.button("upscale.save", "Save as PNG"):
                self.upscale.save(Path.cwd() / f"{Path(s.name.split()[0]).stem}-x{s.scale}.png")
            imgui.same_line()
        imgui.align_text_to_frame_padding()
        words = [s.name] if s.name else []
        if s.source is not None and s.result is not None:
            words += [f"{s.part:.0%} in {s.seconds:.1f} s"]
        if s.psnr:
            ui.places["upscale.done"] = (0, 0, 1, 1)
            words += [f"{s.psnr:.1f} dB to the source when brought back to its size"]
        ui.label("     ".join([*words, s.note] if s.note else words))
        message = self.engine.errors.get(JOB, "")
        if message:
            ui.notice(message)

    def _invite(self, ui: Ui, rect: Rect) -> None:
        x, y, w, h = rect
        draw, p = imgui.get_window_draw_list(), ui.p
        draw.add_rect((x, y), (x + w, y + h), u32(p.border), 8.0, 1.5)
        middle = (x + w / 2, y + h / 2)
        ui.draw_text(middle[0], middle[1] - 42, Icon.IMAGE, size=30, colour=p.faint, align=0.5)
        ui.draw_text(
            middle[0], middle[1] + 6, "Drop a picture onto the window", size=BODY, align=0.5
        )
        ui.draw_text(
            middle[0], middle[1] + 32, "realesr-animevideov3 makes it four times as large, tile by "
            "tile, with convolutions on this device", colour=p.dim, align=0.5,
        )  # fmt: skip

    def _compare(self, ui: Ui, s: UpscaleState, rect: Rect) -> None:
        assert s.source is not None
        x, y, w, h = rect
        rows, columns = s.source.shape[:2]
        scale = min(w / columns, h / rows)
        size = (columns * scale, rows * scale)
        box = (x + (w - size[0]) / 2, y + (h - size[1]) / 2, *size)
        imgui.set_cursor_screen_pos(box[:2])
        imgui.invisible_button("##compare", size)
        ui.place("upscale.compare")
        if imgui.is_item_active():
            self.split = min(max((imgui.get_io().mouse_pos.x - box[0]) / box[2], 0.0), 1.0)
        line = box[0] + box[2] * self.split
        draw = imgui.get_window_draw_list()
        draw.push_clip_rect(box[:2], (line, box[1] + box[3]), True)
        ui.picture("upscale.source", self._with_alpha("source", s.source), id(s.source), box)
        draw.pop_clip_rect()
        draw.push_clip_rect((line, box[1]), (box[0] + box[2], box[1] + box[3]), True)
        ui.picture("upscale.source", self._with_alpha("source", s.source), id(s.source), box)
        if s.result is not None:
            done = self._with_alpha("result", s.result)
            ui.picture("upscale.result", done, id(s.result), box)
        draw.pop_clip_rect()
        draw.add_line((line, box[1]), (line, box[1] + box[3]), u32(0xFFFFFF, 0.9), 2.0)
        middle = box[1] + box[3] / 2
        draw.add_circle_filled((line, middle), 13, u32(0xFFFFFF), 32)
        for way in (-1, 1):
            draw.add_triangle_filled(
                (line + way * 3.5, middle - 4), (line + way * 3.5, middle + 4),
                (line + way * 8.5, middle), u32(0x333333),
            )  # fmt: skip
        ends = ((box[0] + 10, "before", 0.0), (box[0] + box[2] - 10, "after", 1.0))
        for side, text, align in ends:
            wide = ui.width(text, size=13)
            left = side - align * wide
            draw.add_rect_filled(
                (left - 7, box[1] + 9), (left + wide + 7, box[1] + 31), u32(0x000000, 0.55), 6.0
            )
            ui.draw_text(left, box[1] + 12, text, colour=0xFFFFFF)

    def _with_alpha(self, name: str, rgb: U8) -> U8:
        """RGBA of a picture; where nothing is computed yet (black exactly) it is transparent."""
        kept = self._rgba.get(name)
        if kept is None or kept[0] != id(rgb):
            out = np.full((*rgb.shape[:2], 4), 255, np.uint8)
            out[..., :3] = rgb
            if name == "result":
                out[..., 3][(rgb == 0).all(axis=2)] = 0
            kept = self._rgba[name] = (id(rgb), out)
        return kept[1]
