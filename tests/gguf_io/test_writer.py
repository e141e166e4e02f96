"""Writing, and reading back by two readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wggml.core.types import TRAITS, Type, row_size
from wggml.errors import GGUFError
from wggml.gguf_io import ValueType as V
from wggml.gguf_io import open_gguf, write_gguf

KV: dict[str, Any] = {
    "general.architecture": "llama",
    "text": "ż\n",
    "bytes": b"\xff\xfe",
    "empty": "",
    "yes": True,
    "small": 7,
    "negative": -7,
    "large": 1 << 40,
    "third": 1 / 3,
    "exact": np.float64(1 / 3),
    "short": np.uint16(9),
    "chosen": (V.UINT8, 5),
    "words": ["a", b"\xff", "c"],
    "ints": [1, 2, 3],
    "floats": [0.5, 1.5],
    "flags": np.array([True, False]),
    "numbers": np.arange(5, dtype=np.int64),
}
TYPES = {
    "text": V.STRING, "bytes": V.STRING, "empty": V.STRING, "yes": V.BOOL, "small": V.UINT32,
    "negative": V.INT32, "large": V.UINT64, "third": V.FLOAT32, "exact": V.FLOAT64,
    "short": V.UINT16, "chosen": V.UINT8,
}  # fmt: skip
ITEMS = {
    "words": V.STRING, "ints": V.INT32, "floats": V.FLOAT32, "flags": V.BOOL, "numbers": V.INT64,
}  # fmt: skip


def test_values_come_back(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, KV, {})
    with open_gguf(path) as f:
        assert list(f.kv) == list(KV)
        assert {k: f.kv_type(k) for k in TYPES} == TYPES
        assert {k: f.kv.entry(k).item for k in ITEMS} == ITEMS
        assert f.kv["text"] == "ż\n"
        assert f.kv.raw("bytes") == b"\xff\xfe"
        assert f.kv["empty"] == ""
        assert f.kv["yes"] is True
        assert f.kv["large"] == 1 << 40
        assert f.kv["third"] == np.float32(1 / 3)
        assert f.kv["exact"] == 1 / 3
        assert f.kv["chosen"] == 5
        assert f.kv.raw("words") == [b"a", b"\xff", b"c"]
        assert f.kv["numbers"].tolist() == [0, 1, 2, 3, 4]
        assert f.kv["flags"].tolist() == [True, False]


@pytest.mark.parametrize("t", list(Type), ids=lambda t: t.name)
def test_every_tensor_type_comes_back(tmp_path: Path, t: Type) -> None:
    ne = (2 * TRAITS[t].blck_size, 3, 2)
    raw = np.random.default_rng(0).integers(0, 256, row_size(t, ne[0]) * 6, dtype=np.uint8)
    path = tmp_path / "m.gguf"
    write_gguf(path, {"general.architecture": "x"}, {"pad": np.zeros(1), "w": (raw, t, ne)})
    with open_gguf(path) as f:
        assert f.tensors["w"].type == t
        assert f.tensors["w"].ne == (*ne, 1)
        np.testing.assert_array_equal(f.data("w"), raw)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "i2", "i4", "i8", ">f4"])
def test_arrays_come_back(tmp_path: Path, dtype: str) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(1, 0, 2)
    path = tmp_path / "m.gguf"
    write_gguf(path, {"general.alignment": 64}, {"x": x, "y": x})
    with open_gguf(path) as f:
        assert f.alignment == 64
        assert f.tensors["y"].shape == (3, 2, 4)
        np.testing.assert_array_equal(f.read_f32("y"), x)


def test_the_gguf_package_reads_the_same(tmp_path: Path) -> None:
    from gguf import GGUFReader

    path = tmp_path / "m.gguf"
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_gguf(path, {"general.architecture": "llama", "n": 5, "w": ["a", "b"]}, {"x": x})
    theirs = GGUFReader(path)
    assert theirs.fields["n"].contents() == 5
    assert theirs.fields["w"].contents() == ["a", "b"]
    np.testing.assert_array_equal(theirs.tensors[0].data, x)
    with open_gguf(path) as f:
        assert theirs.tensors[0].data_offset == f.tensors["x"].offset


@pytest.mark.parametrize(
    ("kv", "tensors", "text"),
    [
        ({"k": None}, {}, "NoneType"),
        ({"k": []}, {}, "items"),
        ({"k": [1, "a"]}, {}, "one type"),
        ({"k": np.zeros(0, np.int32)}, {}, "empty array"),
        ({"k": np.zeros(2, np.complex64)}, {}, "complex64"),
        ({}, {"t": np.zeros(2, np.complex64)}, "'t' is complex64"),
        ({}, {"t": np.zeros((1,) * 5, np.float32)}, "5 dimensions"),
        ({}, {"t": (np.zeros(17, np.uint8), Type.Q4_0, (32,))}, "takes 18 bytes"),
    ],
)
def test_refusals_leave_no_file(tmp_path: Path, kv, tensors, text: str) -> None:
    path = tmp_path / "m.gguf"
    with pytest.raises(GGUFError, match=text):
        write_gguf(path, kv, tensors)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, {"general.architecture": "old"}, {})
    with pytest.raises(GGUFError):
        write_gguf(path, {"general.architecture": "new", "bad": None}, {})
    with open_gguf(path) as f:
        assert f.architecture == "old"
