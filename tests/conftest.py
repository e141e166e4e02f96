"""Fixtures that every test module may use."""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from wggml.hal.interface import Device

# The same examples on every run of CI: a red run there means that the change broke something.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Tests judge the drivers themselves: a wrong kernel is to fail, not to be left out.
os.environ.setdefault("WGGML_SELFTEST", "off")

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


@pytest.fixture(scope="session")
def tiny_model(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny_model(name)`: the unpacked GGUF file of a committed tiny random model."""
    folder = tmp_path_factory.mktemp("tiny")

    def unpack(name: str) -> Path:
        path = folder / f"{name}.gguf"
        if not path.exists():
            packed = data_dir / "llm" / "tiny" / f"{name}.gguf.xz"
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        return path

    return unpack


# What the software adapters are called, and what each stands for in the tests.
ADAPTERS = {
    "lavapipe": "f16, subgroups of 8",
    "swiftshader": "no f16, subgroups of 4",
    "opengl": "no f16, no subgroups",
}


def find_adapter(name: str) -> Device | None:
    """The device of that name, or None where its driver is not installed."""
    from wggml.errors import DeviceError
    from wggml.hal.registry import default_registry

    try:
        return default_registry().find(name)
    except DeviceError:
        return None


@pytest.fixture(scope="session", params=["cpu", *ADAPTERS])
def device_name(request: pytest.FixtureRequest) -> str:
    """Every device there may be; skips, naming the adapter, where its driver is missing."""
    if find_adapter(request.param) is None:
        pytest.skip(f"no {request.param} adapter here ({ADAPTERS[request.param]})")
    return str(request.param)


@pytest.fixture(scope="session", params=list(ADAPTERS))
def adapter_name(request: pytest.FixtureRequest) -> str:
    """Every software adapter; skips, naming it, where its driver is missing."""
    if find_adapter(request.param) is None:
        pytest.skip(f"no {request.param} adapter here ({ADAPTERS[request.param]})")
    return str(request.param)
