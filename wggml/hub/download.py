"""Fetching one wheel: found in the index, written under a name that nobody takes for the whole
file, checked by its hash, and only then given its own name."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from wggml.errors import FetchError
from wggml.hub.catalogue import Wheel
from wggml.hub.http import RETRIES, Opener
from wggml.hub.index import find_wheel
from wggml.hub.pip_config import PipConfig
from wggml.hub.progress import Advance, byte_progress, mib, say

CHUNK_NBYTES = 256 * 1024
"""Bytes read from a connection at a time."""

POLL_SECONDS = 0.2
"""How often a running pip is looked at."""


def fetch_wheel(wheel: Wheel, folder: Path, config: PipConfig, *, show: bool) -> Path:
    """Returns the path of `wheel` inside `folder`, fetched where it is not there yet.

    Downloads from the configured index; where that fails, lets pip itself try, which knows ways in
    (keyrings, client certificates) that we do not. Raises FetchError; leaves no partial file.
    """
    target = folder / wheel.filename
    if target.is_file() and sha256_of(target) == wheel.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    _need_space(folder, wheel)
    try:
        link = find_wheel(wheel, config, Opener(config))
        _download(wheel, link.url, target, config, show=show)
    except FetchError as error:
        if isinstance(error, HashMismatchError):
            raise
        say(f"{wheel.filename}: direct download failed, asking pip", show=show)
        if not _pip_download(wheel, target, show=show):
            raise
    return target


class HashMismatchError(FetchError):
    """A file arrived whole and is not the file that was published."""


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _need_space(folder: Path, wheel: Wheel) -> None:
    free = shutil.disk_usage(folder).free
    if free < wheel.nbytes:
        raise FetchError(
            f"{folder} has {mib(free)} free and {wheel.filename} needs {mib(wheel.nbytes)}; "
            "make room, or set WGGML_CACHE to a folder on a larger disk"
        )


def _download(wheel: Wheel, url: str, target: Path, config: PipConfig, *, show: bool) -> None:
    opener = Opener(config)
    for attempt in range(1, RETRIES + 1):
        part = part_of(target)
        try:
            with byte_progress(wheel.project, wheel.nbytes, show=show) as advance:
                digest = _copy(opener, url, part, wheel.nbytes, advance)
            _accept(wheel, part, target, digest)
            return
        except (OSError, http.client.HTTPException) as error:
            if attempt == RETRIES:
                raise FetchError(
                    f"downloading {wheel.filename} failed {RETRIES} times, last with: {error}; "
                    "check the network and try again"
                ) from error
            say(f"{wheel.filename}: {error}; trying again", show=show)
        finally:
            part.unlink(missing_ok=True)


def _copy(opener: Opener, url: str, part: Path, expected: int, advance: Advance) -> str:
    """Writes what `url` gives to `part`; returns its SHA-256. Stops past `expected` bytes."""
    digest = hashlib.sha256()
    written = 0
    with opener.open(url) as reply, part.open("wb") as file:
        while chunk := reply.read(CHUNK_NBYTES):
            file.write(chunk)
            digest.update(chunk)
            written += len(chunk)
            advance(len(chunk))
            if written > expected:
                break
    if written < expected:
        raise OSError(f"the connection ended after {written} of {expected} bytes")
    return digest.hexdigest()


def _accept(wheel: Wheel, part: Path, target: Path, digest: str) -> None:
    if digest != wheel.sha256:
        raise HashMismatchError(
            f"{wheel.filename} arrived with SHA-256 {digest}, expected {wheel.sha256}: "
            "the file was changed on its way and is not used; try another network or index"
        )
    os.replace(part, target)


def part_of(target: Path) -> Path:
    """The name under which this process writes `target` until it is whole."""
    return target.with_name(f"{target.name}.{os.getpid()}.part")


def _pip_download(wheel: Wheel, target: Path, *, show: bool) -> bool:
    """Lets pip fetch the wheel, watching its files grow. False where pip cannot either."""
    with tempfile.TemporaryDirectory(prefix="pip-", suffix=".part", dir=target.parent) as name:
        scratch = Path(name)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-cache-dir", "--only-binary", ":all:", "--dest", str(scratch / "out")]
        command += [f"{wheel.project}=={wheel.version}"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": name, "TEMP": name, "TMP": name},
        )
        try:
            with byte_progress(wheel.project, wheel.nbytes, show=show) as advance:
                _watch(process, scratch, advance)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        fetched = scratch / "out" / wheel.filename
        if process.returncode != 0 or not fetched.is_file():
            return False
        _accept(wheel, fetched, target, sha256_of(fetched))
        return True


def _watch(process: subprocess.Popen[Any], folder: Path, advance: Advance) -> None:
    seen = 0
    while process.poll() is None:
        size = sum(_size(path) for path in folder.rglob("*"))
        advance(max(0, size - seen))
        seen = max(seen, size)
        time.sleep(POLL_SECONDS)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for a folder, and for what vanished while pip works."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
