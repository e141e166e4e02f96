"""What an intact file gives."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from wggml.core.types import Type
from wggml.errors import GGUFError
from wggml.gguf_io import ValueType as V
from wggml.gguf_io import open_gguf
from wggml.quants import quantize

SCALARS = {
    V.UINT8: 200, V.INT8: -100, V.UINT16: 60000, V.INT16: -30000, V.UINT32: 4_000_000_000,
    V.INT32: -2_000_000_000, V.FLOAT32: 1.5, V.BOOL: True, V.UINT64: 1 << 63, V.INT64: -(1 << 62),
    V.FLOAT64: 0.1, V.STRING: "żółw",
}  # fmt: skip


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [2, 3])
def test_every_value_type(tmp_path: Path, craft, order: str, version: int) -> None:
    c = craft(order=order, version=version)
    for kind, value in SCALARS.items():
        c.add(f"s.{kind.name}", kind, value)
        c.add_array(f"a.{kind.name}", kind, [value, value])
        c.add_array(f"e.{kind.name}", kind, [])
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.version == version
        assert f.byte_order == {"<": "little", ">": "big"}[order]
        for kind, value in SCALARS.items():
            assert f.kv[f"s.{kind.name}"] == value
            assert type(f.kv[f"s.{kind.name}"]) is type(value)
            assert f.kv_type(f"s.{kind.name}") is kind
            array = f.kv[f"a.{kind.name}"]
            assert list(array) == [value, value]
            assert f.kv_type(f"a.{kind.name}") is V.ARRAY
            assert f.kv.entry(f"a.{kind.name}").item is kind
            assert len(f.kv[f"e.{kind.name}"]) == 0
            if kind is not V.STRING:
                assert array.dtype.isnative
                assert not array.flags.writeable


def test_nested_arrays_and_head(tmp_path: Path, craft) -> None:
    c = craft()
    inner = [c.array(V.UINT8, [b"\1", b"\2"]), c.array(V.STRING, [c.string(b"x")])]
    c.kv.append((b"nested", int(V.ARRAY), c.array(V.ARRAY, inner)))
    c.add_array("words", V.STRING, [str(i) for i in range(100)])
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        numbers, words = f.kv["nested"]
        assert numbers.tolist() == [1, 2]
        assert words == ["x"]
        assert f.kv.head("words", 3) == ["0", "1", "2"]
        assert len(f.kv["words"]) == 100
        assert dict(f.kv)["words"][-1] == "99"


def test_bytes_that_are_no_text_survive(tmp_path: Path, craft) -> None:
    bad = b"\xe2\x96"  # half a character
    c = craft().add("text", V.STRING, bad).add_array("texts", V.STRING, [bad, "ok"])
    c.add(bad, V.UINT8, 1)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.kv["text"].encode("utf-8", "surrogateescape") == bad
        assert f.kv.raw("text") == bad
        assert f.kv.raw("texts") == [bad, b"ok"]
        assert f.kv[bad.decode("utf-8", "surrogateescape")] == 1


def test_values_are_decoded_once_and_only_when_asked(tmp_path: Path, craft) -> None:
    c = craft().add_array("words", V.STRING, ["a", "b"])
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert "words" not in f.kv._cache
        assert "words" in f.kv
        assert list(f.kv) == ["general.architecture", "words"]
        assert f.kv["words"] is f.kv["words"]


@pytest.mark.parametrize("alignment", [1, 8, 32, 64, 4096])
def test_data_start_follows_the_alignment(tmp_path: Path, craft, alignment: int) -> None:
    """Report 53: the data begins at the rounded end of the table; offset 0 is a real offset."""
    first, second = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.int16)
    at = -(-12 // alignment) * alignment
    data = first.tobytes().ljust(at, b"\0") + second.tobytes()
    c = craft(alignment=alignment, data=data).add("general.alignment", V.UINT32, alignment)
    c.tensor("first", [3], 0, 0).tensor("second", [5, 1, 1], 25, at)
    path = c.write(tmp_path / "m.gguf")
    with open_gguf(path) as f:
        assert f.alignment == alignment
        assert f.data_start == -(-len(c.header()) // alignment) * alignment
        assert f.tensors["first"].offset == f.data_start
        assert f.tensors["first"].ne == (3, 1, 1, 1)
        assert f.tensors["second"].shape == (1, 1, 5)
        assert f.read_f32("first").tolist() == [0, 1, 2]
        assert f.data("second").view(np.int16).tolist() == [0, 1, 2, 3, 4]
        assert f.n_tensors == 2
        assert f.nbytes == 22
        assert f.file_bytes == path.stat().st_size


def test_data_is_a_view_that_outlives_close(tmp_path: Path, craft) -> None:
    c = craft(data=bytes(range(64))).tensor("t", [16], 0).tensor("none", [0, 4], 0)
    f = open_gguf(c.write(tmp_path / "m.gguf"))
    view = f.data("t")
    assert view.base is not None
    assert not view.flags.writeable
    assert f.data("none").size == 0
    f.close()
    f.close()
    assert bytes(view) == bytes(range(64))
    with pytest.raises(GGUFError, match="closed"):
        f.data("t")
    with pytest.raises(GGUFError, match="closed"):
        f.kv["general.architecture"]


def test_scalar_and_one_dimension_shapes(tmp_path: Path, craft) -> None:
    c = craft(data=struct.pack("<f", 2.5)).tensor("scalar", [], 0)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.tensors["scalar"].ne == (1, 1, 1, 1)
        assert f.read_f32("scalar").tolist() == [2.5]


def test_rows_of_blocks(tmp_path: Path, craft) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 64), np.float32)
    raw = quantize(x, Type.Q8_0)
    c = craft(data=raw.tobytes()).tensor("w", [64, 3, 2], int(Type.Q8_0))
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.rows("w").shape == (6, 68)
        assert f.read_f32("w").shape == (2, 3, 64)
        np.testing.assert_allclose(f.read_f32("w"), x, atol=0.05)


def test_big_endian_data_is_swapped(tmp_path: Path, craft) -> None:
    """Report 52."""
    x = np.linspace(-3, 3, 64).astype(np.float32)
    blocks = quantize(x, Type.Q4_0).copy()
    blocks.reshape(-1, 18)[:, :2] = blocks.reshape(-1, 18)[:, 1::-1]
    data = x.astype(">f4").tobytes() + blocks.tobytes()
    c = craft(order=">", data=data).tensor("x", [64], 0, 0).tensor("q", [64], 2, 256)
    c.tensor("iq", [0], int(Type.IQ2_XXS), 0)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        np.testing.assert_array_equal(f.read_f32("x"), x)
        np.testing.assert_array_equal(f.data("q"), quantize(x, Type.Q4_0))


def test_big_endian_codebook_types_are_refused_by_name(tmp_path: Path, craft) -> None:
    c = craft(order=">", data=bytes(66)).tensor("iq", [256], int(Type.IQ2_XXS), 0)
    with (
        open_gguf(c.write(tmp_path / "m.gguf")) as f,
        pytest.raises(GGUFError, match=r"'iq' is big-endian and of type iq2_xxs.*convert"),
    ):
        f.data("iq")


def test_architecture_helpers(tmp_path: Path, craft) -> None:
    c = craft().add("llama.block_count", V.UINT32, 2)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.architecture == "llama"
        assert f.arch_get("block_count") == 2
        assert f.arch_get("nothing", 7) == 7
        assert f.get("nothing") is None
        assert f.require("llama.block_count") == 2
        with pytest.raises(GGUFError, match=r"'llama.blockcount' is missing; near.*block_count"):
            f.require("llama.blockcount")


def test_missing_tensor_is_not_called_truncated(tmp_path: Path, craft) -> None:
    """Report 50: the error names architecture and near names."""
    c = craft(data=bytes(4)).tensor("blk.0.ffn_gate_exps.weight", [1], 0)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.require_tensor("blk.0.ffn_gate_exps.weight").nbytes == 4
        with pytest.raises(GGUFError) as caught:
            f.require_tensor("blk.0.ffn_gate.weight")
        text = str(caught.value)
        assert "'llama' needs tensor 'blk.0.ffn_gate.weight'" in text
        assert "near names: blk.0.ffn_gate_exps.weight" in text
        assert "truncated" not in text


def test_no_architecture(tmp_path: Path, craft) -> None:
    c = craft()
    c.kv.clear()
    with (
        open_gguf(c.write(tmp_path / "m.gguf")) as f,
        pytest.raises(GGUFError, match=r"'general\.architecture' is missing"),
    ):
        _ = f.architecture
