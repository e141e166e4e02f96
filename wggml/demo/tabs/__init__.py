"""One module for each tab: `draw` is called once a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wggml.demo.app import App, Tab


def make_tabs(app: App) -> list[Tab]:
    """The tabs in their order."""
    from wggml.demo.tabs.digits import DigitsTab
    from wggml.demo.tabs.machine import MachineTab
    from wggml.demo.tabs.shaders import ShadersTab
    from wggml.demo.tabs.think import ThinkTab
    from wggml.demo.tabs.upscale import UpscaleTab

    return [
        ThinkTab(app), MachineTab(app), DigitsTab(app), UpscaleTab(app), ShadersTab(app),
    ]  # fmt: skip
