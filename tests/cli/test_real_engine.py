"""The command line over the real engine and a tiny model: text, and bad input of every kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Wggml = Callable[..., Result]

PROMPT = ("-p", "helloworld", "--device", "cpu", "--temp", "0")


@pytest.fixture(scope="module")
def tiny(tiny_model: Callable[[str], Path]) -> Path:
    """A tiny random model of architecture llama."""
    return tiny_model("llama")


def change_type(data: bytes, name: str, number: int) -> bytes:
    """`data` with another type number in the record of tensor `name`."""
    record = struct.pack("<Q", len(name)) + name.encode()
    at = data.index(record) + len(record)
    (n_dims,) = struct.unpack_from("<I", data, at)
    at += 4 + 8 * n_dims
    return data[:at] + struct.pack("<I", number) + data[at + 4 :]


def test_the_same_prompt_gives_the_same_text_and_figures(wggml: Wggml, tiny: Path) -> None:
    first = wggml("run", str(tiny), *PROMPT, "-n", "8", "--ignore-eos", "--perf")
    assert first.exit_code == 0, first.stderr
    assert first.stdout.startswith("helloworld")
    assert "8 tokens in" in first.stderr
    assert "CPU" in first.stderr
    assert "1 split" in first.stderr
    again = wggml("run", str(tiny), *PROMPT, "-n", "8", "--ignore-eos", "-q")
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_a_seed_makes_chance_repeatable(wggml: Wggml, tiny: Path) -> None:
    args = ("run", str(tiny), "-p", "hello", "--device", "cpu", "--temp", "2", "-n", "12", "-q")
    texts = {wggml(*args, "-s", seed).stdout for seed in ("1", "1", "2")}
    assert len(texts) == 2


@pytest.mark.parametrize("damage", ["half", "html", "empty", "arch", "withdrawn type", "i8 type"])
def test_a_bad_file_is_refused_in_words(
    wggml: Wggml, tiny: Path, tmp_path: Path, damage: str
) -> None:
    data = tiny.read_bytes()
    bad, expected = {
        "half": (data[: len(data) // 2], "cut"),
        "html": (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
        "empty": (b"", "empty"),
        "arch": (data.replace(b"llama", b"blama"), "'blama'"),
        "withdrawn type": (change_type(data, "blk.0.attn_q.weight", 4), "blk.0.attn_q.weight"),
        "i8 type": (change_type(data, "blk.0.attn_q.weight", 24), "blk.0.attn_q.weight"),
    }[damage]
    path = tmp_path / "bad.gguf"
    path.write_bytes(bad)
    done = wggml("run", str(path), *PROMPT, "-n", "4")
    assert done.exit_code == 2, (done.stderr, done.exception)
    assert done.stderr.startswith("Error: ")
    assert expected.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(
    wggml: Wggml, tiny: Path
) -> None:
    done = wggml("run", str(tiny), "-p", "hello" * 200, "--device", "cpu", "-c", "64")
    assert done.exit_code == 2
    assert "the context holds 64" in done.stderr
    assert done.stdout == ""


def test_a_device_that_does_not_exist_is_refused_with_those_that_do(
    wggml: Wggml, tiny: Path, no_gpu: None
) -> None:
    done = wggml("run", str(tiny), "-p", "x", "--device", "nothing like it")
    assert done.exit_code == 2
    assert "no device 'nothing like it'" in done.stderr
    assert "Soft0" in done.stderr
    assert "`wggml devices`" in done.stderr
