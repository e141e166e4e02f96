"""Properties that hold for any text, and agreement with other implementations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.vocab_builders import KV, glass_kv, spaced_bpe_kv, spm_kv, substring_bpe_kv
from tests.vocab.vocab_texts import CUTS
from wggml.errors import TokenizerError
from wggml.vocab import Vocab
from wggml.vocab.merging import _HEAP_FROM, NEVER, _merge_heap, _merge_scan
from wggml.vocab.pretokenizers import PRE_TOKENIZERS, split_words
from wggml.vocab.special import SpecialTokens, TokenType

GLASS = Path(__file__).resolve().parent.parent / "data" / "vocab" / "glass-pt.tokenizer.json"
TEXT = st.text(max_size=40) | st.text("ab1 \n.,'éǅ日😀\u0301\u3000<|>", max_size=40)
MARKED = st.lists(TEXT | st.sampled_from(["<s>", "<|user|>", "<|end|>", "[x]", "  ", "<b>"])).map(
    "".join
)


@pytest.fixture(scope="module")
def spm() -> Vocab:
    return Vocab.from_kv(spm_kv(GLASS))


@pytest.fixture(scope="module")
def bpe() -> Vocab:
    return Vocab.from_kv(substring_bpe_kv(CUTS[:40], "llama-bpe"))


@pytest.fixture(scope="module")
def spaced() -> Vocab:
    return Vocab.from_kv(spaced_bpe_kv(GLASS))


@given(TEXT)
def test_round_trip_bpe(bpe: Vocab, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text


@given(TEXT)
def test_round_trip_spm(spm: Vocab, text: str) -> None:
    assert spm.decode(spm.encode(text)) == text.replace("\u2581", " ")


@given(TEXT)
def test_round_trip_spaced_bpe(spaced: Vocab, text: str) -> None:
    assert spaced.decode(spaced.encode(text)) == text.replace("\u2581", " ")


@given(MARKED)
def test_round_trip_with_special_tokens(spm: Vocab, text: str) -> None:
    ids = spm.encode(text, add_special=False, parse_special=True)
    shown = spm.decode(ids, special=True)
    assert shown == text.replace("\u2581", " ")


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_any_code_point(spm: Vocab, bpe: Vocab, text: str) -> None:
    """Lone surrogates included: they count as U+FFFD."""
    for vocab in (spm, bpe):
        shown = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
        assert vocab.decode(vocab.encode(text)) == shown.replace(
            "\u2581", " " if vocab is spm else "\u2581"
        )


@given(st.lists(st.integers(0, 1200), max_size=30))
def test_any_ids_decode(spm: Vocab, ids: list[int]) -> None:
    assert isinstance(spm.decode(ids), str)
    assert b"".join(spm.piece(i, special=True) for i in ids).decode("utf-8", "replace") is not None


@given(TEXT)
def test_without_bytes_an_error_names_the_first_strange_character(text: str) -> None:
    vocab = _glass_vocab()
    known = {c for t in glass_kv(GLASS)["tokenizer.ggml.tokens"][4:117] for c in t} | {" "}
    strange = [(i, c) for i, c in enumerate(text) if c not in known]
    if not strange:
        assert vocab.decode(vocab.encode(text)) == text.replace("\u2581", " ")
        return
    at, char = strange[0]
    with pytest.raises(TokenizerError) as error:
        vocab.encode(text)
    assert f"U+{ord(char):04X}) at character {at}:" in str(error.value)


_VOCABS: dict[str, Vocab] = {}


def _glass_vocab() -> Vocab:
    if "glass" not in _VOCABS:
        _VOCABS["glass"] = Vocab.from_kv(glass_kv(GLASS))
    return _VOCABS["glass"]


@given(TEXT)
@settings(max_examples=40)
def test_words_cover_the_text(text: str) -> None:
    for pre in {id(pre): pre for pre in PRE_TOKENIZERS.values()}.values():
        words = split_words(pre, text)
        assert "".join(words) == text
        assert all(words)


@given(
    st.text("abc", max_size=40),
    st.dictionaries(st.text("abc", min_size=2, max_size=6), st.integers(0, 9)),
)
def test_heap_and_scan_merge_alike(text: str, ranks: dict[str, int]) -> None:
    def priority(left: str, right: str) -> float:
        return ranks.get(left + right, NEVER)

    want = _merge_scan(list(text), priority) if len(text) > 1 else list(text)
    assert _merge_heap(list(text), priority) == want


def test_long_words_take_the_heap(bpe: Vocab, spm: Vocab) -> None:
    text = "ab" * (_HEAP_FROM * 20)
    for vocab in (bpe, spm):
        assert vocab.decode(vocab.encode(text)) == text


def test_same_ids_with_and_without_the_cut_before_spaces() -> None:
    """A token with a space after a letter makes merges cross words: nothing may be cut there."""
    kv = glass_kv(GLASS)
    tokens = [*kv["tokenizer.ggml.tokens"], "o\u2581", "o\u2581mar"]
    more = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [*kv["tokenizer.ggml.scores"], -0.5, -0.25],
        "tokenizer.ggml.token_type": [*kv["tokenizer.ggml.token_type"], 1, 1],
    }
    vocab = Vocab.from_kv(kv | more)
    assert "o\u2581" in [vocab.token_text(i) for i in vocab.encode("o mar")]
    assert vocab.decode(vocab.encode("o mar o  mar")) == "o mar o  mar"


def _partition_slowly(text: str, forms: dict[int, str]) -> list[int | str]:
    """Longest token first over all of the text, then the next."""
    parts: list[int | str] = [text] if text else []
    for token in sorted(forms, key=lambda i: (-len(forms[i].encode()), i)):
        result: list[int | str] = []
        for part in parts:
            if isinstance(part, int):
                result.append(part)
                continue
            for i, piece in enumerate(part.split(forms[token])):
                result.extend([token] * (i > 0))
                result.extend([piece] if piece else [])
        parts = result
    return parts


@given(
    st.text("ab<é", max_size=30),
    st.lists(st.text("ab<é", min_size=1, max_size=4), unique=True, max_size=6),
)
def test_special_tokens_are_found_longest_first(text: str, forms: list[str]) -> None:
    special = SpecialTokens(forms, [TokenType.CONTROL] * len(forms))
    got = special.partition(text, parse_special=True)
    want = _partition_slowly(text, dict(enumerate(forms)))
    assert [part if isinstance(part, int) else part.text for part in got] == want
    for part in got:
        if not isinstance(part, int):
            assert text[part.offset : part.offset + len(part.text)] == part.text
    assert all(not isinstance(part, int) for part in special.partition(text, parse_special=False))


# --- the `tokenizers` package ---------------------------------------------------------------------

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_HUGGING_FACE = {
    "gpt-2": None,
    "llama-bpe": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}",
}


def _hugging_face(kv: KV, pattern: str | None) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    texts = kv["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in kv["tokenizer.ggml.merges"]]
    model = tokenizers.models.BPE({text: i for i, text in enumerate(texts)}, merges)
    model.ignore_merges = True  # as llama-bpe has it; for the others every word is a merge result
    tokenizer = tokenizers.Tokenizer(model)
    steps = [tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern is not None:
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        steps.insert(0, split)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
    return tokenizer


@pytest.mark.parametrize("name", list(_HUGGING_FACE))
def test_same_ids_as_tokenizers(name: str) -> None:
    kv = substring_bpe_kv(CUTS, name)
    vocab, other = Vocab.from_kv(kv), _hugging_face(kv, _HUGGING_FACE[name])
    # The contraction 'ſ folds to 's there and not in GGUF runtimes; new letters differ by version.
    texts = [text for text in CUTS if "ſ" not in text and text.isprintable()]
    assert len(texts) > 60
    for text in texts:
        assert vocab.encode(text, add_special=False) == other.encode(text).ids, text

    @given(st.text("ab1' \n.,éÉ日😀st", max_size=30))
    @settings(max_examples=200, deadline=None)
    def check(text: str) -> None:
        assert vocab.encode(text, add_special=False) == other.encode(text).ids

    check()
