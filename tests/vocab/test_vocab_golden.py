"""Golden ids of real vocabularies, from the folder of recorded data."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.vocab.vocab_builders import glass_kv
from wggml.gguf_io import open_gguf
from wggml.vocab import Vocab

VOCABULARIES = (
    "bert-bge", "command-r", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm", "phi-3",
    "qwen2", "starcoder",
)  # fmt: skip
_SEPARATOR = "\n__ggml_vocab_test__\n"


@cache
def _open(path: Path) -> Vocab:
    with open_gguf(path) as file:
        return Vocab.from_kv(file.kv)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocab_cases(name: str, shared_dir: Path) -> None:
    path = shared_dir / "oracle" / "vocab" / f"ggml-vocab-{name}.gguf"
    texts = path.with_name(path.name + ".inp").read_bytes().decode("utf-8").split(_SEPARATOR)[:-1]
    lines = path.with_name(path.name + ".out").read_text().split("\n")[: len(texts)]
    vocab = _open(path)
    assert len(texts) == len(lines) == 46
    for text, line in zip(texts, lines, strict=True):
        assert vocab.encode(text, add_special=False) == [int(i) for i in line.split()], text


def _model(shared_dir: Path, data_dir: Path, name: str) -> Vocab:
    """The vocabulary that belongs to a folder of `oracle/llm`."""
    if name == "glass-pt":
        return Vocab.from_kv(glass_kv(data_dir / "vocab" / "glass-pt.tokenizer.json"))
    if name == "minilm":  # the same 30522 tokens
        return _open(shared_dir / "oracle" / "vocab" / "ggml-vocab-bert-bge.gguf")
    file = {"smollm2-135m": "smollm2.gguf", "gemma3-270m": "gemma3-270m.gguf"}[name]
    folder = Path(os.environ.get("WGGML_MODELS") or shared_dir.parent / "models")
    if not (folder / file).is_file():
        pytest.skip(f"no {file} in {folder}; set WGGML_MODELS to the folder that has it")
    return _open(folder / file)


def _json(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m", "glass-pt", "minilm"])
def test_tokenize_json(name: str, shared_dir: Path, data_dir: Path) -> None:
    vocab = _model(shared_dir, data_dir, name)
    cases = _json(shared_dir / "oracle" / "llm" / name / "tokenize.json")["cases"]
    assert len(cases) > 20
    for case in cases:
        text = case["text"]
        for key, add, parse in (
            ("ids_plain", False, False),
            ("ids_parse", False, True),
            ("ids_add", True, False),
            ("ids_special", True, True),
        ):
            got = vocab.encode(text, add_special=add, parse_special=parse)
            assert got == case[key], (key, text)
        assert [vocab.piece(i, special=True).hex() for i in case["ids_plain"]] == case["pieces_hex"]


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m", "glass-pt"])
def test_prompts_json(name: str, shared_dir: Path, data_dir: Path) -> None:
    vocab = _model(shared_dir, data_dir, name)
    data = _json(shared_dir / "oracle" / "llm" / name / "prompts.json")
    wanted = [None if data[key] == -1 else data[key] for key in ("bos", "eos", "eot")]
    assert [vocab.bos, vocab.eos, vocab.eot] == wanted
    assert (vocab.n_tokens, vocab.add_bos, vocab.add_eos) == (
        data["n_vocab"],
        data["add_bos"],
        data["add_eos"],
    )
    for prompt in data["prompts"]:
        text = prompt["text"]
        assert vocab.encode(text, add_special=False) == prompt["ids_plain"], text
        assert vocab.encode(text, parse_special=True) == prompt["ids_special"], text
        pieces = [vocab.piece(i, special=True).hex() for i in prompt["ids_special"]]
        assert pieces == prompt["pieces_hex"]
