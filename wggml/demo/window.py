"""The window: a glfw canvas, a device that draws on it, imgui between the two."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wggml.errors import DeviceError, UsageError

INSTALL = "pip install 'wggml[demo]'"
HEADLESS = "`wggml run MODEL` and `wggml plan MODEL` need no window"

CANNOT_PRESENT = ("swiftshader",)
"""Adapters whose driver, as packaged, has no window surface and ends the process when asked."""

MAX_FPS = 60
BEAT_SECONDS = 0.02
"""How often a window that is not drawing looks whether it is time to."""


def import_toolkit() -> tuple[Any, Any, Any]:
    """(imgui, glfw, rendercanvas.glfw). Raises UsageError in one line where one cannot be had."""
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        raise UsageError(
            "no display: neither DISPLAY nor WAYLAND_DISPLAY is set. Run inside a desktop session "
            f"or under `xvfb-run -a`; {HEADLESS}"
        )
    try:
        import glfw
        import imgui_bundle
        from wgpu.utils.imgui import ImguiRenderer  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the window needs {error.name or error}, which is not installed: {INSTALL}"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is said below, with what to do
            ok = glfw.init()
    except Exception as error:
        raise UsageError(f"the display cannot be used: {error}; {HEADLESS}") from error
    if not ok:
        where = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or "this session"
        raise UsageError(
            f"the display {where!r} does not answer (is the X server running, and is it yours?); "
            f"{HEADLESS}"
        )
    from rendercanvas import glfw as canvas_module

    return imgui_bundle.imgui, glfw, canvas_module


def presentable(device: Any) -> Any | None:
    """The wgpu adapter of a wggml device if it can draw on a window, else None."""
    adapter = getattr(device, "adapter", None)
    if adapter is None or any(word in adapter.title.lower() for word in CANNOT_PRESENT):
        return None
    return adapter.gpu


def window_adapter(compute: Any, devices: list[Any]) -> Any:
    """The wgpu adapter to draw with: the one that computes, else the best that can.

    Raises `DeviceError` where none can draw.
    """
    for device in [compute, *devices]:
        found = presentable(device)
        if found is not None:
            return found
    raise DeviceError(
        "no graphics driver can draw a window here: install your GPU's Vulkan driver, or a "
        f"software one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers); {HEADLESS}"
    )


class Window:
    """Owns canvas, device, imgui context; calls `draw` once a frame until closed.

    The device is another one than the backend's, on the same adapter: a queue that waits for a
    long dispatch must not keep the window's commands waiting behind a lock.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        title: str,
        size: tuple[int, int] = (1280, 800),
        on_drop: Callable[[list[Path]], None] | None = None,
    ) -> None:
        self.imgui, self.glfw, self._module = import_toolkit()
        self.canvas = self._module.RenderCanvas(
            size=size, title=title, update_mode="ondemand", max_fps=MAX_FPS, vsync=False
        )
        self.images: dict[str, Image] = {}
        self.closed = False
        # seconds until the next frame, asked after each one; 0: at once, `MAX_FPS` at most
        self.pace: Callable[[], float] = lambda: 0.0
        try:
            self.device = adapter.request_device_sync()
            self._start_imgui(adapter)
        except BaseException:
            self.canvas.close()
            raise
        self.canvas.add_event_handler(self._close_on_ctrl_q, "key_down")
        if on_drop is not None:
            self._watch_drops(on_drop)

    def _start_imgui(self, adapter: Any) -> None:
        from wggml.demo.paint import Painter

        context = self.canvas.get_wgpu_context()
        wanted = context.get_preferred_format(adapter)
        # imgui blends in sRGB, as everybody's eyes are used to
        context.configure(device=self.device, format=wanted.removesuffix("-srgb"))
        self.renderer = Painter(self.device, self.canvas)
        io = self.imgui.get_io()
        io.set_ini_filename("")
        io.config_input_text_cursor_blink = False  # a blinking cursor is no reason to draw
        self._use_clipboard()

    def _close_on_ctrl_q(self, event: Any) -> None:
        # at once, not by imgui's queue of keys, which a slow frame may thin out
        if str(event["key"]).lower() == "q" and "Control" in event["modifiers"]:
            self.close()

    def _use_clipboard(self) -> None:
        """Copy and paste with the desktop's clipboard (glfw's), not imgui's private one."""
        window, glfw = self.canvas._window, self.glfw
        platform = self.imgui.get_platform_io()

        def get(_context: Any) -> str:
            text = glfw.get_clipboard_string(window)
            return text.decode("utf-8", "replace") if text else ""

        platform.platform_get_clipboard_text_fn = get
        platform.platform_set_clipboard_text_fn = lambda _context, text: glfw.set_clipboard_string(
            window, text
        )

    def _watch_drops(self, on_drop: Callable[[list[Path]], None]) -> None:
        # rendercanvas has no event for dropped files
        def dropped(_window: Any, paths: list[str]) -> None:
            on_drop([Path(p) for p in paths])
            self.canvas.request_draw()

        self._drop_callback = dropped  # glfw keeps no reference of its own
        self.glfw.set_drop_callback(self.canvas._window, dropped)

    # ---- the loop -----------------------------------------------------------------------------

    def run(self, draw: Callable[[], None]) -> None:
        """Draw until the window is closed. An exception in `draw` closes it and is raised here."""
        failure: list[BaseException] = []
        last = due = time.perf_counter()

        def frame() -> None:
            nonlocal last, due
            if self.closed:
                return
            now = time.perf_counter()
            self.imgui.set_current_context(self.renderer.imgui_context)
            self.imgui.get_io().delta_time = max(now - last, 1e-4)
            last = now
            try:
                self.renderer.paint(draw)
            except Exception as error:
                failure.append(error)
                self.close()
                return
            wait = self.pace()
            due = time.perf_counter() + wait
            if not wait:
                self.canvas.request_draw()

        def heartbeat() -> None:
            if not self.closed and not self.canvas.get_closed():
                if time.perf_counter() >= due:
                    self.canvas.request_draw()
                self._module.loop.call_later(BEAT_SECONDS, heartbeat)

        self.canvas.request_draw(frame)
        self.canvas.add_event_handler(lambda _event: self.canvas.request_draw(), "*")
        self._module.loop.call_later(BEAT_SECONDS, heartbeat)
        self._module.loop.run()
        if failure:
            raise failure[0]

    def close(self) -> None:
        """Close the window once the frame under way is over; `run` then returns."""
        self.closed = True
        self._module.loop.call_soon(self.canvas.close)

    def free(self) -> None:
        """Give back the context and the device; after `run`."""
        self.closed = True
        if not self.canvas.get_closed():
            self.canvas.close()
        self.images.clear()
        self.imgui.set_current_context(self.renderer.imgui_context)
        self.imgui.destroy_context(self.renderer.imgui_context)
        self.device.destroy()

    # ---- pictures -------------------------------------------------------------------------------

    def image(self, name: str, pixels: Any, version: object, times: int = 1) -> Any:
        """imgui's reference to a picture, uint8 RGBA [height, width, 4], each pixel repeated
        `times` both ways; uploaded where `version` differs from the last one of that name."""
        kept = self.images.get(name)
        if kept is None or kept.key != (pixels.shape, times):
            if kept is not None:
                self.renderer.backend.unregister_texture(kept.ref)
            kept = self.images[name] = Image(
                self.device, self.renderer.backend, (pixels.shape, times)
            )
        if kept.version != version:
            kept.write(pixels)
            kept.version = version
            self.renderer.stale = True
        return kept.ref


class Image:
    """A picture on the window's device. `key`: the pixels' shape, and how often one is repeated."""

    def __init__(self, device: Any, backend: Any, key: tuple[tuple[int, ...], int]) -> None:
        import wgpu

        self.device, self.key = device, key
        self.version: object = object()
        (height, width, _), times = key
        self.texture = device.create_texture(
            size=(width * times, height * times, 1),
            format="rgba8unorm",
            usage=wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST,
        )
        self.view = self.texture.create_view()
        self.ref = backend.register_texture(self.view)

    def write(self, pixels: Any) -> None:
        import numpy as np

        times = self.key[1]
        data = np.ascontiguousarray(pixels.repeat(times, 0).repeat(times, 1))
        height, width = data.shape[:2]
        self.device.queue.write_texture(
            {"texture": self.texture},
            data,
            {"bytes_per_row": 4 * width, "rows_per_image": height},
            (width, height, 1),
        )
