"""Values at the edge, on every adapter: activations of 1e5 through all weight types, and softmax
over rows that are fully masked or of awkward length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mm_lab import PLAIN, assert_close, magnitude, product, weights
from wgpu_lab import Lab, values

from wggml.backends.wgpu.packing import FIELDS
from wggml.core import ops
from wggml.core.types import Type, type_name

ALL_TYPES = [*PLAIN, *FIELDS]


@pytest.fixture(params=["as it is", "as a GPU"])
def any_lab(request: pytest.FixtureRequest, lab: Lab) -> Any:
    """The adapter, and the adapter treated as a GPU: many lanes share a row."""
    if request.param == "as it is":
        yield lab
        return
    made = Lab(lab.backend.device.with_mask("hardware").init_backend())
    yield made
    made.free()


@pytest.mark.parametrize("type_", ALL_TYPES, ids=type_name)
def test_activations_of_1e5(lab: Lab, type_: Type) -> None:
    """Sums past f16's 65504: nothing on the way may be kept in 16 bits or clamped."""
    w, exact = weights(lab, type_, (512, 9), int(type_))
    x = (1e5 * values((2, 512), 3)).astype(np.float32)
    x[1] = np.copysign(x[1], exact[0])  # all terms of one sum have one sign
    wide = x.astype(np.float64)
    got = product(lab, w, lab.tensor(x))
    assert np.abs(got).max() > 65504
    assert_close(got, wide @ exact.T, magnitude(exact, wide))


@pytest.mark.parametrize("type_", [Type.F16, Type.Q4_0, Type.Q4_K, Type.Q8_0], ids=type_name)
def test_activations_of_1e5_through_experts(lab: Lab, type_: Type) -> None:
    w, exact = weights(lab, type_, (256, 9, 3), 8)
    x = (1e5 * values((2, 1, 256), 4)).astype(np.float32)
    ids = np.array([[2, 0], [1, 2]], np.int32)
    got = lab.run(ops.mul_mat_id(lab.ctx, w, lab.tensor(x), lab.tensor(ids, Type.I32)))
    wide = x[:, 0].astype(np.float64)
    for token in range(2):
        for slot in range(2):
            expert = exact[ids[token, slot]]
            terms = magnitude(expert, wide[token : token + 1])
            assert_close(got[token, slot], (wide[token] @ expert.T)[None], terms)


# ---- softmax ------------------------------------------------------------------------------------

# Workgroups have 8 lanes a row on software adapters and 32 to 256 as on a GPU.
LENGTHS = [1, 3, 7, 8, 9, 31, 32, 33, 255, 256, 257, 40000]


def softmax(x: np.ndarray) -> np.ndarray:
    top = x.max(axis=-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return np.asarray(e / np.where(total == 0, 1, total))


@pytest.mark.parametrize("n", LENGTHS)
def test_softmax_of_awkward_rows(any_lab: Lab, n: int) -> None:
    x = 3 * values((5, n), n)
    got = any_lab.run(ops.soft_max(any_lab.ctx, any_lab.tensor(x))).reshape(5, n)
    np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("mask_type", [Type.F32, Type.F16], ids=type_name)
@pytest.mark.parametrize("n", LENGTHS)
def test_softmax_with_rows_fully_masked(any_lab: Lab, n: int, mask_type: Type) -> None:
    """A row that sees nothing gives zeros, not NaN; its neighbours are as if it were not there."""
    x = 3 * values((2, 4, n), n)
    mask = np.zeros((4, n), np.float32)
    mask[1] = -np.inf
    mask[2, 1:] = -np.inf  # sees its first value only
    mask[3, n // 2 :] = -np.inf  # n = 1: nothing again
    m = any_lab.tensor(mask, mask_type)
    got = any_lab.run(ops.soft_max(any_lab.ctx, any_lab.tensor(x), m, 0.5)).reshape(2, 4, n)
    assert (got[:, 1] == 0).all()
    want = softmax(0.5 * x.astype(np.float64) + mask)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-9)


def test_softmax_of_huge_values(any_lab: Lab) -> None:
    """1e5 and beyond: the largest value decides, exp never overflows."""
    x = np.array([[1e5, -1e5, 1e5, 0], [-1e30, -2e30, -1e30, -3e30], [88, 89, 90, 91]], np.float32)
    got = any_lab.run(ops.soft_max(any_lab.ctx, any_lab.tensor(x)))
    np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=2e-5, atol=1e-9)
