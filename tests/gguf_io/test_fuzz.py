"""Whatever happens to a file's bytes: it opens and can be read whole, or `GGUFError`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wggml.errors import GGUFError
from wggml.gguf_io import open_gguf, write_gguf


def _small_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        kv = {
            "general.architecture": "llama",
            "general.alignment": 32,
            "llama.block_count": 2,
            "llama.rope.freq_base": 1e4,
            "flag": True,
            "tokens": ["a", "bc", "déf"],
            "scores": np.array([0.5, -1], np.float32),
        }
        ramp = np.arange(40, dtype=np.float32)
        write_gguf(path, kv, {"a": ramp, "b": ramp.astype(np.float16).reshape(5, 8)})
        return path.read_bytes()


WHOLE = _small_file()


def _open_and_read_all(content: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(content)
        try:
            with open_gguf(path) as f:
                for key in f.kv:
                    f.kv[key]
                    f.kv.raw(key)
                    f.kv.head(key, 1)
                with np.errstate(all="ignore"):
                    for name in f.tensors:
                        f.read_f32(name)
        except GGUFError as e:
            assert str(path) in str(e)
            return False
        return True


def test_the_sound_file() -> None:
    assert _open_and_read_all(WHOLE)


@settings(max_examples=150, deadline=None)
@given(size=st.integers(0, len(WHOLE) - 1))
def test_truncated(size: int) -> None:
    cut = WHOLE[:size]
    # the last tensor's padding may be missing, nothing else
    assert _open_and_read_all(cut) == (size >= len(WHOLE.rstrip(b"\0")))


_FLIPS = st.lists(
    st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4
)


@settings(max_examples=500, deadline=None)
@given(flips=_FLIPS)
def test_changed_bytes(flips: list[tuple[int, int]]) -> None:
    content = bytearray(WHOLE)
    for at, value in flips:
        content[at] = value
    _open_and_read_all(bytes(content))


@settings(max_examples=200, deadline=None)
@given(
    at=st.integers(0, len(WHOLE) - 8),
    value=st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1]),
    width=st.sampled_from([4, 8]),
)
def test_wild_numbers(at: int, value: int, width: int) -> None:
    number = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    _open_and_read_all(WHOLE[:at] + number + WHOLE[at + width :])


@settings(max_examples=100, deadline=None)
@given(tail=st.binary(max_size=200))
def test_random_bytes_after_the_magic(tail: bytes) -> None:
    _open_and_read_all(b"GGUF\3\0\0\0" + tail)
