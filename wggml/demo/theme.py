"""Colours, type and spacing, in a dark and a light set."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from imgui_bundle import imgui

BASE = 15.0
"""Size of body text in logical pixels; other sizes are multiples."""

SMALL, BODY, TITLE, BIG = 0.87 * BASE, BASE, 1.2 * BASE, 1.65 * BASE


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as 0xRRGGBB."""

    back: int
    panel: int
    raised: int
    border: int
    text: int
    dim: int
    faint: int
    accent: int
    on_accent: int
    good: int
    warn: int
    bad: int
    gpu: int
    cpu: int


DARK = Palette(
    back=0x0E1116, panel=0x161A21, raised=0x20262F, border=0x2A313C, text=0xE4E8EE, dim=0x97A1B0,
    faint=0x5B6573, accent=0x4C9DFF, on_accent=0x06121F, good=0x46C08B, warn=0xE9B44C,
    bad=0xF0686B, gpu=0x6F9BFF, cpu=0xE8A25C,
)  # fmt: skip
LIGHT = Palette(
    back=0xF1F3F6, panel=0xFFFFFF, raised=0xE9EDF2, border=0xD5DBE3, text=0x1A2029, dim=0x5B6675,
    faint=0x98A2B0, accent=0x1F6FE0, on_accent=0xFFFFFF, good=0x1E8E5A, warn=0xB97A0B,
    bad=0xCB3438, gpu=0x3F6FE0, cpu=0xC97518,
)  # fmt: skip


def u32(rgb: int, alpha: float = 1.0) -> int:
    """A colour for draw lists out of 0xRRGGBB."""
    r, g, b = rgb >> 16, (rgb >> 8) & 255, rgb & 255
    return (int(alpha * 255 + 0.5) << 24) | (b << 16) | (g << 8) | r


def mix(a: int, b: int, share: float) -> int:
    """`share` of b and the rest of a, both 0xRRGGBB."""
    s = min(max(share, 0.0), 1.0)
    out = 0
    for shift in (16, 8, 0):
        x, y = (a >> shift) & 255, (b >> shift) & 255
        out |= int(x + (y - x) * s + 0.5) << shift
    return out


def rgba(rgb: int, alpha: float = 1.0) -> tuple[float, float, float, float]:
    """A colour for imgui's style out of 0xRRGGBB."""
    return (rgb >> 16) / 255, ((rgb >> 8) & 255) / 255, (rgb & 255) / 255, alpha


@dataclass(frozen=True, slots=True)
class Fonts:
    """Faces; sizes are given where they are used."""

    text: Any
    bold: Any
    mono: Any


def load_fonts() -> Fonts:
    """Adds imgui-bundle's own faces to the current context; the first is the default."""
    import imgui_bundle

    folder = Path(imgui_bundle.__file__).parent / "assets" / "fonts"
    atlas = imgui.get_io().fonts
    faces = []
    for name in ("Roboto/Roboto-Regular.ttf", "Roboto/Roboto-Bold.ttf", "Inconsolata-Medium.ttf"):
        faces.append(atlas.add_font_from_file_ttf(str(folder / name), BASE))
        merged = imgui.ImFontConfig()
        merged.merge_mode = True
        merged.glyph_min_advance_x = BASE * 1.2
        icons = folder / "Font_Awesome_6_Free-Solid-900.otf"
        atlas.add_font_from_file_ttf(str(icons), BASE * 0.9, merged)
    return Fonts(*faces)


def apply(p: Palette) -> None:
    """Make imgui's own widgets look like the rest."""
    style = imgui.get_style()
    style.font_size_base = BODY
    style.window_padding = imgui.ImVec2(0, 0)
    style.frame_padding = imgui.ImVec2(10, 6)
    style.item_spacing = imgui.ImVec2(10, 8)
    style.item_inner_spacing = imgui.ImVec2(8, 6)
    style.frame_rounding = style.grab_rounding = style.popup_rounding = 6
    style.child_rounding = 10
    style.scrollbar_size = 10
    style.scrollbar_rounding = 5
    style.grab_min_size = 12
    style.window_border_size = style.child_border_size = 0
    style.frame_border_size = 0
    style.popup_border_size = 1
    style.disabled_alpha = 0.45
    c = imgui.Col_
    colours = {
        c.text: p.text, c.text_disabled: p.faint, c.window_bg: p.back, c.child_bg: p.panel,
        c.popup_bg: p.panel, c.border: p.border, c.frame_bg: p.raised,
        c.frame_bg_hovered: mix(p.raised, p.text, 0.06),
        c.frame_bg_active: mix(p.raised, p.text, 0.1), c.scrollbar_grab: p.border,
        c.scrollbar_grab_hovered: p.faint, c.scrollbar_grab_active: p.faint,
        c.check_mark: p.accent, c.slider_grab: p.accent, c.slider_grab_active: p.accent,
        c.button: p.raised, c.button_hovered: mix(p.raised, p.text, 0.08),
        c.button_active: mix(p.raised, p.text, 0.14), c.header: p.raised,
        c.header_hovered: mix(p.raised, p.text, 0.06), c.header_active: p.raised,
        c.separator: p.border, c.table_border_light: p.border, c.table_border_strong: p.border,
        c.table_header_bg: p.panel, c.plot_lines: p.accent,
    }  # fmt: skip
    for key, rgb in colours.items():
        style.set_color_(key, imgui.ImVec4(*rgba(rgb)))
    style.set_color_(c.scrollbar_bg, imgui.ImVec4(0, 0, 0, 0))
    style.set_color_(c.text_selected_bg, imgui.ImVec4(*rgba(p.accent, 0.35)))
    style.set_color_(c.modal_window_dim_bg, imgui.ImVec4(0, 0, 0, 0.4))


def names() -> list[str]:
    """The palette's fields, for tests."""
    return [f.name for f in fields(Palette)]
