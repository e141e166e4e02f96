"""The runtime folder that GPU libraries want."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from wggml.cli.environment import prepare_environment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that names no runtime folder."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    return tmp_path


def test_a_private_folder_is_made_where_none_is_named(temp: Path) -> None:
    prepare_environment()
    folder = Path(os.environ["XDG_RUNTIME_DIR"])
    assert folder.parent == temp
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_named_stays(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    prepare_environment()
    assert os.environ["XDG_RUNTIME_DIR"] == "/run/user/1"
    assert list(temp.iterdir()) == []


def test_a_folder_that_others_can_write_is_not_used(temp: Path) -> None:
    folder = temp / f"wggml-runtime-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    prepare_environment()
    assert os.environ["XDG_RUNTIME_DIR"] == ""
