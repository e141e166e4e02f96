"""WordPiece ("bert"): normalised words, cut greedily into the longest tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

import regex

from wggml.vocab.spm import SPACE_MARK
from wggml.vocab.unicode_version import freeze

_CACHE_WORDS = 1 << 16

# Punctuation, ASCII symbols and Chinese characters are words of their own. U+2B920 where Unicode
# has U+2B820 is how the tokenizers that the models were trained with have it.
_LONE = (
    r"[\p{P}$+<=>^`|\u4E00-\u9FFF\u3400-\u4DBF\U00020000-\U0002A6DF\U0002A700-\U0002B73F"
    r"\U0002B740-\U0002B81F\U0002B920-\U0002CEAF\uF900-\uFAFF\U0002F800-\U0002FA1F~]"
)


class WpmEncoder:
    """Text without special tokens -> ids.

    Words begin with U+2581 in the vocabulary (where BERT's own files mark continuations instead).
    A word of which any part is no token becomes one `unk`.
    """

    def __init__(
        self, token_ids: Mapping[str, int], unk: int, *, lowercase: bool, strip_accents: bool
    ) -> None:
        self._token_ids = token_ids
        self._unk = unk
        self._longest = max(map(len, token_ids), default=0)
        self._normal = _Normaliser(lowercase, strip_accents)
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; never fails, see `unk`."""
        cache = self._cache
        ids: list[int] = []
        for word in text.translate(self._normal).split(" "):
            if not word:
                continue
            found = cache.get(word)
            if found is None:
                found = self._encode_word(SPACE_MARK + word)
                if len(cache) >= _CACHE_WORDS:
                    cache.clear()
                cache[word] = found
            ids.extend(found)
        return ids

    def _encode_word(self, word: str) -> list[int]:
        ids = []
        start, n = 0, len(word)
        while start < n:
            for end in range(min(n, start + self._longest), start, -1):
                found = self._token_ids.get(word[start:end])
                if found is not None:
                    break
            else:
                return [self._unk]
            ids.append(found)
            start = end
        return ids


class _Normaliser(dict[int, str]):
    """A table for `str.translate`, filled on demand: code point -> its normal form.

    Spaces become " ", characters that stand alone get spaces around them, control characters
    disappear. Accents are removed by keeping the first character of the canonical decomposition.
    """

    _space = regex.compile(r"\s")
    _dropped = regex.compile(r"[\x00\uFFFD\p{Cc}\p{Cf}\p{Co}\p{Cs}]")
    _lone = regex.compile(_LONE)
    _mark = regex.compile(r"\p{M}")

    def __init__(self, lowercase: bool, strip_accents: bool) -> None:
        super().__init__()
        self._lowercase = lowercase
        self._strip_accents = strip_accents

    def __missing__(self, code_point: int) -> str:
        normal = self[code_point] = self._normal_form(chr(code_point))
        return normal

    def _normal_form(self, char: str) -> str:
        if freeze(char) != char:
            return char
        if self._strip_accents:
            char = unicodedata.normalize("NFD", char)[0]
        if self._space.match(char):
            return " "
        if self._dropped.match(char):
            return ""
        if self._strip_accents and self._mark.match(char):
            return ""
        alone = self._lone.match(char) is not None
        if self._lowercase:
            char = char.lower()[0]
        return f" {char} " if alone else char
