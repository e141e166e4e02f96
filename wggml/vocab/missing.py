"""What an encoder raises when a character has no token and no byte tokens to fall back on."""

from __future__ import annotations


class MissingCharacterError(Exception):
    """Internal: `char` at `offset` (in characters, within the encoder's input) has no token.

    `Vocab.encode` turns it into a `TokenizerError` that names the position in the whole text.
    """

    def __init__(self, char: str, offset: int) -> None:
        super().__init__(char, offset)
        self.char = char
        self.offset = offset

    def shifted(self, by: int) -> MissingCharacterError:
        """The same, seen from a text in which this encoder's input starts at `by`."""
        return MissingCharacterError(self.char, self.offset + by)
