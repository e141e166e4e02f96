"""What a GGUF file holds, as data and as tables for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.core.types import Type, type_name
from wggml.gguf_io.constants import KEY_ARCHITECTURE, ValueType
from wggml.gguf_io.header import TensorInfo
from wggml.gguf_io.kv import Entry
from wggml.gguf_io.reader import GGUFFile

if TYPE_CHECKING:
    from rich.console import Console

# Items of an array, and characters of a string, that are shown.
SHOWN_ITEMS = 4
SHOWN_CHARS = 70


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A metadata key: `type` as text (`UINT32`, `ARRAY of STRING [49152]`), `value` shortened."""

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True)
class TypeRow:
    """All tensors of one type together."""

    type: Type
    n_tensors: int
    n_elements: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole file. `bits_per_weight` counts tensor data only; 0 without tensors."""

    path: str
    file_bytes: int
    version: int
    byte_order: str
    alignment: int
    n_parts: int
    architecture: str
    n_parameters: int
    tensor_bytes: int
    bits_per_weight: float
    keys: list[KeyRow]
    types: list[TypeRow]
    tensors: list[TensorInfo]


def describe(file: GGUFFile) -> Summary:
    """Gather the facts of an open file. Long arrays and texts are shortened, not decoded whole."""
    tensors = list(file.tensors.values())
    n_parameters = sum(t.n_elements for t in tensors)
    return Summary(
        path=str(file.path),
        file_bytes=file.file_bytes,
        version=file.version,
        byte_order=file.byte_order,
        alignment=file.alignment,
        n_parts=file.n_parts,
        architecture=str(file.get(KEY_ARCHITECTURE, "not given")),
        n_parameters=n_parameters,
        tensor_bytes=file.nbytes,
        bits_per_weight=8 * file.nbytes / n_parameters if n_parameters else 0.0,
        keys=[_key_row(file, name) for name in file.kv],
        types=_type_rows(tensors),
        tensors=tensors,
    )


def _type_rows(tensors: list[TensorInfo]) -> list[TypeRow]:
    by_type: dict[Type, list[TensorInfo]] = {}
    for t in tensors:
        by_type.setdefault(t.type, []).append(t)
    rows = [
        TypeRow(kind, len(ts), sum(t.n_elements for t in ts), sum(t.nbytes for t in ts))
        for kind, ts in by_type.items()
    ]
    return sorted(rows, key=lambda row: -row.nbytes)


def _key_row(file: GGUFFile, name: str) -> KeyRow:
    entry = file.kv.entry(name)
    value = _short(file.kv.head(name, SHOWN_ITEMS), entry)
    return KeyRow(printable(name), _type_text(entry), value)


def _type_text(entry: Entry) -> str:
    if entry.type is not ValueType.ARRAY or entry.item is None:
        return entry.type.name
    return f"ARRAY of {entry.item.name} [{entry.count}]"


def _short(value: Any, entry: Entry) -> str:
    if isinstance(value, list | np.ndarray):
        shown = [_one(v) for v in value[:SHOWN_ITEMS]]
        return "[" + ", ".join(shown) + (", ...]" if entry.count > len(shown) else "]")
    return _one(value)


def _one(value: Any) -> str:
    if isinstance(value, str):
        text = printable(value[: SHOWN_CHARS + 1])
        if len(value) > SHOWN_CHARS:
            return f"{text[:SHOWN_CHARS]}... ({len(value)} characters)"
        return text
    if isinstance(value, float | np.floating):
        return f"{value:.7g}"
    return str(value)


def printable(text: str) -> str:
    """`text` on one line, with control characters and bytes that are no text as escapes."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in safe)


def render(summary: Summary, console: Console, *, tensors: bool = True) -> None:
    """Print the tables on a `rich` console; `tensors=False` leaves the long one out."""
    from rich.table import Table
    from rich.text import Text

    def table(title: str, columns: str, right: tuple[int, ...], rows: list[list[str]]) -> None:
        t = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for i, column in enumerate(columns.split(",")):
            t.add_column(column, justify="right" if i in right else "left", overflow="fold")
        for row in rows:
            t.add_row(*(Text(cell) for cell in row))
        console.print(t)
        console.print()

    s = summary
    parts = f", {s.n_parts} files" if s.n_parts > 1 else ""
    console.print(
        Text(
            f"{s.path}: GGUF {s.version}, {s.byte_order}-endian, {s.file_bytes:,} bytes{parts}\n"
            f"architecture {s.architecture}, {s.n_parameters:,} parameters in {len(s.tensors)} "
            "tensors "
            f"of {s.tensor_bytes:,} bytes: {s.bits_per_weight:.2f} bits a weight\n"
        )
    )
    table("Metadata", "key,type,value", (), [[k.name, k.type, k.value] for k in s.keys])
    table("Types", "type,tensors,values,bytes", (1, 2, 3), [
        [type_name(t.type), str(t.n_tensors), f"{t.n_elements:,}", f"{t.nbytes:,}"]
        for t in s.types
    ])  # fmt: skip
    if tensors:
        table("Tensors", "name,type,sizes (innermost first),bytes,offset", (3, 4), [
            [printable(t.name), type_name(t.type), " x ".join(map(str, t.ne[: max(1, t.n_dims)])),
             f"{t.nbytes:,}", f"{t.offset:,}"]
            for t in s.tensors
        ])  # fmt: skip
