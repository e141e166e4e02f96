"""Models split over several GGUF files (`name-00001-of-00003.gguf`)."""

from __future__ import annotations

import re
from pathlib import Path

from wggml.errors import GGUFError
from wggml.gguf_io import constants as c
from wggml.gguf_io.kv import KV

_NAME = re.compile(r"^(?P<stem>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$")


def split_count(kv: KV, path: Path) -> int:
    """Number of files the model is split over; 1 when it is not."""
    return _small_int(kv, c.KEY_SPLIT_COUNT, 1, path) or 1


def _small_int(kv: KV, key: str, default: int, path: Path) -> int:
    value = kv.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise GGUFError(f"{path}: {key} is {value!r}; it must be a number >= 0: damaged file")
    return value


def other_parts(kv: KV, path: Path) -> list[Path]:
    """Paths of the parts after the first, all of which exist.

    `path` must be the first part: anything else raises `GGUFError` naming the file to open.
    """
    count = split_count(kv, path)
    no = _small_int(kv, c.KEY_SPLIT_NO, 0, path)
    if count == 1:
        return []
    match = _NAME.match(path.name)
    if no != 0:
        first = f"{match['stem']}-00001-of-{count:05d}.gguf" if match else "the first part"
        raise GGUFError(
            f"{path} is part {no + 1} of {count} of a split model; open {first} (in the same "
            "folder), which finds the others"
        )
    if match is None or int(match["count"]) != count or int(match["no"]) != 1:
        raise GGUFError(
            f"{path} is the first of {count} parts of a split model, but its name does not say so; "
            f"name the parts NAME-00001-of-{count:05d}.gguf and so on, in one folder"
        )
    paths = [
        path.with_name(f"{match['stem']}-{i:05d}-of-{count:05d}.gguf") for i in range(2, count + 1)
    ]
    missing = [p.name for p in paths if not p.is_file()]
    if missing:
        raise GGUFError(
            f"{path}: {len(missing)} of {count} parts of this split model are missing: "
            f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}; "
            f"put them into {path.parent}"
        )
    return paths


def check_part(kv: KV, path: Path, no: int, count: int) -> None:
    """Raise unless the file at `path` says that it is part `no` (from 0) of `count`."""
    got = (_small_int(kv, c.KEY_SPLIT_NO, 0, path), split_count(kv, path))
    if got != (no, count):
        raise GGUFError(
            f"{path} should be part {no + 1} of {count} but says that it is part {got[0] + 1} of "
            f"{got[1]}: wrong or renamed file; download the parts again"
        )


def check_total(kv: KV, path: Path, n_tensors: int) -> None:
    """Raise when the parts together hold another number of tensors than the first announces."""
    want = _small_int(kv, c.KEY_SPLIT_TENSORS, n_tensors, path)
    if want != n_tensors:
        raise GGUFError(
            f"{path}: the parts of this split model hold {n_tensors} tensors together, {want} were "
            "announced: parts of different models mixed? download them again"
        )
