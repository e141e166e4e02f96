"""`Painter`: imgui's draw lists onto the window, only where they changed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import wgpu
from imgui_bundle import imgui
from wgpu.utils.imgui import ImguiRenderer

# wgpu's own shader raises each pixel to a power for sRGB targets, also where that power is 1: on a
# software adapter half of a frame's time. This window draws on targets that need none.
_SHADER = """
struct In {
    @location(0) position: vec2<f32>,
    @location(1) uv: vec2<f32>,
    @location(2) color: vec4<f32>,
}
struct Out {
    @builtin(position) position: vec4<f32>,
    @location(0) color: vec4<f32>,
    @location(1) uv: vec2<f32>,
}
@group(0) @binding(0) var<uniform> mvp: mat4x4<f32>;
@group(0) @binding(1) var s: sampler;
@group(1) @binding(0) var t: texture_2d<f32>;
@vertex fn vs(in: In) -> Out {
    return Out(mvp * vec4<f32>(in.position, 0.0, 1.0), in.color, in.uv);
}
@fragment fn fs(in: Out) -> @location(0) vec4<f32> {
    return in.color * textureSample(t, s, in.uv);
}
"""


class Painter(ImguiRenderer):  # type: ignore[misc]
    """Builds a frame and draws it unless it is the same as the one on the screen.

    `back` is the colour behind everything, RGBA in 0..1. `stale` forces the next frame out.
    """

    def __init__(self, device: Any, canvas: Any) -> None:
        super().__init__(device, canvas)
        self.back = (0.0, 0.0, 0.0, 1.0)
        self.stale = True
        self._drawn: object = None
        self._context_ = canvas.get_wgpu_context()
        # the pinned wgpu's backend has no hook for a shader of one's own
        self.backend._render_pipeline = _pipeline(device, self.backend)

    def paint(self, build: Callable[[], None]) -> bool:
        """Run `build` and draw; False where the picture had not changed."""
        imgui.set_current_context(self.imgui_context)
        io, context = self.backend.io, self._context_
        scale = context.pixel_ratio
        io.display_framebuffer_scale = (scale, scale)
        io.display_size = context.logical_size
        imgui.new_frame()
        try:
            build()
        finally:
            imgui.render()
        data = imgui.get_draw_data()
        picture = _fingerprint(data, self.back, context.physical_size)
        textures: Any = data.textures or []
        new_glyphs = any(t.status != imgui.ImTextureStatus.ok for t in textures)
        if picture == self._drawn and not self.stale and not new_glyphs:
            return False
        self._drawn, self.stale = picture, False
        self._draw(data)
        return True

    def _draw(self, data: Any) -> None:
        device = self.backend._device
        encoder = device.create_command_encoder()
        view = self._context_.get_current_texture().create_view()
        target = {
            "view": view, "clear_value": self.back, "load_op": "clear", "store_op": "store",
        }  # fmt: skip
        render_pass = encoder.begin_render_pass(color_attachments=[target])
        self.backend.render(data, render_pass)
        render_pass.end()
        device.queue.submit([encoder.finish()])


def _fingerprint(data: Any, *more: object) -> object:
    """All that decides what a frame looks like, but for the pictures' contents."""
    parts: list[object] = [*more]
    for commands in data.cmd_lists:
        for buffer, size in (
            (commands.vtx_buffer, imgui.VERTEX_SIZE), (commands.idx_buffer, imgui.INDEX_SIZE),
        ):  # fmt: skip
            parts.append(ctypes.string_at(buffer.data_address(), buffer.size() * size))
        for c in commands.cmd_buffer:
            r = c.clip_rect
            parts.append((c.tex_ref.get_tex_id(), c.elem_count, r.x, r.y, r.z, r.w))
    return parts


def _pipeline(device: Any, backend: Any) -> Any:
    module = device.create_shader_module(code=_SHADER)
    both = wgpu.ShaderStage.VERTEX | wgpu.ShaderStage.FRAGMENT
    common = device.create_bind_group_layout(
        entries=[
            {"binding": 0, "visibility": both, "buffer": {"type": "uniform"}},
            {"binding": 1, "visibility": wgpu.ShaderStage.FRAGMENT,
             "sampler": {"type": "filtering"}},
        ]
    )  # fmt: skip
    blend = {"src_factor": "src-alpha", "dst_factor": "one-minus-src-alpha", "operation": "add"}
    return device.create_render_pipeline(
        layout=device.create_pipeline_layout(
            bind_group_layouts=[common, backend._texture_bind_group_layout]
        ),
        vertex={
            "module": module, "entry_point": "vs",
            "buffers": [{
                "array_stride": imgui.VERTEX_SIZE, "step_mode": "vertex",
                "attributes": [
                    {"format": "float32x2", "offset": 0, "shader_location": 0},
                    {"format": "float32x2", "offset": 8, "shader_location": 1},
                    {"format": "unorm8x4", "offset": 16, "shader_location": 2},
                ],
            }],
        },
        primitive={"topology": "triangle-list"},
        fragment={
            "module": module, "entry_point": "fs",
            "targets": [{
                "format": backend._target_format,
                "blend": {"color": blend, "alpha": {**blend, "src_factor": "one"}},
            }],
        },
    )  # fmt: skip
