"""Fixtures that every test module may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of recorded golden data (`WGGML_SHARED`, else `../shared`); skips without it."""
    path = Path(os.environ.get("WGGML_SHARED") or REPO.parent / "shared")
    if not (path / "oracle").is_dir():
        pytest.skip(f"no golden data at {path}; set WGGML_SHARED to the folder that has oracle/")
    return path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The small golden files committed with the tests."""
    return REPO / "tests" / "data"
