"""Plans found again by what they depend on, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from wggml.core import ops
from wggml.session import Session


@pytest.fixture
def session(adapter_name: str):
    with Session(adapter_name) as s:
        yield s


def built(s: Session) -> int:
    return s.backends[0].counters.plans_built


def test_the_same_graph_built_again_has_its_plan(session: Session):
    x = session.tensor(np.arange(8.0))
    first = session.compute(ops.scale(session.context, x, 2.0))
    n = built(session)
    again = session.compute(ops.scale(session.context, x, 2.0))
    assert built(session) == n
    np.testing.assert_array_equal(first, again)


def test_other_operands_parameters_or_sizes_have_not(session: Session):
    s, ctx = session, session.context
    x, y = s.tensor(np.arange(8.0)), s.tensor(np.full(8, 5.0))
    a, b = x.numpy(), y.numpy()
    cases = [
        (ops.sub(ctx, x, y), a - b),
        (ops.sub(ctx, y, x), b - a),
        (ops.sub(ctx, x, x), a - a),
        (ops.scale(ctx, x, 2.0), a * 2),
        (ops.scale(ctx, x, 3.0), a * 3),
        (ops.add(ctx, x, y), a + b),
        (ops.add(ctx, ops.view(ctx, x, [4]), ops.view(ctx, y, [4])), a[:4] + b[:4]),
        (ops.add(ctx, ops.view(ctx, x, [4], (), 16), ops.view(ctx, y, [4])), a[4:] + b[:4]),
    ]
    before = built(s)
    for t, want in cases:
        np.testing.assert_allclose(s.compute(t), want)
    assert built(s) - before == len(cases)


def test_what_fuses_depends_on_who_else_uses_a_result(session: Session):
    """The same two nodes, with and without the first one's result being read."""
    s, ctx = session, session.context
    x, w = s.tensor(np.arange(1.0, 9.0)), s.tensor(np.full(8, 3.0))
    norm = ops.rms_norm(ctx, x, 1e-5)
    only = s.compute(ops.mul(ctx, norm, w))
    norm = ops.rms_norm(ctx, x, 1e-5)
    both, inner = s.compute(ops.mul(ctx, norm, w), norm)
    np.testing.assert_allclose(both, only, rtol=1e-6)
    np.testing.assert_allclose(inner * 3.0, only, rtol=1e-6)
