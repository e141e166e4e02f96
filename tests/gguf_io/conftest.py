"""Files built byte by byte, so that every kind of damage can be made."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from wggml.gguf_io.constants import SCALAR_CODES, ValueType


@dataclass
class Craft:
    """The fields of a GGUF file; `build` writes them down as they are, right or wrong."""

    order: str = "<"
    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_kv: int | None = None
    alignment: int = 32
    kv: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    tensors: list[tuple[bytes, list[int], int, int]] = field(default_factory=list)
    data: bytes = b""

    def string(self, raw: bytes) -> bytes:
        return struct.pack(self.order + "Q", len(raw)) + raw

    def add(self, key: str | bytes, kind: ValueType, value: object) -> Craft:
        raw_key = key if isinstance(key, bytes) else key.encode()
        self.kv.append((raw_key, int(kind), self._scalar(kind, value)))
        return self

    def add_array(self, key: str, item: ValueType, values: list[object]) -> Craft:
        payload = self.array(item, [self._scalar(item, v) for v in values])
        self.kv.append((key.encode(), int(ValueType.ARRAY), payload))
        return self

    def array(self, item: ValueType, payloads: list[bytes]) -> bytes:
        return struct.pack(self.order + "IQ", int(item), len(payloads)) + b"".join(payloads)

    def _scalar(self, kind: ValueType, value: object) -> bytes:
        if kind is ValueType.STRING:
            assert isinstance(value, str | bytes)
            return self.string(value.encode() if isinstance(value, str) else value)
        return struct.pack(self.order + SCALAR_CODES[kind], value)

    def tensor(self, name: str, ne: list[int], kind: int, offset: int = 0) -> Craft:
        self.tensors.append((name.encode(), ne, kind, offset))
        return self

    def header(self) -> bytes:
        o = self.order
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_kv = len(self.kv) if self.n_kv is None else self.n_kv
        out = self.magic + struct.pack(o + "IQQ", self.version, n_tensors, n_kv)
        for key, kind, payload in self.kv:
            out += self.string(key) + struct.pack(o + "I", kind) + payload
        for name, ne, kind, offset in self.tensors:
            out += self.string(name) + struct.pack(o + "I", len(ne))
            out += b"".join(struct.pack(o + "Q", n) for n in ne)
            out += struct.pack(o + "IQ", kind, offset)
        return out

    def build(self) -> bytes:
        out = self.header()
        return out + bytes(-len(out) % self.alignment) + self.data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


@pytest.fixture
def craft() -> Callable[..., Craft]:
    """`craft(version=2, ...)` gives a `Craft` with the architecture already in it."""

    def make(**fields: object) -> Craft:
        c = Craft(**fields)  # type: ignore[arg-type]
        return c.add("general.architecture", ValueType.STRING, "llama")

    return make
