"""SentencePiece BPE ("llama"): characters merged by token score, bytes as the fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import regex

from wggml.vocab.merging import NEVER, merge_symbols
from wggml.vocab.missing import MissingCharacterError

SPACE_MARK = "\u2581"
"""What SentencePiece writes for a space."""

_CACHE_CHUNKS = 1 << 16
_CACHE_CHUNK_LENGTH = 48


class SpmEncoder:
    """Text without special tokens -> ids.

    Any two neighbours whose concatenation is a token may be joined, the highest score first. A
    join across "x" + space needs a token that contains "x" + U+2581; where no token does, the text
    can be cut before the space without changing the result. That makes the work nearly linear and
    lets whole words be cached.
    """

    def __init__(self, token_ids: Mapping[str, int], scores: Sequence[float]) -> None:
        self._token_ids = token_ids
        self._scores = scores
        self._chunks = _chunk_pattern(token_ids)
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; spaces are escaped here, a space prefix is the caller's. Raises
        MissingCharacterError."""
        cache = self._cache
        ids: list[int] = []
        chunks: list[str] = self._chunks.findall(text.replace(" ", SPACE_MARK))
        for i, chunk in enumerate(chunks):
            found = cache.get(chunk)
            if found is None:
                try:
                    found = self._encode_chunk(chunk)
                except MissingCharacterError as missing:
                    raise missing.shifted(sum(map(len, chunks[:i]))) from None
                if len(chunk) <= _CACHE_CHUNK_LENGTH:
                    if len(cache) >= _CACHE_CHUNKS:
                        cache.clear()
                    cache[chunk] = found
            ids.extend(found)
        return ids

    def _encode_chunk(self, chunk: str) -> list[int]:
        ids: list[int] = []
        done = 0
        for symbol in merge_symbols(list(chunk), self._priority):
            found = self._token_ids.get(symbol)
            if found is None:  # never joined, so this is a single character
                ids.extend(self._bytes_of(symbol, done))
            else:
                ids.append(found)
            done += len(symbol)
        return ids

    def _priority(self, left: str, right: str) -> float:
        found = self._token_ids.get(left + right)
        return NEVER if found is None else -self._scores[found]

    def _bytes_of(self, char: str, offset: int) -> list[int]:
        ids = []
        for byte in char.encode("utf-8"):
            found = self._token_ids.get(f"<0x{byte:02X}>")
            if found is None:
                raise MissingCharacterError(" " if char == SPACE_MARK else char, offset)
            ids.append(found)
        return ids


def _chunk_pattern(texts: Iterable[str]) -> regex.Pattern[str]:
    """Matches the longest stretch that merges may cross: cut before a run of marks, except after
    a character that some token has directly before a mark."""
    apart = "\ud800"  # occurs in no token text, so no match spans two of them
    before_mark = regex.compile(rf"[^{SPACE_MARK}{apart}](?={SPACE_MARK})")
    glue = set(before_mark.findall(apart.join(texts)))
    if not glue:
        return regex.compile(rf"{SPACE_MARK}*[^{SPACE_MARK}]+|{SPACE_MARK}+")
    bridge = f"(?<=[{''.join(map(regex.escape, sorted(glue)))}]){SPACE_MARK}+"
    return regex.compile(rf"{SPACE_MARK}*(?:[^{SPACE_MARK}]+(?:{bridge})?)+|{SPACE_MARK}+")
