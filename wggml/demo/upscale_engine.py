"""`UpscaleEngine`: a picture enlarged tile by tile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wggml.demo.engine import Engine
from wggml.errors import UsageError, WggmlError
from wggml.hal.interface import DeviceType
from wggml.hal.registry import default_registry
from wggml.upscale import U8, Upscaler, read_picture, write_picture

JOB = "upscale"
MODEL = "realesr-x4"
SOFTWARE_TILE = 40
"""A smaller tile than on the command line: chat and training want their turns."""
LARGEST = 2_000_000
"""Pixels of a source; its result is sixteen times that."""


@dataclass(frozen=True, slots=True)
class UpscaleState:
    """What the tab draws. source, result: RGB pixels; `part` the share of the result that is done;
    psnr: of the result brought back to the source's size, against the source, in dB."""

    note: str = ""
    name: str = ""
    source: U8 | None = None
    result: U8 | None = None
    part: float = 0.0
    seconds: float = 0.0
    scale: int = 4
    psnr: float = 0.0
    version: int = 0


class UpscaleEngine:
    """Commands for the window, `state` to draw."""

    def __init__(self, engine: Engine, device: str) -> None:
        self.engine = engine
        self.device = device
        self.state = UpscaleState()
        self._upscaler: Upscaler | None = None
        self._fetching = False
        engine.on_close(self._close)

    def _publish(self, **changes: Any) -> None:
        self.state = replace(self.state, version=self.state.version + 1, **changes)
        self.engine.changes += 1

    # ---- commands of the window ---------------------------------------------------------------

    def open(self, path: Path) -> None:
        """Enlarge an image file."""
        self.engine.post(JOB, lambda: self._open(path.name, read_picture(path)))

    def sample(self) -> None:
        """Enlarge part of a photograph that comes with scikit-learn."""
        self.engine.post(JOB, lambda: self._open("flower.jpg (scikit-learn), a part", sample()))

    def stop(self) -> None:
        self.engine.post(JOB, lambda: self.engine.end_job(JOB))

    def save(self, path: Path) -> None:
        """Write the result beside other files; the note says where."""
        self.engine.post(JOB, lambda: self._save(path))

    # ---- the engine's thread --------------------------------------------------------------------

    def _open(self, name: str, picture: U8) -> None:
        self.engine.end_job(JOB)
        if picture.shape[0] * picture.shape[1] > LARGEST:
            raise UsageError(
                f"{name} has {picture.shape[1]}x{picture.shape[0]} pixels; the window takes up to "
                f"{LARGEST / 1e6:.0f} million. Use examples/upscale.py"
            )
        self._publish(name=name, source=picture, result=None, part=0.0, seconds=0.0, psnr=0.0)
        if self._upscaler is not None:
            self.engine.start_job(JOB, self._run(picture))
        elif not self._fetching:
            self._fetching = True
            self._publish(note="fetching the model (44 MiB, once)")
            threading.Thread(target=self._fetch, name="wggml fetch", daemon=True).start()

    def _fetch(self) -> None:
        """On a thread of its own: a slow network must not hold up the engine."""
        from wggml.hub import resolve_model

        try:
            path = resolve_model(MODEL, progress=False)
        except WggmlError as error:
            self.engine.errors[JOB] = str(error)
        else:
            self.engine.post(JOB, lambda: self._loaded(path))
        self._fetching = False
        self._publish(note="")

    def _loaded(self, path: Path) -> None:
        software = default_registry().find(self.device).type is DeviceType.SOFTWARE
        self._upscaler = Upscaler(
            path, device=self.device, tile=SOFTWARE_TILE if software else None
        )
        self._publish(scale=self._upscaler.scale)
        if self.state.source is not None:
            self.engine.start_job(JOB, self._run(self.state.source))

    def _run(self, picture: U8) -> Iterator[None]:
        assert self._upscaler is not None
        start = time.perf_counter()
        for result, share in self._upscaler.tiles(picture):
            # a copy: the window draws this one while the next tile is written
            self._publish(result=result.copy(), part=share, seconds=time.perf_counter() - start)
            yield
        assert self.state.result is not None
        self._publish(psnr=psnr(picture, shrink(self.state.result, self._upscaler.scale)))

    def _save(self, path: Path) -> None:
        if self.state.result is None:
            return
        write_picture(path, self.state.result)
        self._publish(note=f"saved to {path}")

    def _close(self) -> None:
        if self._upscaler is not None:
            self._upscaler.close()
            self._upscaler = None


def sample() -> U8:
    """160x120 pixels of a photograph. Raises `UsageError` without scikit-learn."""
    try:
        from sklearn.datasets import load_sample_image
    except ImportError as error:
        raise UsageError("the sample comes with scikit-learn: pip install 'wggml[demo]'") from error
    picture: U8 = np.asarray(load_sample_image("flower.jpg"))[60:180, 330:490]
    return np.ascontiguousarray(picture)


def shrink(picture: U8, times: int) -> np.ndarray[Any, Any]:
    """Each square of `times` x `times` pixels averaged, float64."""
    h, w = picture.shape[0] // times, picture.shape[1] // times
    out: np.ndarray[Any, Any] = picture.reshape(h, times, w, times, 3).mean(axis=(1, 3))
    return out


def psnr(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """Peak signal to noise of two pictures in 0..255, in dB."""
    error = float(((a.astype(np.float64) - b) ** 2).mean())
    return float(10 * np.log10(255**2 / max(error, 1e-9)))
