"""Files that are not what they should be: each is refused by name, at once, with little memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from wggml.errors import GGUFError
from wggml.gguf_io import ValueType as V
from wggml.gguf_io import open_gguf

BIG = (1 << 64) - 1


def refused(path: Path, *texts: str) -> str:
    """Opening must raise `GGUFError` with all `texts` in it, without taking 10 MB to find out."""
    tracemalloc.start()
    try:
        with pytest.raises(GGUFError) as caught:
            open_gguf(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    for text in (path.name, *texts):
        assert text in str(caught.value), f"{text!r} not in {caught.value}"
    return str(caught.value)


def model(craft: Callable, **fields: object):
    """A small sound file: two tensors of 64 f32 values."""
    c = craft(data=bytes(512), **fields)
    return c.tensor("a.weight", [64], 0, 0).tensor("b.weight", [64], 0, 256)


# --- report 49: not the file, or not all of it


def test_missing(tmp_path: Path, craft) -> None:
    refused(tmp_path / "no.gguf", "does not exist")
    refused(tmp_path / "folder" / "no.gguf", "there is no folder")
    model(craft).write(tmp_path / "SmolLM2.Q4_1.gguf")
    refused(tmp_path / "SmolLM2.Q4_0.gguf", "near names: SmolLM2.Q4_1.gguf")


def test_directory(tmp_path: Path, craft) -> None:
    refused(tmp_path, "is a directory", "no GGUF file is in it")
    model(craft).write(tmp_path / "m.gguf")
    refused(tmp_path, "it contains m.gguf")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html><head><title>Sign in", "HTML page"),
        (b"\n  <html>", "HTML page"),
        (b'{"error":"Invalid username or password."}', "JSON text"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "git lfs pull"),
        (b"tjgg" + bytes(60), "GGJT"),
        (b"PK\x03\x04" + bytes(60), "ZIP archive"),
        (gzip.compress(b"GGUF"), "gzip"),
        ((64).to_bytes(8, "little") + b'{"__metadata__"', "safetensors"),
        (bytes(100), "zeros"),
        (b"something else entirely", "no format known here"),
        (b"GGUF\3\0\0", "truncated"),
    ],
)
def test_not_a_gguf(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    refused(path, text)


def test_truncated_data_says_how_much_is_missing(tmp_path: Path, craft) -> None:
    whole = model(craft).build()
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[:-100])
    refused(path, "truncated", f"need {len(whole)} bytes", f"has {len(whole) - 100}", "100 missing",
            "1 of 2 tensors", "'b.weight'", "download it again")  # fmt: skip


def test_padding_after_the_last_tensor_may_be_missing(tmp_path: Path, craft) -> None:
    c = craft(data=bytes(12)).tensor("t", [3], 0)
    with open_gguf(c.write(tmp_path / "m.gguf")) as f:
        assert f.n_tensors == 1


@pytest.mark.parametrize("name", ["m.gguf.part1of2", "m.gguf.part00", "m.gguf.001"])
def test_pieces_of_a_file(tmp_path: Path, craft, name: str) -> None:
    whole = model(craft).build()
    first, second = tmp_path / name, tmp_path / name.replace("1", "2").replace("00", "02")
    first.write_bytes(whole[:300])
    second.write_bytes(whole[300:])
    refused(first, "truncated", "one piece of 'm.gguf'", "cat ")
    refused(second, "one piece of 'm.gguf'", "cat ")


def test_missing_file_whose_pieces_are_there(tmp_path: Path) -> None:
    (tmp_path / "m.gguf.part1of2").write_bytes(b"GGUF")
    refused(tmp_path / "m.gguf", "does not exist, but m.gguf.part1of2 does", "join all pieces")


# --- report 52: byte order and versions


@pytest.mark.parametrize(
    ("order", "version", "texts"),
    [
        ("<", 1, ("version 1", "convert the model again")),
        (">", 1, ("version 1",)),
        ("<", 0, ("version 0", "knows versions 2 and 3")),
        ("<", 4, ("version 4", "update")),
        ("<", 0x30000, ("version 196608",)),
    ],
)
def test_versions(tmp_path: Path, craft, order: str, version: int, texts: tuple[str, ...]) -> None:
    refused(model(craft, order=order, version=version).write(tmp_path / "m.gguf"), *texts)


# --- reports 46 and 47: numbers that mean to overflow or exhaust


@pytest.mark.parametrize("count", [1 << 31, 1 << 63, BIG])
def test_huge_counts(tmp_path: Path, craft, count: int) -> None:
    refused(model(craft, n_kv=count).write(tmp_path / "k.gguf"), f"{count} metadata keys", "left")
    refused(model(craft, n_tensors=count).write(tmp_path / "t.gguf"), f"{count} tensors", "left")


@pytest.mark.parametrize("length", [1 << 31, (1 << 63) - 1, BIG])
def test_huge_lengths(tmp_path: Path, craft, length: int) -> None:
    big = length.to_bytes(8, "little")
    c = model(craft)
    c.kv.append((b"text", int(V.STRING), big))
    refused(c.write(tmp_path / "m.gguf"), "metadata 'text'", str(length), "truncated or damaged")
    for item in (V.UINT8, V.FLOAT64, V.STRING, V.ARRAY):
        c.kv[-1] = (b"list", int(V.ARRAY), int(item).to_bytes(4, "little") + big)
        refused(c.write(tmp_path / "m.gguf"), "metadata 'list'", "truncated or damaged")
    for words in (c.string(b"a") + big, c.string(b"a") + big + bytes(100)):
        c.kv[-1] = (b"words", int(V.ARRAY), c.array(V.STRING, [words, b""]))
        refused(c.write(tmp_path / "m.gguf"), "metadata 'words'", "truncated or damaged")


def test_header_of_43_bytes(tmp_path: Path, craft) -> None:
    c = craft()
    array_of_arrays = int(V.ARRAY).to_bytes(4, "little") + (1 << 63).to_bytes(8, "little")
    c.kv[:] = [(b"a", int(V.ARRAY), array_of_arrays)]
    path = tmp_path / "m.gguf"
    path.write_bytes(c.header()[:43])
    refused(path, "needs")


def test_deeply_nested_arrays(tmp_path: Path, craft) -> None:
    c = craft()
    nested = c.array(V.UINT8, [b"\1"])
    for _ in range(2000):
        nested = c.array(V.ARRAY, [nested])
    c.kv.append((b"deep", int(V.ARRAY), nested))
    refused(c.write(tmp_path / "m.gguf"), "nests arrays more than 4 deep")


@pytest.mark.parametrize("n_dims", [5, 1_000_000, (1 << 32) - 1])
def test_too_many_dimensions(tmp_path: Path, craft, n_dims: int) -> None:
    c = model(craft)
    head = c.header()
    at = head.index(b"a.weight") + len(b"a.weight")
    path = tmp_path / "m.gguf"
    path.write_bytes(head[:at] + n_dims.to_bytes(4, "little") + head[at + 4 :] + bytes(600))
    refused(path, f"'a.weight' has {n_dims} dimensions", "at most 4")


@pytest.mark.parametrize("ne", [[BIG, 2], [1 << 63], [1 << 32, 1 << 32], [1 << 40] * 4])
def test_sizes_that_would_wrap_around(tmp_path: Path, craft, ne: list[int]) -> None:
    c = craft(data=bytes(64)).tensor("t", ne, 0, 0)
    refused(c.write(tmp_path / "m.gguf"), "truncated", "'t'")


# --- report 48: alignment


@pytest.mark.parametrize("alignment", [0, 3, 48, 1 << 30, (1 << 32) - 1])
def test_bad_alignment(tmp_path: Path, craft, alignment: int) -> None:
    c = model(craft).add("general.alignment", V.UINT32, alignment)
    refused(c.write(tmp_path / "m.gguf"), f"general.alignment is {alignment}", "power of two")


@pytest.mark.parametrize("kind", [V.INT32, V.UINT64, V.FLOAT32, V.BOOL])
def test_alignment_of_wrong_type(tmp_path: Path, craft, kind: V) -> None:
    c = model(craft).add("general.alignment", kind, 32 if kind is not V.BOOL else True)
    refused(c.write(tmp_path / "m.gguf"), f"has type {kind.name}", "UINT32")


def test_alignment_as_a_string(tmp_path: Path, craft) -> None:
    c = model(craft).add("general.alignment", V.STRING, "32")
    refused(c.write(tmp_path / "m.gguf"), "has type STRING")


# --- tables that contradict themselves


def test_names_twice(tmp_path: Path, craft) -> None:
    refused(model(craft).add("k", V.UINT8, 1).add("k", V.UINT8, 1).write(tmp_path / "k.gguf"),
            "key 'k' occurs twice")  # fmt: skip
    c = craft(data=bytes(512)).tensor("t", [64], 0, 0).tensor("t", [64], 0, 256)
    refused(c.write(tmp_path / "t.gguf"), "tensor 't' occurs twice")


def test_empty_key(tmp_path: Path, craft) -> None:
    refused(model(craft).add("", V.UINT8, 1).write(tmp_path / "m.gguf"), "empty name")


def test_unknown_types(tmp_path: Path, craft) -> None:
    c = model(craft)
    c.kv.append((b"key", 13, b"\0"))
    refused(c.write(tmp_path / "v.gguf"), "'key' has value type 13")
    refused(craft().tensor("t", [32], 31).write(tmp_path / "w.gguf"), "type 31 (Q4_0_4_4)")
    refused(craft().tensor("t", [32], 999).write(tmp_path / "u.gguf"), "tensor type 999", "'t'")


def test_rows_of_broken_blocks(tmp_path: Path, craft) -> None:
    c = craft(data=bytes(64)).tensor("t", [33], 2)
    refused(c.write(tmp_path / "m.gguf"), "'t' has rows of 33 values", "blocks of 32", "q4_0")


def test_offsets(tmp_path: Path, craft) -> None:
    c = craft(data=bytes(512)).tensor("t", [4], 0, 4)
    refused(c.write(tmp_path / "a.gguf"), "offset 4", "multiple of the alignment 32")
    c = craft(data=bytes(512)).tensor("a", [64], 0, 0).tensor("b", [4], 0, 224)
    refused(c.write(tmp_path / "o.gguf"), "'a' and 'b' overlap")
    c = craft(data=bytes(512)).tensor("t", [4], 0, BIG - 31)
    refused(c.write(tmp_path / "b.gguf"), "truncated")


# --- report 51: joined shards (missing and wrong ones: test_splits.py)


def test_two_files_joined(tmp_path: Path, craft) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(model(craft).build() * 2)
    refused(path, "second GGUF file begins", "Keep the parts apart")
