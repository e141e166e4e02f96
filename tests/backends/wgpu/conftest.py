"""Fixtures: a laboratory on each software adapter. Lets these tests import `wgpu_lab`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.hal.registry import default_registry

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def backend(adapter_name: str) -> WgpuBackend:
    found = default_registry().find(adapter_name).init_backend()
    assert isinstance(found, WgpuBackend)
    return found


@pytest.fixture
def lab(backend: WgpuBackend) -> Any:
    from wgpu_lab import Lab

    made = Lab(backend)
    yield made
    made.free()


@pytest.fixture(scope="session")
def first_backend() -> WgpuBackend:
    """One adapter, for what does not depend on which."""
    for d in default_registry().devices():
        if d.name.startswith("WGPU"):
            found = d.init_backend()
            assert isinstance(found, WgpuBackend)
            return found
    pytest.skip("no wgpu adapter here")


@pytest.fixture
def one_lab(first_backend: WgpuBackend) -> Any:
    from wgpu_lab import Lab

    made = Lab(first_backend)
    yield made
    made.free()


@pytest.fixture(scope="session")
def hardware_backend(first_backend: WgpuBackend) -> WgpuBackend:
    """A software adapter treated as a GPU, to run the kernel variants meant for GPUs."""
    found = first_backend.device.with_mask("hardware").init_backend()
    assert isinstance(found, WgpuBackend)
    return found


@pytest.fixture
def hardware_lab(hardware_backend: WgpuBackend) -> Any:
    from wgpu_lab import Lab

    made = Lab(hardware_backend)
    yield made
    made.free()
