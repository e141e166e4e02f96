"""What `Vocab.from_kv` makes of the keys, and how it refuses bad ones."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.vocab.vocab_builders import KV, glass_kv, spm_kv, substring_bpe_kv, wpm_kv
from wggml.errors import TokenizerError
from wggml.vocab import TokenType, Vocab
from wggml.vocab.pretokenizers import PRE_TOKENIZERS, PreTokenizer, split_words
from wggml.vocab.unicode_version import UNASSIGNED, freeze


@pytest.fixture(scope="module")
def glass(data_dir: Path) -> Path:
    return data_dir / "vocab" / "glass-pt.tokenizer.json"


@pytest.fixture
def spm(glass: Path) -> KV:
    return spm_kv(glass)


@pytest.fixture(scope="module")
def bpe() -> KV:
    return substring_bpe_kv(["hello", " world"], "gpt-2")


def _with(kv: KV, **keys: Any) -> KV:
    changed = kv | {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    return {key: value for key, value in changed.items() if value is not None}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing"),
        ({"model": "t5"}, r"model is 't5' \(UGM\)"),
        ({"model": "rwkv"}, r"model is 'rwkv' \(RWKV\)"),
        ({"model": "fancy"}, "'fancy', which is unknown"),
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": []}, "tokens is empty"),
        ({"tokens": "abc"}, "tokens must be an array"),
        ({"tokens": ["a", 1]}, r"tokens\[1\] must be a string"),
        ({"scores": None}, "scores is missing"),
        ({"scores": [0.0]}, "scores has 1 entries"),
        ({"scores": ["a"] * 2000}, "scores must be an array of numbers"),
        ({"token_type": [1, 2]}, "token_type has 2 entries"),
        ({"eos_token_id": 99999}, r"eos_token_id is 99999, outside"),
        ({"bos_token_id": -1}, r"bos_token_id is -1, outside"),
    ],
)
def test_bad_key_is_named(spm: KV, change: KV, named: str) -> None:
    with pytest.raises(TokenizerError, match=named):
        Vocab.from_kv(_with(spm, **change))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"merges": None}, "merges is missing"),
        ({"merges": ["h e", "nospace"]}, r"merges\[1\] is 'nospace'"),
        ({"merges": ["h "]}, r"merges\[0\] is 'h '"),
        ({"merges": [" e"]}, r"merges\[0\] is ' e'"),
        ({"pre": "qwen-2"}, r"pre is 'qwen-2', .*\(similar: qwen2"),
        ({"add_bos_token": True, "bos_token_id": None}, "add_bos_token is set"),
        ({"add_eos_token": True, "eos_token_id": None}, "add_eos_token is set"),
    ],
)
def test_bad_bpe_key_is_named(bpe: KV, change: KV, named: str) -> None:
    with pytest.raises(TokenizerError, match=named):
        Vocab.from_kv(_with(bpe, **change))


def test_wpm_needs_its_special_ids() -> None:
    keys = {f"{role}_token_id": None for role in ("bos", "cls")}
    with pytest.raises(TokenizerError, match="bos_token_id is missing"):
        Vocab.from_kv(_with(wpm_kv(), **keys))


def test_missing_pre_warns(bpe: KV, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "wggml.vocab"):
        vocab = Vocab.from_kv(_with(bpe, pre=None))
    assert vocab.pre == "default"
    assert "tokenizer.ggml.pre is missing" in caplog.text


def test_pre_can_be_overridden(bpe: KV) -> None:
    assert Vocab.from_kv(_with(bpe, pre="unheard-of"), pre="llama-bpe").add_bos is False
    assert Vocab.from_kv(_with(bpe, add_bos_token=None), pre="llama-bpe").add_bos is True


def test_ids_and_flags(spm: KV) -> None:
    vocab = Vocab.from_kv(_with(spm, padding_token_id=5))
    assert (vocab.type, vocab.bos, vocab.eos, vocab.unk, vocab.pad) == ("spm", 1, 2, 0, 5)
    assert (vocab.sep, vocab.mask, vocab.nl) == (None, None, 3 + 10)
    assert (vocab.add_bos, vocab.add_eos, vocab.add_space_prefix) == (True, False, True)
    end = vocab.token_id("<|end|>")
    assert vocab.eot == end
    assert vocab.eog_ids == {2, end}
    assert vocab.is_eog(2)
    assert not vocab.is_eog(1)
    assert len(vocab) == vocab.n_tokens == len(spm["tokenizer.ggml.tokens"])


def test_numpy_arrays_and_byte_strings(spm: KV) -> None:
    texts = spm["tokenizer.ggml.tokens"]
    changed = _with(
        spm,
        tokens=[text.encode() for text in texts],
        scores=np.array(spm["tokenizer.ggml.scores"], np.float32),
        token_type=np.array(spm["tokenizer.ggml.token_type"], np.int32),
    )
    vocab = Vocab.from_kv(changed)
    assert vocab.encode("o mar") == Vocab.from_kv(spm).encode("o mar")
    assert vocab.score(len(texts) - 7) == spm["tokenizer.ggml.scores"][-7]
    assert type(vocab.score(0)) is float


def test_token_text_that_is_no_utf8(spm: KV) -> None:
    texts = [text.encode() for text in spm["tokenizer.ggml.tokens"]]
    texts[-1] = b"\xff\xfe"
    vocab = Vocab.from_kv(_with(spm, tokens=texts))
    assert vocab.piece(len(texts) - 1) == b"\xff\xfe"


def test_end_marks_become_control_tokens(spm: KV) -> None:
    types = list(spm["tokenizer.ggml.token_type"])
    end = spm["tokenizer.ggml.tokens"].index("<|end|>")
    types[end] = TokenType.NORMAL
    vocab = Vocab.from_kv(_with(spm, token_type=types))
    assert vocab.token_type(end) is TokenType.CONTROL
    assert vocab.piece(end) == b""
    assert types[end] == TokenType.NORMAL  # the caller's list is left alone


@pytest.mark.parametrize(
    ("extra", "ends", "stays"),
    [
        (["<|end|>", "<|return|>", "<|call|>"], {"<|return|>", "<|call|>"}, "<|end|>"),
        (["<|end|>", "<|calls|>", "<|flush|>"], {"<|calls|>", "<|flush|>"}, "<|end|>"),
        (["<|end|>", "<|return|>"], {"<|end|>", "<|return|>"}, None),
        (["<|tool_response>", "<turn|>"], {"<|tool_response>", "<turn|>"}, "</s>"),
    ],
)
def test_end_of_generation_by_name(
    bpe: KV, extra: list[str], ends: set[str], stays: str | None
) -> None:
    tokens = [*bpe["tokenizer.ggml.tokens"], *extra]
    types = bpe["tokenizer.ggml.token_type"] + [TokenType.CONTROL] * len(extra)
    kv = _with(bpe, tokens=tokens, token_type=types, eos_token_id=tokens.index(extra[1]))
    vocab = Vocab.from_kv(kv)
    if stays != "</s>":
        ends = ends | {"</s>"}
    assert {vocab.token_text(i) for i in vocab.eog_ids} == ends
    if stays is not None:
        kind = vocab.token_type(tokens.index(stays))
        assert kind is not TokenType.CONTROL


def test_eot_differs_from_eos_where_it_can(bpe: KV) -> None:
    extra = ["<|endoftext|>", "<|im_end|>"]
    tokens = [*bpe["tokenizer.ggml.tokens"], *extra]
    types = bpe["tokenizer.ggml.token_type"] + [TokenType.CONTROL] * 2
    for eos, eot in (extra, reversed(extra)):
        kv = _with(bpe, tokens=tokens, token_type=types, eos_token_id=tokens.index(eos))
        assert Vocab.from_kv(kv).eot == tokens.index(eot)


def test_ordinary_text_at_the_assumed_id_is_no_end(bpe: KV) -> None:
    vocab = Vocab.from_kv(_with(bpe, eos_token_id=None, bos_token_id=None))
    assert (vocab.bos, vocab.eos) == (None, None)
    assert 11 not in vocab.eog_ids


def test_duplicate_token_warns(spm: KV, caplog: pytest.LogCaptureFixture) -> None:
    tokens = list(spm["tokenizer.ggml.tokens"])
    tokens[-1] = tokens[300]
    with caplog.at_level(logging.WARNING, "wggml.vocab"):
        Vocab.from_kv(_with(spm, tokens=tokens))
    assert repr(tokens[300]) in caplog.text


def test_first_of_two_equal_merges_counts(bpe: KV) -> None:
    merges = ["h e", "e l", "l l", "e l", "h e"]
    vocab = Vocab.from_kv(_with(bpe, merges=merges))
    assert [vocab.token_text(i) for i in vocab.encode("hello")] == ["he", "ll", "o"]


@pytest.mark.parametrize("token", [-1, 10**6])
def test_ids_out_of_range(spm: KV, token: int) -> None:
    vocab = Vocab.from_kv(spm)
    for call in (vocab.piece, vocab.token_text, vocab.token_type, vocab.score):
        with pytest.raises(TokenizerError, match=f"token id {token} is outside"):
            call(token)
    with pytest.raises(TokenizerError):
        vocab.decode([token])


def test_malformed_byte_token(spm: KV) -> None:
    tokens = list(spm["tokenizer.ggml.tokens"])
    tokens[5] = "<0xZZ>"
    with pytest.raises(TokenizerError, match=r"tokens\[5\] is '<0xZZ>'"):
        Vocab.from_kv(_with(spm, tokens=tokens)).piece(5)


def test_no_vocabulary() -> None:
    vocab = Vocab.from_kv(
        {"tokenizer.ggml.model": "no_vocab", "general.architecture": "x", "x.vocab_size": 7}
    )
    assert (vocab.type, vocab.n_tokens, vocab.eog_ids) == ("none", 7, frozenset())
    with pytest.raises(TokenizerError, match="has no vocabulary"):
        vocab.encode("a")


def test_missing_character_is_located(glass: Path) -> None:
    vocab = Vocab.from_kv(glass_kv(glass))
    with pytest.raises(TokenizerError, match=r"'日' \(U\+65E5\) at character 6:"):
        vocab.encode("o mar 日本")


def test_missing_character_after_special_tokens(spm: KV) -> None:
    n = len(spm["tokenizer.ggml.tokens"])
    tokens = [t if not t.startswith("<0x") else f"[{t}]" for t in spm["tokenizer.ggml.tokens"]]
    vocab = Vocab.from_kv(_with(spm, tokens=tokens, token_type=[1] * (n - 6) + [4] * 6))
    with pytest.raises(TokenizerError, match=r"at character 7:"):
        vocab.encode("[x] o [日")


def test_missing_byte_is_left_out_with_a_warning(bpe: KV, caplog: pytest.LogCaptureFixture) -> None:
    tokens = list(bpe["tokenizer.ggml.tokens"])
    tokens[tokens.index("Ė")] = "[none]"  # byte 0x16
    vocab = Vocab.from_kv(_with(bpe, tokens=tokens))
    with caplog.at_level(logging.WARNING, "wggml.vocab"):
        ids = vocab.encode("hello\x16\x16 world")
    assert vocab.decode(ids) == "hello world"
    assert caplog.text.count("U+0016") == 1


def test_byte_level_without_bytes_is_an_error() -> None:
    tokens = ["h", "e", "l", "o", "he", "Ã"]
    kv = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["h e"],
    }
    vocab = Vocab.from_kv(kv)
    assert vocab.encode("hello") == [4, 2, 2, 3]
    for text, char, at in (("helloé!", "é", 5), ("hex", "x", 2), ("日he", "日", 0), ("é", "é", 0)):
        with pytest.raises(TokenizerError, match=f"'{char}' .* at character {at}:"):
            vocab.encode(text)


def test_double_bos_warns(spm: KV, caplog: pytest.LogCaptureFixture) -> None:
    vocab = Vocab.from_kv(spm)
    with caplog.at_level(logging.WARNING, "wggml.vocab"):
        assert vocab.encode("<s>x", parse_special=True)[:2] == [1, 1]
        assert "BOS token" in caplog.text
        caplog.clear()
        assert vocab.encode("<s>x", parse_special=True, add_special=False)[0] == 1
        assert not caplog.text


def test_phi3_special_tokens_swallow_spaces(spm: KV) -> None:
    plain, phi = Vocab.from_kv(spm), Vocab.from_kv(spm | {"general.name": "Phi-3 mini"})
    text = "<|user|> \n o mar<|end|>\n"
    kept, stripped = (v.encode(text, parse_special=True) for v in (plain, phi))
    assert stripped == phi.encode("<|user|>o mar<|end|>", parse_special=True)
    assert stripped != kept


def test_patterns_of_every_pre_tokenizer_compile() -> None:
    text = "Hello, 1234 wörld's\n\n  日本 x"
    for name, pre in PRE_TOKENIZERS.items():
        assert "".join(split_words(pre, text)) == text, name


def test_capturing_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="must not capture"):
        split_words(PreTokenizer((r"(a)b",)), "ab")


def test_frozen_categories() -> None:
    # U+10D40 became a digit in Unicode 16, U+0897 a mark; U+1F6DC is from 15.0.
    assert freeze("a\U00010d40\u0897\U0001f6dc") == f"a{UNASSIGNED * 2}\U0001f6dc"
    assert split_words(PRE_TOKENIZERS["qwen2"], "1\U00010d402") == ["1", "\U00010d40", "2"]


@pytest.mark.parametrize("role", ["seperator", "unknown"])
def test_wpm_has_usual_ids_only_where_they_are_special(role: str) -> None:
    kv = wpm_kv()
    assert kv["tokenizer.ggml.token_type"][100:103] == [TokenType.NORMAL] * 3
    with pytest.raises(TokenizerError, match="token id is missing"):
        Vocab.from_kv(_with(kv, **{f"{role}_token_id": None}))
