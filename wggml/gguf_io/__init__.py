"""GGUF files: a lazy, memory-mapped, checked reader; writing on the `gguf` package."""

from wggml.gguf_io.constants import ValueType
from wggml.gguf_io.header import TensorInfo
from wggml.gguf_io.reader import GGUFFile, open_gguf
from wggml.gguf_io.writer import write_gguf

__all__ = ["GGUFFile", "TensorInfo", "ValueType", "open_gguf", "write_gguf"]
