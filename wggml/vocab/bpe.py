"""Byte-pair encoding: words from the pre-tokenizer, merged by rank."""

from __future__ import annotations

from collections.abc import Mapping

from wggml.vocab.byte_level import to_alphabet
from wggml.vocab.merging import NEVER, merge_symbols
from wggml.vocab.missing import MissingCharacterError
from wggml.vocab.pretokenizers import PreTokenizer, split_words
from wggml.vocab.spm import SPACE_MARK

_CACHE_WORDS = 1 << 16
_CACHE_WORD_LENGTH = 48


class BpeEncoder:
    """Text without special tokens -> ids.

    `ranks` maps a merge, written "left right" as in `tokenizer.ggml.merges`, to its rank. Neither
    half contains a space (spaces are mapped to another character before merging), so the joined
    form is an unambiguous key and the file's strings can be used as they are.
    """

    def __init__(
        self, token_ids: Mapping[str, int], ranks: Mapping[str, int], pre: PreTokenizer
    ) -> None:
        self._token_ids = token_ids
        self._ranks = ranks
        self._pre = pre
        self._cache: dict[str, list[int]] = {}

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
        """Ids of the bytes of a symbol that is no token; `done` alphabet characters of the word
        precede it."""
        ids = []
        for i, char in enumerate(symbol):
            names = [char] if self._pre.byte_level else [f"<0x{b:02X}>" for b in char.encode()]
            for name in names:
                found = self._token_ids.get(name)
                if found is None:
                    raise self._missing(word, done + i)
                ids.append(found)
        return ids

    def _missing(self, word: str, at: int) -> MissingCharacterError:
        """The error for symbol character `at`: in byte-level vocabularies, a byte of the word."""
        offset = at
        if self._pre.byte_level:
            offset = len(word.encode("utf-8")[: at + 1].decode("utf-8", "ignore"))
            offset = min(offset, len(word) - 1) if _ends_inside(word, at) else offset - 1
        return MissingCharacterError(word[offset], offset)


def _ends_inside(word: str, at: int) -> bool:
    """Whether byte `at` is not the last byte of its character."""
    after = word.encode("utf-8")[at + 1 : at + 2]
    return bool(after) and after[0] & 0xC0 == 0x80
