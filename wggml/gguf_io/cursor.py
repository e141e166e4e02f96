"""A checked walk over mapped bytes: nothing is read, sized or allocated past the file's end."""

from __future__ import annotations

import mmap
import struct

from wggml.errors import GGUFError


class Cursor:
    """Reads numbers and strings at a moving position; `where` names the place for errors."""

    __slots__ = ("_u32", "_u64", "buf", "order", "path", "pos", "size", "where")

    def __init__(self, buf: mmap.mmap, path: str, order: str, pos: int = 0) -> None:
        self.buf = buf
        self.path = path
        self.order = order
        self.pos = pos
        self.size = len(buf)
        self.where = "header"
        self._u32 = struct.Struct(order + "I").unpack_from
        self._u64 = struct.Struct(order + "Q").unpack_from

    def need(self, nbytes: int) -> None:
        """Raise unless `nbytes` more bytes exist at the position."""
        if nbytes > self.size - self.pos:
            raise GGUFError(
                f"{self.path}: {self.where} needs {nbytes} bytes at offset {self.pos}, but the "
                f"file ends at {self.size}: it is truncated or damaged; download it again"
            )

    def u32(self) -> int:
        self.need(4)
        value: int = self._u32(self.buf, self.pos)[0]
        self.pos += 4
        return value

    def u64(self) -> int:
        self.need(8)
        value: int = self._u64(self.buf, self.pos)[0]
        self.pos += 8
        return value

    def skip(self, nbytes: int) -> int:
        """Step over `nbytes`; returns the position before."""
        self.need(nbytes)
        at = self.pos
        self.pos += nbytes
        return at

    def string(self) -> bytes:
        """A string: 64-bit length, then the bytes."""
        length = self.u64()
        at = self.skip(length)
        return self.buf[at : at + length]

    def skip_strings(self, n: int) -> None:
        """Step over `n` strings.

        The one loop that is as long as a vocabulary, hence its plain shape: 0.1 us a string.
        A wild length lands past `last` and is caught there, having cost nothing.
        """
        buf, pos, u64 = self.buf, self.pos, self._u64
        last = self.size - 8
        for i in range(n):
            if pos > last:
                self.where += f", string {i} of {n}"
                self.pos = min(pos, self.size)
                self.need(pos - self.pos + 8)
            pos += 8 + u64(buf, pos)[0]
        self.skip(pos - self.pos)
