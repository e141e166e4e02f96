"""From the first byte of a file to its tensor table, each number checked before it is used."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from wggml.core.types import TRAITS, Type
from wggml.errors import GGUFError
from wggml.gguf_io import constants as c
from wggml.gguf_io.cursor import Cursor
from wggml.gguf_io.kv import KV, Entry, read_type, skip_value, text
from wggml.gguf_io.sniff import describe_foreign, is_part_name, part_hint


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a file.

    `ne` has four sizes, innermost first; `n_dims` of them are written in the file. `offset` is in
    bytes from the beginning of the file, `part` counts split files from 0.
    """

    name: str
    type: Type
    ne: tuple[int, int, int, int]
    n_dims: int
    nbytes: int
    offset: int
    part: int = 0

    @property
    def n_elements(self) -> int:
        return self.ne[0] * self.ne[1] * self.ne[2] * self.ne[3]

    @property
    def shape(self) -> tuple[int, ...]:
        """NumPy's order: outermost first, without the padding to four."""
        return self.ne[: max(1, self.n_dims)][::-1]


@dataclass(frozen=True, slots=True)
class Header:
    """Everything before the tensor data of one file."""

    version: int
    byte_order: str  # "little" or "big"
    alignment: int
    kv: KV
    tensors: dict[str, TensorInfo]
    data_start: int


def parse(buf: mmap.mmap, path: Path, part: int = 0) -> Header:
    """Check and index one file. Raises `GGUFError`; never reads tensor data."""
    version, order = _version(buf, path)
    cur = Cursor(buf, str(path), order, pos=8)
    n_tensors, n_kv = cur.u64(), cur.u64()
    _check_count(cur, n_kv, c.MIN_KV_BYTES, "metadata keys")
    _check_count(cur, n_tensors, c.MIN_TENSOR_BYTES, "tensors")
    entries = _entries(cur, n_kv)
    kv = KV(buf, str(path), order, entries)
    alignment = _alignment(kv, path)
    tensors = [_tensor(cur, i, n_tensors) for i in range(n_tensors)]
    data_start = _round_up(cur.pos, alignment)
    infos = _place(tensors, data_start, alignment, path, part)
    _check_extent(infos, buf, path, data_start, alignment, kv)
    byte_order = "little" if order == "<" else "big"
    return Header(version, byte_order, alignment, kv, {t.name: t for t in infos}, data_start)


def _round_up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _version(buf: mmap.mmap, path: Path) -> tuple[int, str]:
    head = buf[:64]
    if head[:4] != c.MAGIC:
        raise GGUFError(f"{path} is not a GGUF file: {describe_foreign(head, path)}")
    if len(head) < c.HEADER_BYTES:
        raise GGUFError(
            f"{path}: a GGUF header has {c.HEADER_BYTES} bytes, the file has {len(buf)}: "
            "it is truncated; download it again"
        )
    little, big = int.from_bytes(head[4:8], "little"), int.from_bytes(head[4:8], "big")
    for version, order in ((little, "<"), (big, ">")):
        if version in c.VERSIONS:
            return version, order
    if 1 in (little, big):
        raise GGUFError(
            f"{path} is GGUF version 1, which only a few files of August 2023 use and nothing "
            "reads any more; convert the model again, or get a newer file"
        )
    raise GGUFError(
        f"{path} is GGUF version {little}; this reader knows versions 2 and 3: "
        "the file is damaged, or newer than this wggml (then update)"
    )


def _check_count(cur: Cursor, count: int, least: int, what: str) -> None:
    room = cur.size - cur.pos
    if count * least > room:
        raise GGUFError(
            f"{cur.path}: the header says {count} {what}, which need at least {count * least} "
            f"bytes; {room} are left in the file: it is truncated or damaged; download it again"
        )


def _entries(cur: Cursor, n_kv: int) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for i in range(n_kv):
        cur.where = f"metadata key {i} of {n_kv}"
        key = text(cur.string())
        if not key:
            raise GGUFError(f"{cur.path}: {cur.where} has an empty name: damaged file")
        cur.where = f"metadata {key!r}"
        if key in entries:
            raise GGUFError(f"{cur.path}: metadata key {key!r} occurs twice: damaged file")
        entries[key] = skip_value(cur, read_type(cur))
    return entries


def _alignment(kv: KV, path: Path) -> int:
    if c.KEY_ALIGNMENT not in kv:
        return c.DEFAULT_ALIGNMENT
    kind = kv.entry(c.KEY_ALIGNMENT).type
    if kind is not c.ValueType.UINT32:
        raise GGUFError(
            f"{path}: {c.KEY_ALIGNMENT} has type {kind.name}; it must be UINT32: damaged file"
        )
    alignment: int = kv[c.KEY_ALIGNMENT]
    if alignment & (alignment - 1) or not 0 < alignment <= c.MAX_ALIGNMENT:
        raise GGUFError(
            f"{path}: {c.KEY_ALIGNMENT} is {alignment}; it must be a power of two "
            f"from 1 to {c.MAX_ALIGNMENT}: damaged file"
        )
    return alignment


def _tensor(cur: Cursor, i: int, n: int) -> TensorInfo:
    """One row of the tensor table; `offset` still counts from the data's start."""
    cur.where = f"tensor {i} of {n}"
    name = text(cur.string())
    cur.where = f"tensor {name!r}"
    n_dims = cur.u32()
    if n_dims > c.MAX_DIMS:
        raise GGUFError(
            f"{cur.path}: {cur.where} has {n_dims} dimensions; at most {c.MAX_DIMS} are allowed: "
            "damaged file"
        )
    sizes = [cur.u64() for _ in range(n_dims)] + [1] * (c.MAX_DIMS - n_dims)
    ne = (sizes[0], sizes[1], sizes[2], sizes[3])
    kind = _tensor_type(cur, cur.u32())
    traits = TRAITS[kind]
    if ne[0] % traits.blck_size:
        raise GGUFError(
            f"{cur.path}: {cur.where} has rows of {ne[0]} values, which are not whole blocks of "
            f"{traits.blck_size} as type {traits.name} needs: damaged file"
        )
    nbytes = ne[0] // traits.blck_size * traits.type_size * ne[1] * ne[2] * ne[3]
    return TensorInfo(name, kind, ne, n_dims, nbytes, cur.u64())


def _tensor_type(cur: Cursor, number: int) -> Type:
    try:
        return Type(number)
    except ValueError:
        pass
    if number in c.WITHDRAWN_TYPES:
        raise GGUFError(
            f"{cur.path}: {cur.where} has type {number} ({c.WITHDRAWN_TYPES[number]}), which ggml "
            "has withdrawn; quantise the model again (Q4_0 or IQ4_NL instead)"
        )
    raise GGUFError(
        f"{cur.path}: {cur.where} has tensor type {number}, which is not known "
        f"(known: 0 to {max(Type)}): the file is damaged, or newer than this wggml (then update)"
    )


def _place(
    tensors: list[TensorInfo], data_start: int, alignment: int, path: Path, part: int
) -> list[TensorInfo]:
    """Turn offsets into absolute ones; refuse doubles, misalignment and overlap."""
    seen: set[str] = set()
    placed = []
    for t in tensors:
        if t.name in seen:
            raise GGUFError(f"{path}: tensor {t.name!r} occurs twice: damaged file")
        seen.add(t.name)
        if t.offset % alignment:
            raise GGUFError(
                f"{path}: tensor {t.name!r} begins at data offset {t.offset}, which is not a "
                f"multiple of the alignment {alignment}: damaged file"
            )
        placed.append(
            TensorInfo(t.name, t.type, t.ne, t.n_dims, t.nbytes, data_start + t.offset, part)
        )
    last = None
    for t in sorted((t for t in placed if t.nbytes), key=lambda t: t.offset):
        if last is not None and t.offset < last.offset + last.nbytes:
            raise GGUFError(
                f"{path}: tensors {last.name!r} and {t.name!r} overlap at offset {t.offset}: "
                "damaged file"
            )
        last = t
    return placed


def _check_extent(
    infos: list[TensorInfo], buf: mmap.mmap, path: Path, data_start: int, alignment: int, kv: KV
) -> None:
    size = len(buf)
    end = max((t.offset + t.nbytes for t in infos), default=0)
    if end > size:
        missing = [t.name for t in infos if t.offset + t.nbytes > size]
        hint = part_hint(path) if is_part_name(path) else "download it again"
        raise GGUFError(
            f"{path} is truncated: its tensors need {end} bytes, the file has {size} "
            f"({end - size} missing; {len(missing)} of {len(infos)} tensors cut off, the first "
            f"of them {missing[0]!r}); {hint}"
        )
    for at in {end, _round_up(end, alignment)} if infos else ():
        if buf[at : at + 4] == c.MAGIC:
            raise GGUFError(
                f"{path}: a second GGUF file begins at offset {at}: split files joined with `cat`? "
                "Keep the parts apart and open the first, or merge them with "
                "`llama-gguf-split --merge`"
            )
