"""Text that arrives token by token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vocab.vocab_builders import spm_kv
from wggml.vocab import StreamDecoder, Vocab


def test_character_split_over_three_tokens() -> None:
    stream = StreamDecoder()
    data = "é😀".encode()
    assert [stream.feed(data[i : i + 1]) for i in range(6)] == ["", "é", "", "", "", "😀"]
    assert stream.flush() == ""


def test_tail_is_replaced_only_at_the_end() -> None:
    stream = StreamDecoder()
    assert stream.feed(b"a\xf0\x9f\x98") == "a"
    assert stream.pending == b"\xf0\x9f\x98"
    assert stream.flush() == "\ufffd"
    assert (stream.pending, stream.feed(b"b")) == (b"", "b")


def test_invalid_bytes_are_replaced_at_once() -> None:
    stream = StreamDecoder()
    assert stream.feed(b"\xffa") == "\ufffda"
    assert stream.feed(b"\xe4\xbd") == ""
    assert stream.feed(b"x") == "\ufffdx"


@given(st.lists(st.binary(max_size=5)))
def test_any_cut_gives_the_text_of_the_whole(pieces: list[bytes]) -> None:
    stream = StreamDecoder()
    text = "".join(map(stream.feed, pieces)) + stream.flush()
    assert text == b"".join(pieces).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def vocab(data_dir: Path) -> Vocab:
    return Vocab.from_kv(spm_kv(data_dir / "vocab" / "glass-pt.tokenizer.json"))


def test_tokens_of_a_real_vocabulary(vocab: Vocab) -> None:
    text = "o mar 😀 日本 é"
    stream = StreamDecoder()
    parts = [stream.feed(vocab.piece(i)) for i in vocab.encode(text)]
    assert "".join(parts) == " " + text
    assert "\ufffd" not in "".join(parts)
    assert "" in parts  # some character did take several tokens
