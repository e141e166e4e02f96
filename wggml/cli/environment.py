"""What GPU libraries expect to find in the environment."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def prepare_environment() -> None:
    """Names a private runtime folder where the system names none.

    Without XDG_RUNTIME_DIR (containers, ssh, cron) the OpenGL libraries print an error for each
    adapter that is looked at.
    """
    if not sys.platform.startswith("linux") or os.environ.get("XDG_RUNTIME_DIR"):
        return
    folder = Path(tempfile.gettempdir()) / f"wggml-runtime-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return
    if state.st_uid == os.getuid() and state.st_mode & 0o077 == 0:
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
