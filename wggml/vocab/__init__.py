"""Tokenizers of GGUF models: text to token ids and back.

`Vocab.from_kv(kv)` makes one from a file's metadata; `StreamDecoder` turns the bytes of tokens
that arrive one by one into text.
"""

from wggml.vocab.special import TokenType
from wggml.vocab.stream import StreamDecoder
from wggml.vocab.vocab import Vocab

__all__ = ["StreamDecoder", "TokenType", "Vocab"]
