"""Small models on devices, for looking into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import find_adapter
from wggml.llama import Llama

Open = Callable[..., Llama]


@pytest.fixture
def open_tiny(tiny_model: Callable[[str], Path]) -> Open:
    """`open_tiny(device, name="llama", **settings)`: a tiny random model."""

    def open_(device: str = "cpu", name: str = "llama", **settings: object) -> Llama:
        given = {"device": device, "n_ctx": 512, "n_ubatch": 32, "warm_up": False, **settings}
        return Llama(tiny_model(name), **given)  # type: ignore[arg-type]

    return open_


@pytest.fixture(scope="session")
def gpu() -> str:
    """The quickest software adapter there is; skips where there is none."""
    for name in ("lavapipe", "swiftshader", "opengl"):
        if find_adapter(name) is not None:
            return name
    pytest.skip("no wgpu adapter here")
