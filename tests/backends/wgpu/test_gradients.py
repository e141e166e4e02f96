"""Gradients computed on each adapter against finite differences of what it computes forward."""

from __future__ import annotations

import pytest

from tests.core.gradient_cases import CASES
from tests.core.test_gradients import build, check_slopes
from wggml.backends.wgpu.backend import WgpuBackend

# Left to the NumPy backend; the reason that the device gives.
REFUSED = {"mul_mat of what is transposed": "gaps between their elements"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_gradient_is_the_slope(name: str, backend: WgpuBackend) -> None:
    check_slopes(name, backend)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_gradients_say_why(name: str, backend: WgpuBackend) -> None:
    reasons = [backend.device.why_not(t) for t in build(name).graph.nodes]
    assert any(REFUSED[name] in reason for reason in reasons if reason)
