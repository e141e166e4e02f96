"""`Upscaler`: enlarges pictures with realesr-animevideov3, tile by tile, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import ScaleMode
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ModelError, ShapeError
from wggml.gguf_io import open_gguf
from wggml.gguf_io.ncnn import ARCHITECTURE
from wggml.hal.interface import BufferUsage, Device, DeviceType
from wggml.hal.registry import Registry, default_registry
from wggml.sched import Sched

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

# Pixels of a tile's side beyond its border: a software adapter takes half a second for 64.
TILE = {DeviceType.SOFTWARE: 64, DeviceType.CPU: 96}
DEFAULT_TILE = 192


@dataclass(frozen=True, slots=True)
class Span:
    """One axis of a tile: pixels `begin` to `begin + size` are read, `low` to `high` are kept."""

    begin: int
    low: int
    high: int


def spans(length: int, window: int, border: int) -> list[Span]:
    """Windows of equal size that cover an axis; each keeps what no edge inside the picture can
    have touched. At the picture's own edges the window ends there too, so that padding is where
    it would be for the whole picture."""
    if window >= length:
        return [Span(0, 0, length)]
    core = window - 2 * border
    out: list[Span] = []
    low = 0
    while low < length:
        begin = min(max(low - border, 0), length - window)
        high = length if begin + window >= length else begin + border + core
        out.append(Span(begin, low, high))
        low = high
    return out


class Upscaler:
    """A net of convolutions that enlarges pictures `scale` times.

    Args:
        path: GGUF of architecture `realesr` (the known names `realesr-x2`, `-x3`, `-x4`).
        device: index or part of a name; None takes the best real GPU, else NumPy.
        tile: pixels of a tile's side, without the border it shares with its neighbours.

    Raises `GGUFError`, `ModelError` for another kind of file, `DeviceError`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: str | None = None,
        tile: int | None = None,
        registry: Registry | None = None,
    ) -> None:
        reg = registry or default_registry()
        chosen = reg.best() if device is None else reg.find(device)
        self.device: Device = chosen
        devices = [chosen, *([reg.cpu()] if chosen.type is not DeviceType.CPU else [])]
        self._ctx = Context(256, name="upscaler")
        with open_gguf(path) as file:
            if file.architecture != ARCHITECTURE:
                raise ModelError(
                    f"{path} is of architecture {file.architecture!r}, not {ARCHITECTURE!r}; give "
                    "realesr-x4 or another file made from realesr-animevideov3"
                )
            self.scale = int(file.kv[f"{ARCHITECTURE}.scale"])
            self._shuffle = int(file.kv[f"{ARCHITECTURE}.shuffle"])
            self.n_layers = int(file.kv[f"{ARCHITECTURE}.block_count"])
            arrays = {name: file.read_f32(name) for name in file.tensors}
        self.border = self.n_layers
        self.tile = tile or TILE.get(chosen.type, DEFAULT_TILE)
        self._backends = [d.init_backend() for d in devices]
        self._sched = Sched(self._backends)
        self._weights = {name: self._weight(name, a) for name, a in arrays.items()}
        self._buffers = alloc_ctx_tensors(
            list(self._weights.values()), chosen.buffer_type(), usage=BufferUsage.WEIGHTS
        )
        for name, a in arrays.items():
            self._weights[name].set(a)
        self._graph: tuple[tuple[int, int], Graph, Tensor, Tensor] | None = None

    def _weight(self, name: str, a: F32) -> Tensor:
        if a.ndim == 4:
            return self._ctx.new_tensor(Type.F16, a.shape[::-1], name=name)
        return self._ctx.new_tensor(Type.F32, (1, 1, len(a)), name=name)

    # ---- the net ------------------------------------------------------------------------------

    def _build(self, ctx: Context, x: Tensor) -> Tensor:
        """Planes ne [width, height, 3] in 0..1 -> ne [width * scale, height * scale, 3]."""
        w, y = self._weights, x
        for i in range(self.n_layers):
            y = ops.conv_2d_direct(ctx, w[f"conv.{i}.weight"], y, padding=(1, 1))
            y = ops.add(ctx, y, w[f"conv.{i}.bias"])
            if f"conv.{i}.slope" in w:
                positive = ops.relu(ctx, y)
                negative = ops.mul(ctx, ops.sub(ctx, y, positive), w[f"conv.{i}.slope"])
                y = ops.add(ctx, positive, negative)
        y = pixel_shuffle(ctx, y, self._shuffle)
        y = ops.add(ctx, y, ops.upscale(ctx, x, self._shuffle))
        if self.scale != self._shuffle:
            ne = (x.ne[0] * self.scale, x.ne[1] * self.scale, x.ne[2])
            y = ops.interpolate(ctx, y, ne, ScaleMode.BICUBIC)
        return y

    def _planned(self, width: int, height: int) -> tuple[Graph, Tensor, Tensor]:
        """(graph, input, output) for windows of this size; planned once for a picture."""
        if self._graph is None or self._graph[0] != (width, height):
            ctx = Context(512, name="tile")
            x = ctx.new_tensor(Type.F32, (width, height, 3), name="tile").set_input()
            y = self._build(ctx, x).set_output()
            graph = Graph(512)
            graph.build_forward_expand(y)
            self._sched.alloc_graph(graph)
            self._graph = ((width, height), graph, x, y)
        return self._graph[1:]

    # ---- pictures -----------------------------------------------------------------------------

    def tiles(self, picture: U8) -> Iterator[tuple[U8, float]]:
        """Enlarge RGB pixels [height, width, 3]; after each tile yields (picture so far, share
        done). The picture is the same array each time. Raises `ShapeError` for another shape."""
        if (
            picture.ndim != 3
            or picture.shape[2] != 3
            or picture.dtype != np.uint8
            or not picture.size
        ):
            raise ShapeError(
                f"a picture must be uint8 [height, width, 3], got {picture.dtype} "
                f"{list(picture.shape)}; convert it to RGB first"
            )
        height, width = picture.shape[:2]
        window = self.tile + 2 * self.border
        columns = spans(width, min(window, width), self.border)
        rows = spans(height, min(window, height), self.border)
        size = (min(window, width), min(window, height))
        s = self.scale
        out = np.zeros((height * s, width * s, 3), np.uint8)
        done, total = 0, len(rows) * len(columns)
        for r in rows:
            for c in columns:
                part = picture[r.begin : r.begin + size[1], c.begin : c.begin + size[0]]
                big = self._run(part)
                kept = big[
                    (r.low - r.begin) * s : (r.high - r.begin) * s,
                    (c.low - c.begin) * s : (c.high - c.begin) * s,
                ]
                out[r.low * s : r.high * s, c.low * s : c.high * s] = kept
                done += 1
                yield out, done / total

    def __call__(self, picture: U8) -> U8:
        """The whole picture, RGB [height, width, 3], enlarged."""
        out = picture
        for out, _ in self.tiles(picture):  # noqa: B007
            pass
        return out

    def _run(self, part: U8) -> U8:
        graph, x, y = self._planned(part.shape[1], part.shape[0])
        x.set(np.ascontiguousarray(part.transpose(2, 0, 1), np.float32) / np.float32(255))
        self._sched.graph_compute(graph)
        planes = y.numpy()
        pixels = np.clip(planes * 255 + 0.5, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(pixels.transpose(1, 2, 0))

    @property
    def n_splits(self) -> int:
        """Parts that a tile is computed in; 1 where a single device runs all of it."""
        return self._sched.n_splits

    def close(self) -> None:
        """Free all memory."""
        self._sched.close()
        for b in self._buffers:
            b.free()
        self._buffers = []
        for backend in self._backends:
            backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()


def pixel_shuffle(ctx: Context, a: Tensor, r: int) -> Tensor:
    """ne [w, h, c * r * r] -> ne [w * r, h * r, c]: channel (c, dy, dx) becomes the pixel (dx, dy)
    of each square."""
    w, h, n = a.ne[0], a.ne[1], a.ne[2] // (r * r)
    y = ops.reshape(ctx, a, (w, h, r, r * n))
    y = ops.cont(ctx, ops.permute(ctx, y, 1, 2, 0, 3))  # dx, w, h, (dy, c)
    y = ops.reshape(ctx, y, (r * w, h, r, n))
    y = ops.cont(ctx, ops.permute(ctx, y, 0, 2, 1, 3))  # (dx, w), dy, h, c
    return ops.reshape(ctx, y, (r * w, r * h, n))


def read_picture(path: str | Path) -> U8:
    """RGB pixels [height, width, 3] of an image file. Raises `ModelError` where it is none."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise ModelError(f"{path} cannot be read as a picture: {error}") from error


def write_picture(path: str | Path, pixels: Any) -> None:
    """Save RGB pixels; the name's ending says how."""
    from PIL import Image

    try:
        Image.fromarray(pixels).save(path)
    except (ValueError, OSError) as error:
        raise ModelError(f"{path} cannot be written: {error}; try a name in .png") from error
