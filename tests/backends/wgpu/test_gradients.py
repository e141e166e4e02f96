"""Gradients computed on each adapter against finite differences of what it computes forward."""

from __future__ import annotations

import pytest

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.testing.gradient_cases import CASES
from wggml.testing.slopes import build, check_slope

# Left to the NumPy backend; the reason that the device gives.
REFUSED = {"mul_mat of what is transposed": "gaps between their elements"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_gradient_is_the_slope(name: str, backend: WgpuBackend) -> None:
    found = check_slope(name, backend)
    assert found.status == "pass", found


@pytest.mark.parametrize("name", REFUSED)
def test_refused_gradients_say_why(name: str, backend: WgpuBackend) -> None:
    reasons = [backend.device.why_not(t) for t in build(CASES[name]).graph.nodes]
    assert any(REFUSED[name] in reason for reason in reasons if reason)
