"""Ids recorded from llama.cpp for small vocabularies, committed with the tests."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.vocab.vocab_builders import (
    KV,
    glass_kv,
    spaced_bpe_kv,
    spm_kv,
    substring_bpe_kv,
    wpm_kv,
)
from tests.vocab.vocab_texts import CUTS, TEXTS
from wggml.vocab import Vocab
from wggml.vocab.pretokenizers import PRE_TOKENIZERS, split_words

CUT_NAMES = [name for name, pre in PRE_TOKENIZERS.items() if pre.byte_level]


@pytest.fixture(scope="module")
def recorded(data_dir: Path) -> dict[str, Any]:
    with lzma.open(data_dir / "vocab" / "recorded.json.xz", "rt") as file:
        data: dict[str, Any] = json.load(file)
    return data


def _vocabulary(name: str, glass: Path) -> KV:
    makers = {
        "glass": glass_kv,
        "spm": spm_kv,
        "spm_no_prefix": lambda path: spm_kv(path, add_space_prefix=False, add_eos_token=True),
        "gemma4": spaced_bpe_kv,
        "sarvam-moe": lambda path: spaced_bpe_kv(path, "sarvam-moe"),
        "wpm": lambda path: wpm_kv(),
    }
    return makers[name](glass)


@pytest.mark.parametrize("name", ["glass", "spm", "spm_no_prefix", "gemma4", "sarvam-moe", "wpm"])
def test_whole_texts(name: str, recorded: dict[str, Any], data_dir: Path) -> None:
    vocab = Vocab.from_kv(_vocabulary(name, data_dir / "vocab" / "glass-pt.tokenizer.json"))
    cases = recorded["texts"][name]
    assert len(cases) == (21 if name == "glass" else len(TEXTS))
    for case in cases:
        text = case["text"]
        assert vocab.encode(text, add_special=False) == case["plain"], text
        assert vocab.encode(text, add_special=False, parse_special=True) == case["parse"], text
        assert vocab.encode(text, parse_special=True) == case["special"], text


@pytest.fixture(scope="module")
def cut_vocabulary() -> KV:
    return substring_bpe_kv(CUTS, "default")


@pytest.mark.parametrize("name", CUT_NAMES)
def test_pre_tokenizer_cuts(name: str, recorded: dict[str, Any], cut_vocabulary: KV) -> None:
    vocab = Vocab.from_kv(cut_vocabulary, pre=name)
    wanted = recorded["cuts"][name]
    assert len(wanted) == len(CUTS)
    for text, ids in zip(CUTS, wanted, strict=True):
        assert vocab.encode(text, add_special=False) == ids, (text, split_words(vocab._pre, text))


def test_cut_vocabulary_shows_every_cut(cut_vocabulary: KV) -> None:
    """The recorded ids are worth something only if each word is one token."""
    vocab = Vocab.from_kv(cut_vocabulary, pre="qwen2")
    merged = sum(
        len(vocab.encode(text)) <= len(split_words(PRE_TOKENIZERS["qwen2"], text)) for text in CUTS
    )
    assert merged > 0.9 * len(CUTS)
