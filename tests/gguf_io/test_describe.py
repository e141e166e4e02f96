"""The summary of a file, as data and on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from wggml.core.types import Type
from wggml.gguf_io import open_gguf, write_gguf
from wggml.gguf_io.describe import Summary, TypeRow, describe, printable, render


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    kv = {
        "general.architecture": "llama",
        "tokenizer.ggml.tokens": [f"token{i}" for i in range(1000)],
        "template": "{% if [bold] %}\n\x1b[31m" + "x" * 500,
        "bytes": b"\xff",
        "third": 1 / 3,
    }
    tensors = {
        "a.weight": (np.zeros(64 * 4 // 32 * 18, np.uint8), Type.Q4_0, (64, 4)),
        "b.weight": (np.zeros(64 * 4 // 32 * 18, np.uint8), Type.Q4_0, (64, 2, 2)),
        "norm": np.zeros(64, np.float32),
    }
    write_gguf(tmp_path / "m.gguf", kv, tensors)
    with open_gguf(tmp_path / "m.gguf") as f:
        return describe(f)


def test_numbers(summary: Summary) -> None:
    assert summary.architecture == "llama"
    assert summary.n_parameters == 2 * 256 + 64
    assert summary.tensor_bytes == 2 * 144 + 256
    assert summary.bits_per_weight == pytest.approx(8 * 544 / 576)
    assert summary.file_bytes == Path(summary.path).stat().st_size
    assert summary.types == [TypeRow(Type.Q4_0, 2, 512, 288), TypeRow(Type.F32, 1, 64, 256)]


def test_keys_are_short_and_printable(summary: Summary) -> None:
    rows = {k.name: k for k in summary.keys}
    assert rows["tokenizer.ggml.tokens"].type == "ARRAY of STRING [1000]"
    assert rows["tokenizer.ggml.tokens"].value == "[token0, token1, token2, token3, ...]"
    assert rows["third"].value == "0.3333333"
    assert rows["template"].value.startswith("{% if [bold] %}\\n\\x1b[31m")
    assert len(rows["template"].value) < 120
    assert printable(rows["bytes"].value) == rows["bytes"].value
    assert all(c.isprintable() for k in summary.keys for c in k.value)


@pytest.mark.parametrize("tensors", [True, False])
def test_render(summary: Summary, tensors: bool) -> None:
    console = Console(file=io.StringIO(), width=160)
    render(summary, console, tensors=tensors)
    text = console.file.getvalue()
    assert "576 parameters in 3 tensors" in text
    assert "7.56 bits a weight" in text
    assert "[bold]" in text  # data, not markup
    assert ("64 x 2 x 2" in text) == tensors


def test_a_file_without_anything(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", {}, {})
    with open_gguf(tmp_path / "m.gguf") as f:
        empty = describe(f)
    assert empty.bits_per_weight == 0
    assert empty.architecture == "not given"
    render(empty, Console(file=io.StringIO()))
