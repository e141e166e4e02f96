"""The printable alphabet in which byte-level BPE vocabularies write raw bytes.

GPT-2's `bytes_to_unicode`: a byte that is a printable Latin-1 character stands for itself, the
other 68 bytes are mapped, in order, to U+0100, U+0101, ... Every token text and merge of such a
vocabulary is written in these 256 characters, so none of them contains a space.
"""

from __future__ import annotations

from functools import cache

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


@cache
def byte_to_char() -> dict[int, str]:
    """Byte value -> its character; usable with `str.translate` on Latin-1 decoded text."""
    table = {byte: chr(byte) for byte in _PRINTABLE}
    rest = (byte for byte in range(256) if byte not in table)
    table.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    return table


@cache
def char_to_byte() -> dict[str, bytes]:
    """The inverse: one character -> one byte."""
    return {char: bytes((byte,)) for byte, char in byte_to_char().items()}


def to_alphabet(text: str) -> str:
    """UTF-8 bytes of `text`, one alphabet character a byte."""
    return text.encode("utf-8").decode("latin-1").translate(byte_to_char())


def from_alphabet(text: str) -> bytes:
    """The bytes that `text` stands for. A character outside the alphabet (added tokens are often
    written as plain text) gives its own UTF-8 bytes."""
    table = char_to_byte()
    return b"".join(table.get(char) or char.encode("utf-8", "surrogateescape") for char in text)
