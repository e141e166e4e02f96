"""Metadata values: a read-only mapping that decodes what is asked for, once."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wggml.errors import GGUFError
from wggml.gguf_io.constants import MAX_ARRAY_DEPTH, SCALAR_BYTES, SCALAR_CODES, ValueType
from wggml.gguf_io.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a value lies: bytes `offset .. end` of the file.

    For arrays `item` is the type of the items and `count` their number; otherwise None and 1.
    """

    type: ValueType
    item: ValueType | None
    count: int
    offset: int
    end: int


def text(raw: bytes) -> str:
    """UTF-8; other bytes become surrogates, which `.encode("utf-8", "surrogateescape")` undoes."""
    return raw.decode("utf-8", "surrogateescape")


def read_type(cur: Cursor) -> ValueType:
    number = cur.u32()
    try:
        return ValueType(number)
    except ValueError:
        raise GGUFError(
            f"{cur.path}: {cur.where} has value type {number}; GGUF defines 0 to 12: "
            "the file is damaged or newer than this reader"
        ) from None


def skip_value(cur: Cursor, kind: ValueType, depth: int = 0) -> Entry:
    """Step over one value of `kind`, checking every length against the file's size."""
    start = cur.pos
    if kind in SCALAR_BYTES:
        cur.skip(SCALAR_BYTES[kind])
        return Entry(kind, None, 1, start, cur.pos)
    if kind is ValueType.STRING:
        cur.skip(cur.u64())
        return Entry(kind, None, 1, start, cur.pos)
    if depth == MAX_ARRAY_DEPTH:
        raise GGUFError(
            f"{cur.path}: {cur.where} nests arrays more than {MAX_ARRAY_DEPTH} deep: damaged file"
        )
    item = read_type(cur)
    count = cur.u64()
    if item in SCALAR_BYTES:
        cur.skip(count * SCALAR_BYTES[item])
    elif item is ValueType.STRING:
        cur.need(count * 8)
        cur.skip_strings(count)
    else:
        cur.need(count * 12)
        for _ in range(count):
            skip_value(cur, ValueType.ARRAY, depth + 1)
    return Entry(kind, item, count, start, cur.pos)


class KV(Mapping[str, Any]):
    """The metadata of a file, by key.

    Numbers come as int, float or bool, strings as `str`, arrays of numbers as read-only NumPy
    arrays, arrays of strings as `list[str]`, arrays of arrays as lists. Text is UTF-8; bytes that
    are not survive as surrogates (see `text`), and `raw` gives the bytes themselves.
    """

    __slots__ = ("_buf", "_cache", "_entries", "_order", "_path")

    _buf: mmap.mmap | None

    def __init__(self, buf: mmap.mmap, path: str, order: str, entries: dict[str, Entry]) -> None:
        self._buf = buf
        self._path = path
        self._order = order
        self._entries = entries
        self._cache: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._cache:
            self._cache[key] = self._decode(self._entries[key], as_text=True)
        return self._cache[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def entry(self, key: str) -> Entry:
        """Type, number of items and place of a value, without decoding it."""
        return self._entries[key]

    def head(self, key: str, n: int) -> Any:
        """The value of `key`, of an array its first `n` items only (cheap for vocabularies)."""
        entry = self._entries[key]
        if entry.type is not ValueType.ARRAY or entry.count <= n:
            return self[key]
        return self._decode(entry, as_text=True, limit=n)

    def close(self) -> None:
        """Let go of the file; values decoded before stay readable."""
        self._buf = None

    def raw(self, key: str) -> Any:
        """The value of `key` with strings as `bytes`."""
        return self._decode(self._entries[key], as_text=False)

    def _decode(self, entry: Entry, *, as_text: bool, limit: int | None = None) -> Any:
        if self._buf is None:
            raise GGUFError(f"{self._path} is closed; read its metadata before closing it")
        data = self._buf[entry.offset : entry.end]
        value, _ = _value(data, 0, entry.type, self._order, as_text, limit)
        return value


def _value(
    data: bytes, pos: int, kind: ValueType, order: str, as_text: bool, limit: int | None = None
) -> tuple[Any, int]:
    """Decode one value that `skip_value` has checked; returns it and the position after it.
    `limit` ends an outermost array early."""
    if kind in SCALAR_CODES:
        value = struct.unpack_from(order + SCALAR_CODES[kind], data, pos)[0]
        return value, pos + SCALAR_BYTES[kind]
    if kind is ValueType.STRING:
        values, pos = _strings(data, pos, 1, order, as_text)
        return values[0], pos
    item, count = struct.unpack_from(order + "IQ", data, pos)
    item = ValueType(item)
    count = count if limit is None else min(count, limit)
    pos += 12
    if item in SCALAR_CODES:
        numbers = np.frombuffer(data, order + SCALAR_CODES[item], count, pos)
        numbers = numbers.astype(numbers.dtype.newbyteorder("="))
        numbers.flags.writeable = False
        return numbers, pos + count * SCALAR_BYTES[item]
    if item is ValueType.STRING:
        return _strings(data, pos, count, order, as_text)
    nested = []
    for _ in range(count):
        value, pos = _value(data, pos, ValueType.ARRAY, order, as_text)
        nested.append(value)
    return nested, pos


def _strings(data: bytes, pos: int, n: int, order: str, as_text: bool) -> tuple[list[Any], int]:
    u64 = struct.Struct(order + "Q").unpack_from
    out: list[Any] = []
    for _ in range(n):
        start = pos + 8
        pos = start + u64(data, pos)[0]
        raw = data[start:pos]
        out.append(raw.decode("utf-8", "surrogateescape") if as_text else raw)
    return out, pos
