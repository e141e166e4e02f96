"""Byte-pair encoding: words from the pre-tokenizer, merged by rank."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from wggml.vocab.byte_level import byte_to_char, to_alphabet
from wggml.vocab.merging import NEVER, merge_symbols
from wggml.vocab.missing import MissingCharacterError
from wggml.vocab.pretokenizers import PreTokenizer, split_words
from wggml.vocab.spm import SPACE_MARK

_log = logging.getLogger("wggml.vocab")

_CACHE_WORDS = 1 << 16
_CACHE_WORD_LENGTH = 48


class BpeEncoder:
    """Text without special tokens -> ids.

    `ranks` maps a merge, written "left right" as in `tokenizer.ggml.merges`, to its rank. Neither
    half contains a space (spaces are mapped to another character before merging), so the joined
    form is an unambiguous key and the file's strings can be used as they are.

    Many byte-level vocabularies lack the tokens of a few bytes that their training text did not
    contain (SmolLM2 lacks 21). Such bytes are left out, as in the reference, with one warning for
    each character; without most of the 256 there is no byte fallback and the character is an error.
    """

    def __init__(
        self, token_ids: Mapping[str, int], ranks: Mapping[str, int], pre: PreTokenizer
    ) -> None:
        self._token_ids = token_ids
        self._ranks = ranks
        self._pre = pre
        self._cache: dict[str, list[int]] = {}
        self._byte_names = _byte_names(pre.byte_level)
        self._has_bytes = sum(name in token_ids for name in self._byte_names) > 128
        self._left_out: set[str] = set()

    def encode(self, text: str) -> list[int]:
        """Ids of `text`. Raises MissingCharacterError."""
        if self._pre.escape_spaces:
            text = text.replace(" ", SPACE_MARK)
        cache = self._cache
        ids: list[int] = []
        words = split_words(self._pre, text)
        for i, word in enumerate(words):
            found = cache.get(word)
            if found is None:
                try:
                    found = self._encode_word(word)
                except MissingCharacterError as missing:
                    raise missing.shifted(sum(map(len, words[:i]))) from None
                if len(word) <= _CACHE_WORD_LENGTH:
                    if len(cache) >= _CACHE_WORDS:
                        cache.clear()
                    cache[word] = found
            ids.extend(found)
        return ids

    def _encode_word(self, word: str) -> list[int]:
        token_ids = self._token_ids
        pre = self._pre
        symbols = to_alphabet(word) if pre.byte_level else word
        if pre.ignore_merges or (pre.whole_newlines and not word.strip("\n")):
            whole = token_ids.get(symbols)
            if whole is not None:
                return [whole]
        ids: list[int] = []
        done = 0
        for symbol in merge_symbols(list(symbols), self._priority):
            found = token_ids.get(symbol)
            if found is None:
                ids.extend(self._fall_back(word, symbol, done))
            else:
                ids.append(found)
            done += len(symbol)
        return ids

    def _priority(self, left: str, right: str) -> float:
        return self._ranks.get(f"{left} {right}", NEVER)

    def _fall_back(self, word: str, symbol: str, done: int) -> list[int]:
        """Ids of the bytes of a symbol that is no token; `done` characters of the word, as it was
        merged, precede it."""
        ids = []
        for i, char in enumerate(symbol):
            names = [char]
            if not self._pre.byte_level:
                names = [self._byte_names[byte] for byte in char.encode("utf-8")]
            for name in names:
                found = self._token_ids.get(name)
                if found is None:
                    self._leave_out(word, done + i)
                else:
                    ids.append(found)
        return ids

    def _leave_out(self, word: str, at: int) -> None:
        """Account for a byte without a token, at merged character `at` of the word."""
        offset = _char_of_byte(word, at) if self._pre.byte_level else at
        char = word[offset]
        if not self._has_bytes:
            raise MissingCharacterError(" " if char == SPACE_MARK else char, offset)
        if char not in self._left_out:
            self._left_out.add(char)
            _log.warning(
                "the vocabulary has no token for part of %r (U+%04X); that part is left out",
                char,
                ord(char),
            )


def _byte_names(byte_level: bool) -> list[str]:
    """How the vocabulary writes each of the 256 bytes."""
    table = byte_to_char()
    return [table[byte] if byte_level else f"<0x{byte:02X}>" for byte in range(256)]


def _char_of_byte(text: str, at: int) -> int:
    """The index of the character that UTF-8 byte `at` of `text` belongs to."""
    data = text.encode("utf-8")
    return sum(byte & 0xC0 != 0x80 for byte in data[: at + 1]) - 1
