"""Columns of a product written to a texture by the kernel before it (slow buffer loads only)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import find_adapter
from wggml.core import ops
from wggml.core.opcodes import GluOp
from wggml.session import Session

K, ROWS = 512, 1024  # large enough for a copy to pay off


@pytest.fixture(params=["lavapipe", "opengl"])
def session(request: pytest.FixtureRequest):
    if find_adapter(request.param) is None:
        pytest.skip(f"no {request.param} adapter here")
    with Session(request.param) as s:
        yield s


def labels(s: Session) -> list[str]:
    (plan,) = s.backends[0].plans  # type: ignore[attr-defined]
    return [d.label for d in plan.dispatches]


def reference_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w


@pytest.mark.parametrize("n", [1, 3, 17])
def test_a_norm_writes_what_two_products_read(session: Session, n: int):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, K), np.float32)
    gain = rng.standard_normal(K, np.float32)
    a, b = (rng.standard_normal((ROWS, K), np.float32) / 20 for _ in range(2))
    s, ctx = session, session.context
    y = ops.mul(ctx, ops.rms_norm(ctx, s.tensor(x), 1e-5), s.tensor(gain))
    p, q = (ops.mul_mat(ctx, s.tensor(w), y) for w in (a, b))
    got = s.compute(p, q, y)
    assert not any("columns to a texture" in label for label in labels(s))
    want = reference_norm(x, gain)
    for g, w in zip(got, (want @ a.T, want @ b.T, want), strict=True):
        np.testing.assert_allclose(g.reshape(w.shape), w, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_a_gated_unit_writes_what_the_next_product_reads(session: Session, n: int):
    rng = np.random.default_rng(n)
    gate, up = (rng.standard_normal((n, K), np.float32) for _ in range(2))
    w = rng.standard_normal((ROWS, K), np.float32) / 20
    s, ctx = session, session.context
    h = ops.glu_split(ctx, s.tensor(gate), s.tensor(up), GluOp.SWIGLU)
    got = s.compute(ops.mul_mat(ctx, s.tensor(w), h))
    assert not any("columns to a texture" in label for label in labels(s))
    want = (gate / (1 + np.exp(-gate)) * up) @ w.T
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-3, atol=1e-4)


def test_a_product_in_between_does_not_see_the_other_columns(session: Session):
    """Two norms before two products each: the copy of the first is not the second's."""
    rng = np.random.default_rng(0)
    s, ctx = session, session.context
    x, z = (rng.standard_normal((1, K), np.float32) for _ in range(2))
    w = rng.standard_normal((ROWS, K), np.float32) / 20
    weights = s.tensor(w)
    y1, y2 = (ops.rms_norm(ctx, s.tensor(v), 1e-5) for v in (x, z))
    first, second = ops.mul_mat(ctx, weights, y1), ops.mul_mat(ctx, weights, y2)
    third = ops.mul_mat(ctx, weights, y1)
    got = s.compute(first, second, ops.add(ctx, third, second))
    one, two = (reference_norm(v, np.ones(K, np.float32)) @ w.T for v in (x, z))
    for g, want in zip(got, (one, two, one + two), strict=True):
        np.testing.assert_allclose(g.reshape(want.shape), want, rtol=1e-3, atol=1e-4)
