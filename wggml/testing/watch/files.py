"""Which templates were edited, by polling their times: that takes less than a millisecond, and sees
every editor and file system."""

from __future__ import annotations

from pathlib import Path
from time import sleep

from wggml.backends.wgpu import templates

SETTLE_SECONDS = 0.05  # editors write a file in several steps


class Files:
    """The `.wgsl` files in the folders where templates are looked up."""

    def __init__(self) -> None:
        self._seen = self._scan()

    def changed(self) -> frozenset[str]:
        """Names (paths below their folder) of templates edited, added or removed since the last
        call; waits until the files hold still."""
        now = self._scan()
        if now == self._seen:
            return frozenset()
        while True:
            sleep(SETTLE_SECONDS)
            later = self._scan()
            if later == now:
                break
            now = later
        before, self._seen = self._seen, now
        names = before.keys() | now.keys()
        return frozenset(name for name in names if before.get(name) != now.get(name))

    def _scan(self) -> dict[str, tuple[Path, int, int]]:
        """Path, time and size by name; of equal names the one that is used."""
        found: dict[str, tuple[Path, int, int]] = {}
        for folder in templates.shader_dirs():
            for path in folder.rglob("*.wgsl"):
                try:
                    state = path.stat()
                except OSError:  # removed in between
                    continue
                name = path.relative_to(folder).as_posix()
                found.setdefault(name, (path, state.st_mtime_ns, state.st_size))
        return found
