"""Pictures enlarged tile by tile: the converter, the net against NumPy's own, the seams."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import find_adapter
from wggml.errors import GGUFError, ModelError, ShapeError
from wggml.gguf_io import open_gguf
from wggml.gguf_io.ncnn import convert_realesr
from wggml.session import Session
from wggml.upscale import Upscaler, pixel_shuffle, read_picture, spans, write_picture

WIDTH, LAYERS = 8, 4


def write_ncnn(folder: Path, *, factor: int = 4, half: bool = True, resize: str = "") -> list[Path]:
    """A small random net in ncnn's form: LAYERS convolutions with PReLU between them."""
    rng = np.random.default_rng(3)
    lines = ["Input data 0 1 data", "Split s 1 2 data a b"]
    data, n_in = b"", 3
    for i in range(LAYERS):
        last = i + 1 == LAYERS
        n_out = 3 * factor * factor if last else WIDTH
        kernel = rng.standard_normal((n_out, n_in, 3, 3)) / np.sqrt(9 * n_in)
        lines.append(f"Convolution c{i} 1 1 x y 0={n_out} 1=3 4=1 5=1 6={kernel.size}")
        data += struct.pack("<I", 0x01306B47 if half else 0)
        packed = kernel.astype("<f2" if half else "<f4").tobytes()
        data += packed + bytes(-len(packed) % 4)
        data += (0.1 * rng.standard_normal(n_out)).astype("<f4").tobytes()
        if not last:
            lines.append(f"PReLU p{i} 1 1 x y 0={n_out}")
            data += rng.uniform(0, 0.3, n_out).astype("<f4").tobytes()
        n_in = n_out
    lines += [
        f"PixelShuffle d 1 1 x y 0={factor}",
        f"Interp r 1 1 b y 0=1 1={factor}.0 2={factor}.0",
    ]
    lines += ["BinaryOp add 2 1 x y out", *([resize] if resize else [])]
    param, numbers = folder / "net.param", folder / "net.bin"
    param.write_text("7767517\n" + f"{len(lines)} 99\n" + "\n".join(lines) + "\n")
    numbers.write_bytes(data)
    return [param, numbers]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("realesr")
    convert_realesr(*write_ncnn(folder), folder / "net.gguf")
    return folder / "net.gguf"


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    y, x = np.mgrid[0:37, 0:53]
    rgb = [128 + 100 * np.sin(x / 5 + c) * np.cos(y / (4 + c)) for c in range(3)]
    return np.stack(rgb, axis=-1).astype(np.uint8)


def by_hand(path: Path, picture: np.ndarray) -> np.ndarray:
    """The net in plain NumPy, float64."""
    with open_gguf(path) as f:
        w = {name: f.read_f32(name).astype(np.float64) for name in f.tensors}
        r = int(f.kv["realesr.shuffle"])
    x = y = picture.transpose(2, 0, 1) / 255.0
    for i in range(LAYERS):
        padded = np.pad(y, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        y = np.einsum("chwij,ocij->ohw", windows, w[f"conv.{i}.weight"])
        y += w[f"conv.{i}.bias"][:, None, None]
        if f"conv.{i}.slope" in w:
            y = np.where(y > 0, y, y * w[f"conv.{i}.slope"][:, None, None])
    c, (h, width) = len(y) // (r * r), y.shape[1:]
    y = y.reshape(c, r, r, h, width).transpose(0, 3, 1, 4, 2).reshape(c, h * r, width * r)
    y = y + x.repeat(r, 1).repeat(r, 2)
    return np.clip(y * 255 + 0.5, 0, 255).astype(np.uint8).transpose(1, 2, 0)


def test_equals_plain_numpy_on_every_device(net: Path, picture: np.ndarray, device_name: str):
    with Upscaler(net, device=device_name, tile=16) as upscaler:
        out = upscaler(picture)
    want = by_hand(net, picture)
    assert out.shape == want.shape == (37 * 4, 53 * 4, 3)
    off = np.abs(out.astype(float) - want)
    assert off.mean() <= 1.0 and off.max() <= 3


@pytest.mark.parametrize("tile", [8, 13, 29])
def test_no_seams(net: Path, picture: np.ndarray, tile: int):
    with Upscaler(net, device="cpu", tile=500) as upscaler:
        whole = upscaler(picture)
    with Upscaler(net, device="cpu", tile=tile) as upscaler:
        shares = [share for _, share in upscaler.tiles(picture)]
        assert len(shares) > 1 and shares == sorted(shares) and shares[-1] == 1.0
        np.testing.assert_array_equal(upscaler(picture), whole)


@pytest.mark.parametrize("length", range(1, 60, 7))
def test_spans_cover_once_and_keep_off_inner_edges(length: int):
    found = spans(length, min(17, length), 4)
    kept = [i for s in found for i in range(s.low, s.high)]
    assert kept == list(range(length))
    for s in found:
        size = min(17, length)
        assert 0 <= s.begin <= s.low < s.high <= s.begin + size <= length
        assert s.begin == 0 or s.low - s.begin >= 4
        assert s.begin + size == length or s.begin + size - s.high >= 4


def test_pixel_shuffle():
    with Session("cpu") as s:
        a = np.arange(2 * 9 * 4 * 5, dtype=np.float32).reshape(18, 4, 5)
        got = s.compute(pixel_shuffle(s.context, s.tensor(a), 3))
    want = a.reshape(2, 3, 3, 4, 5).transpose(0, 3, 1, 4, 2).reshape(2, 12, 15)
    np.testing.assert_array_equal(got, want)


def test_half_the_shuffle(tmp_path: Path, picture: np.ndarray):
    resize = "Interp half 1 1 x y 0=3 1=0.5 2=0.5"
    convert_realesr(*write_ncnn(tmp_path, half=False, resize=resize), tmp_path / "x2.gguf")
    with Upscaler(tmp_path / "x2.gguf", device="cpu") as upscaler:
        assert upscaler.scale == 2
        assert upscaler(picture).shape == (74, 106, 3)


def test_damaged_files(tmp_path: Path):
    param, numbers = write_ncnn(tmp_path)
    whole, text = numbers.read_bytes(), param.read_text()
    out = tmp_path / "net.gguf"
    for n in (0, 3, 50, len(whole) - 4):
        numbers.write_bytes(whole[:n])
        with pytest.raises(GGUFError):
            convert_realesr(param, numbers, out)
    numbers.write_bytes(whole + b"1234")
    with pytest.raises(GGUFError, match="do not belong together"):
        convert_realesr(param, numbers, out)
    numbers.write_bytes(whole)
    for bad in ("hello", text.replace("PReLU", "LSTM"), text.replace("1=3", "1=5")):
        param.write_text(bad)
        with pytest.raises(GGUFError):
            convert_realesr(param, numbers, out)


def test_refusals(net: Path, tmp_path: Path, tiny_model):
    with pytest.raises(ModelError, match="realesr-x4"):
        Upscaler(tiny_model("llama"), device="cpu")
    with Upscaler(net, device="cpu") as upscaler, pytest.raises(ShapeError, match="RGB"):
        next(upscaler.tiles(np.zeros((4, 4), np.uint8)))
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_text("no picture")
    with pytest.raises(ModelError, match="cannot be read"):
        read_picture(tmp_path / "x.png")
    with pytest.raises(ModelError, match="cannot be written"):
        write_picture(tmp_path / "x.nothing", np.zeros((4, 4, 3), np.uint8))


def test_one_split_on_a_gpu(net: Path):
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    with Upscaler(net, device="lavapipe", tile=8) as upscaler:
        upscaler(np.zeros((8, 8, 3), np.uint8))
        assert upscaler.n_splits == 1
