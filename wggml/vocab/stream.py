"""Decoding of text that arrives token by token."""

from __future__ import annotations

import codecs


class StreamDecoder:
    """Incremental UTF-8: bytes of a character that is not complete yet are held back.

    Tokens may end in the middle of a character. `feed` returns only what can no longer change;
    bytes that can never become a character are replaced by U+FFFD, an unfinished tail is replaced
    only by `flush`. The concatenation of all results equals decoding all bytes at once with
    `errors="replace"`.
    """

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """Take the bytes of the next token; return the text that they complete (maybe empty)."""
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """End of text: whatever is still held, as U+FFFD. The decoder can be used again."""
        text = self._decoder.decode(b"", True)
        self._decoder.reset()
        return text

    @property
    def pending(self) -> bytes:
        """The bytes held back, at most three."""
        return self._decoder.getstate()[0]
