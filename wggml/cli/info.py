"""`wggml info`: what is inside a GGUF file, without loading it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from wggml.cli.text import count_text, nbytes_text, printable, utf8_stdout

if TYPE_CHECKING:
    from wggml.gguf_io import GGUFFile, TensorInfo

SHOWN_ITEMS = 6
"""Items of an array that are written out."""

SHOWN_CHARACTERS = 100
"""Characters of a string that are written out."""


@click.command(short_help="Show keys, tensors, types and sizes of a GGUF file.")
@click.argument("file")
@click.option("--full", is_flag=True, help="Write long strings and arrays in full.")
def info(file: str, full: bool) -> None:
    """Show keys, tensors, types and sizes of FILE: a .gguf file or a known model name."""
    from wggml.gguf_io import open_gguf
    from wggml.hub import resolve_model

    path = resolve_model(file, progress=True)
    out = utf8_stdout()
    with open_gguf(path) as gguf:
        for line in (*overview(gguf), "", *key_lines(gguf, full=full), "", *tensor_lines(gguf)):
            out.write(line + "\n")
    out.flush()


def overview(gguf: GGUFFile) -> list[str]:
    """The file as a whole: format, architecture, size, and how much each type takes."""
    n_elements = sum(tensor.n_elements for tensor in gguf.tensors.values())
    parts = f", {gguf.n_parts} parts" if gguf.n_parts > 1 else ""
    lines = [
        str(gguf.path),
        f"GGUF v{gguf.version}, {gguf.byte_order}-endian, alignment {gguf.alignment}{parts}",
        f"architecture {printable(str(gguf.get('general.architecture', 'not given')))}, "
        f"{count_text(n_elements)} parameters, {gguf.n_tensors} tensors, "
        f"{nbytes_text(gguf.nbytes)}",
    ]
    tensors: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    for tensor in gguf.tensors.values():
        tensors[type_label(tensor)] += 1
        nbytes[type_label(tensor)] += tensor.nbytes
    for label, size in nbytes.most_common():
        lines.append(f"  {label:8} {tensors[label]:5} tensors {nbytes_text(size):>12}")
    return lines


def key_lines(gguf: GGUFFile, *, full: bool) -> list[str]:
    """Every metadata key with its type and value."""
    lines = [f"{len(gguf.kv)} keys"]
    for key in gguf.kv:
        entry = gguf.kv.entry(key)
        kind = entry.type.name.lower()
        if entry.item is not None:
            kind = f"{entry.item.name.lower()}[{entry.count}]"
        lines.append(f"  {printable(key)}  {kind}  {value_text(gguf.kv[key], full=full)}")
    return lines


def tensor_lines(gguf: GGUFFile) -> list[str]:
    """Every tensor: type, sizes innermost first as ggml writes them, bytes, name."""
    lines = [f"{gguf.n_tensors} tensors"]
    for tensor in gguf.tensors.values():
        shape = " x ".join(str(size) for size in tensor.ne[: max(1, tensor.n_dims)])
        lines.append(
            f"  {type_label(tensor):8} {shape:>20} {nbytes_text(tensor.nbytes):>12}  "
            f"{printable(tensor.name)}"
        )
    return lines


def type_label(tensor: TensorInfo) -> str:
    """The tensor's type as files are named after it, e.g. "Q4_K"."""
    return tensor.type.name


def value_text(value: Any, *, full: bool) -> str:
    """A metadata value in one line; long ones are cut unless `full`."""
    if isinstance(value, str):
        if full or len(value) <= SHOWN_CHARACTERS:
            return f'"{printable(value)}"'
        return f'"{printable(value[:SHOWN_CHARACTERS])}"... ({len(value)} characters)'
    if not hasattr(value, "__len__"):
        return f"{value:.8g}" if isinstance(value, float) else str(value)
    items = value if full else value[:SHOWN_ITEMS]
    plain = items.tolist() if hasattr(items, "tolist") else items
    shown = ", ".join(value_text(item, full=full) for item in plain)
    return f"[{shown}{', ...' if len(items) < len(value) else ''}]"
