"""Weights and activations read through storage textures, for drivers whose buffer loads are slow.

Mesa's llvmpipe (lavapipe, and its OpenGL driver) loads from storage buffers lane by lane, testing
each lane; its image loads are straight-line code. On a processor without AVX-512 sixteen bytes cost
a lane 28 ns from a buffer, 2 ns from a sampled texture and 0.4 ns from a storage texture, and
matrix products are bound by that. Where `DeviceProfile.texel_reads` says so, the regions of a
packed tensor (`packing.py`) lie in 2-D textures of `WIDTH` texels a row, one texture per region,
with the buffer's range left untouched (memory that is never touched costs address space only).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.wgpu import packing
from wggml.backends.wgpu.implementation import module, translate
from wggml.core.tensor import Tensor
from wggml.errors import UnsupportedOpError
from wggml.hal.interface import BufferUsage, Bytes

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.backends.wgpu.profile import DeviceProfile

WIDTH = 4096  # texels a row, as in shaders/include/texel.wgsl
SCRATCH_COUNT = 4
MAX_ROWS = 8192  # every WebGPU device has textures this high

# WGSL element type of a region -> texture format, bytes of a texel. Halves and bytes lie in words.
_FORMATS = {
    "vec4<u32>": ("rgba32uint", 16),
    "u32": ("r32uint", 4),
    "half": ("r32uint", 4),
    "byte": ("r32uint", 4),
}


def _layout(texel_format: str, access: str) -> dict[str, object]:
    return {"storage_texture": {"access": access, "format": texel_format, "view_dimension": "2d"}}


# WGSL type of a texture operand -> its part of a bind group layout.
LAYOUTS: dict[str, dict[str, object]] = {
    "texture_storage_2d<rgba32uint, read>": _layout("rgba32uint", "read-only"),
    "texture_storage_2d<r32uint, read>": _layout("r32uint", "read-only"),
    "texture_storage_2d<rgba32float, read>": _layout("rgba32float", "read-only"),
    "texture_storage_2d<rgba32float, write>": _layout("rgba32float", "write-only"),
}
ACTIVATIONS = "texture_storage_2d<rgba32float, read>"
ACTIVATIONS_OUT = "texture_storage_2d<rgba32float, write>"


def fits(profile: DeviceProfile, lay: packing.Layout) -> bool:
    """True when the device reads tensors of this layout through textures."""
    limit = WIDTH * MAX_ROWS
    return profile.texel_reads and all(
        r.nbytes // _FORMATS[r.field.elem][1] <= limit for r in lay.regions
    )


def plain_root(t: Tensor) -> Tensor | None:
    """The matrix of a plain type in textures that `t` (placed) is or views, else None: one in a
    WEIGHTS buffer whose rows are whole chunks of 32."""
    root = t.view_src or t
    buffer = t.placed_in
    if root.type not in packing.PLAIN_FIELDS or buffer is None:
        return None
    if buffer.usage != BufferUsage.WEIGHTS or root.ne[0] % 32 or root.ne[1] < 2:
        return None
    profile: DeviceProfile = buffer.device.profile  # type: ignore[attr-defined]
    held = profile.texel_reads and root.is_contiguous() and fits(profile, plain_of(root))
    return root if held else None


def plain_of(root: Tensor) -> packing.Layout:
    return packing.plain_layout(root.type, root.ne)


def is_in_texels(t: Tensor) -> bool:
    """True when `t` (placed on a wgpu device) lies in textures."""
    return texels_of(t) is not None


def texels_of(t: Tensor) -> TexelTensor | None:
    """The textures that hold the root of `t`, made on first use; None when it lies in its
    buffer."""
    root = packing.packed_root(t)
    if root is not None:
        lay = packing.layout(root.type, root.ne)
        if not fits(root.buffer.device.profile, lay):  # type: ignore[union-attr]
            return None
    else:
        root = plain_root(t)
        if root is None:
            return None
        lay = plain_of(root)
    buffer: WgpuBuffer = root.buffer  # type: ignore[assignment]
    assert root.data is not None
    found = buffer.texels.get(root.data)
    if found is None or found.layout != lay:
        found = TexelTensor(buffer.device, lay)
        buffer.texels[root.data] = found
    return found


def bring_to_buffer(t: Tensor, *, write: bool) -> None:
    """Make the buffer hold the bytes of `t` too, for a kernel that reads plain types there.
    Raises `UnsupportedOpError` for one that writes them: products would read the old ones."""
    root = plain_root(t)
    store = texels_of(root) if root is not None else None
    if root is None or store is None:
        return
    if write:
        raise UnsupportedOpError(
            f"the weights {root.name!r} are read through textures on this device, so no op can "
            "write them; place them in a buffer whose usage is not WEIGHTS"
        )
    assert root.data is not None
    store.copy_to_buffer(root.buffer, root.data)  # type: ignore[arg-type]


class TexelTensor:
    """The regions of one packed tensor, a texture each. `views`: (field name, WGSL type, view)."""

    def __init__(self, device: WgpuDevice, lay: packing.Layout) -> None:
        self.device = device
        self.layout = lay
        self._twin: tuple[WgpuBuffer, int] | None = None  # where the buffer has the bytes too
        flags = module().TextureUsage
        usage = int(flags.STORAGE_BINDING | flags.COPY_DST | flags.COPY_SRC)
        self._textures = [
            _new_texture(device, r.nbytes // _FORMATS[r.field.elem][1],
                         _FORMATS[r.field.elem][0], usage)
            for r in lay.regions
        ]  # fmt: skip
        self.views: list[tuple[str, str, Any]] = [
            (
                r.field.name,
                f"texture_storage_2d<{_FORMATS[r.field.elem][0]}, read>",
                t.create_view(),
            )
            for r, t in zip(lay.regions, self._textures, strict=True)
        ]

    def write(self, region: int, at: int, data: Bytes) -> None:
        """Store bytes at byte `at` of a region; both whole words, and whole texels by layout."""
        size = self._texel(region)
        queue = self.device.gpu.queue
        if self._twin is not None:
            buffer, begin = self._twin
            buffer.write_bytes(begin + at, data)
        for r in _rectangles(at // size, len(data) // size):
            piece = data[r.skip * size : (r.skip + r.width * r.height) * size]
            try:
                queue.write_texture(
                    {"texture": self._textures[region], "origin": (r.x, r.y, 0)},
                    piece,
                    {"bytes_per_row": r.width * size, "rows_per_image": r.height},
                    (r.width, r.height, 1),
                )
            except Exception as e:
                doing = f"writing {len(data)} bytes of weights"
                raise translate(e, doing, self.device.name) from e

    def read(self, region: int, at: int, nbytes: int) -> Bytes:
        """Bytes of a region; `at` and `nbytes` are whole words."""
        size = self._texel(region)
        row_bytes = WIDTH * size
        first, last = at // row_bytes, -(-(at + nbytes) // row_bytes)
        flags = module().BufferUsage
        span = (last - first) * row_bytes
        copy = self.device.create_buffer(span, int(flags.COPY_SRC | flags.COPY_DST), "texels")
        encoder = self.device.gpu.create_command_encoder()
        encoder.copy_texture_to_buffer(
            {"texture": self._textures[region], "origin": (0, first, 0)},
            {"buffer": copy, "bytes_per_row": row_bytes, "rows_per_image": last - first},
            (WIDTH, last - first, 1),
        )
        self.device.gpu.queue.submit([encoder.finish()])
        out = self.device.reader.read(copy, at - first * row_bytes, nbytes)
        copy.destroy()
        return out

    def copy_to_buffer(self, buffer: WgpuBuffer, begin: int) -> None:
        """Copy the only region to byte `begin` of the buffer, once; later writes go to both."""
        if self._twin is not None:
            return
        encoder = self.device.gpu.create_command_encoder()
        for r in _rectangles(0, self.layout.n_blocks):
            encoder.copy_texture_to_buffer(
                {"texture": self._textures[0], "origin": (r.x, r.y, 0)},
                {"buffer": buffer.gpu, "offset": begin + r.skip * 16,
                 "bytes_per_row": WIDTH * 16, "rows_per_image": r.height},
                (r.width, r.height, 1),
            )  # fmt: skip
        self.device.gpu.queue.submit([encoder.finish()])
        self._twin = (buffer, begin)

    def free(self) -> None:
        for t in self._textures:
            t.destroy()

    def _texel(self, region: int) -> int:
        return _FORMATS[self.layout.regions[region].field.elem][1]


class TexelScratch:
    """Textures of f32 quads that plans copy activations to before products read them. They are
    given out in turn, so that a copy need not wait for the products that read the last one."""

    def __init__(self, device: WgpuDevice) -> None:
        self.device = device
        self._views: list[Any] = [None] * SCRATCH_COUNT
        self._capacity = [0] * SCRATCH_COUNT
        self._turn = 0

    def view(self, quads: int) -> Any:
        """A view that holds `quads` vec4<f32>; grows by replacement, so plans keep what they
        bound. None when no texture is that large."""
        if quads > WIDTH * MAX_ROWS:
            return None
        i = self._turn = (self._turn + 1) % SCRATCH_COUNT
        if quads > self._capacity[i]:
            flags = module().TextureUsage
            usage = int(flags.STORAGE_BINDING)
            texture = _new_texture(self.device, quads, "rgba32float", usage)
            self._views[i] = texture.create_view()
            self._capacity[i] = -(-quads // WIDTH) * WIDTH
        return self._views[i]


@dataclass(frozen=True, slots=True)
class _Rectangle:
    x: int
    y: int
    width: int
    height: int
    skip: int  # texels before it in the data


def _rectangles(first: int, count: int) -> Iterator[_Rectangle]:
    """Texels first .. first + count - 1 as at most three rectangles: what is left of a row, whole
    rows, the beginning of a row."""
    done = 0
    while done < count:
        y, x = divmod(first + done, WIDTH)
        rows = (count - done) // WIDTH if x == 0 else 0
        width = WIDTH if rows else min(WIDTH - x, count - done)
        yield _Rectangle(x, y, width, max(rows, 1), done)
        done += width * max(rows, 1)


def _new_texture(device: WgpuDevice, texels: int, fmt: str, usage: int) -> Any:
    rows = max(-(-texels // WIDTH), 1)
    try:
        texture = device.gpu.create_texture(
            size=(WIDTH, rows, 1), format=fmt, usage=usage, label="weights"
        )
    except Exception as e:
        doing = f"making a texture of {WIDTH} x {rows} texels"
        raise translate(e, doing, device.name) from e
    device.created.buffers_created += 1
    return texture


def write_blocks(store: TexelTensor, first_block: int, blocks: Bytes) -> None:
    """File bytes of consecutive blocks into the textures; ranges as `packing.pack` takes them."""
    lay = store.layout
    parts = packing.pack(lay, first_block, blocks)
    for i, (region, (at, data)) in enumerate(zip(lay.regions, parts, strict=True)):
        store.write(i, at - region.offset, np.ascontiguousarray(data))


def read_blocks(store: TexelTensor, first_block: int, count: int) -> Bytes:
    """The file's bytes of `count` blocks."""
    lay = store.layout
    parts = [
        store.read(i, at - region.offset, n)
        for i, (region, (at, n)) in enumerate(
            zip(lay.regions, packing.spans(lay, first_block, count), strict=True)
        )
    ]
    return packing.unpack(lay, first_block, count, parts)
