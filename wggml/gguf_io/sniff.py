"""Guess what a file that is not a GGUF is, so that the error can say it."""

from __future__ import annotations

import re
from pathlib import Path

_AGAIN = "download the model file itself"
_CONVERT = "convert it to GGUF, or look for a GGUF of the same model"

# First bytes -> (what it is, what to do).
_MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (b"<!doctype", "an HTML page (an error or log-in page saved as a model?)", _AGAIN),
    (b"<html", "an HTML page (an error or log-in page saved as a model?)", _AGAIN),
    (b"<?xml", "an XML document (an error message saved as a model?)", _AGAIN),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file", "run `git lfs pull`"),
    (b"tjgg", "a GGJT file, a format before GGUF", _CONVERT),
    (b"lmgg", "a GGML file, a format before GGUF", _CONVERT),
    (b"fmgg", "a GGMF file, a format before GGUF", _CONVERT),
    (b"algg", "a GGLA adapter, a format before GGUF", _CONVERT),
    (b"pk\x03\x04", "a ZIP archive (a PyTorch checkpoint or a wheel?)", "unpack or convert it"),
    (b"\x80\x02", "a Python pickle (a PyTorch checkpoint?)", _CONVERT),
    (b"\x1f\x8b", "gzip-compressed data", "unpack it first"),
    (b"\xfd7zxz", "xz-compressed data", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data", "unpack it first"),
    (b"bzh", "bzip2-compressed data", "unpack it first"),
    (b"\x89hdf", "an HDF5 file", _CONVERT),
    (b"\x93numpy", "a NumPy array", _CONVERT),
    (b"{", "JSON text (an error message saved as a model?)", _AGAIN),
)

_PART = re.compile(r"\.part[-_.]?\d+(of\d+)?$|\.\d{3}$|\.split-[a-z]{2}$", re.IGNORECASE)


def is_part_name(path: Path) -> bool:
    """True for names of raw pieces of a file (`x.gguf.part1of2`, `.part00`, `.001`)."""
    return _PART.search(path.name) is not None


def part_hint(path: Path) -> str:
    """What to do with a piece of a file."""
    whole = _PART.sub("", path.name)
    return (
        f"the name says that it is one piece of {whole!r}: join all pieces in order "
        f"(`cat {whole}.part* > {whole}`) and open the result"
    )


def describe_foreign(head: bytes, path: Path) -> str:
    """One clause on what a file starting with `head` (the first 64 bytes or so) looks like."""
    if is_part_name(path):
        return part_hint(path)
    start = head.lstrip().lower() if head[:1].isspace() else head.lower()
    for magic, what, todo in _MAGICS:
        if start.startswith(magic):
            return f"it looks like {what}; {todo}"
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return f"it looks like a safetensors file; {_CONVERT}"
    if not any(head):
        return "it starts with zeros: an unfinished download? download it again"
    return "it is no format known here; check that it is the right file, or download it again"
