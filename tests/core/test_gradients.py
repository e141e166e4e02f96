"""Gradients against finite differences, on the NumPy backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wggml.core import derivatives, gradients
from wggml.core.opcodes import Op
from wggml.hal.interface import Backend
from wggml.hal.registry import default_registry
from wggml.testing.gradient_cases import CASES, Problem
from wggml.testing.slopes import Slope, build, check_slope


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    b = default_registry().cpu().init_backend()
    yield b
    b.close()


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_the_slope(name: str, backend: Backend) -> None:
    found = check_slope(name, backend)
    assert found.status == "pass", found


def test_a_wrong_gradient_shows(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(b: object, node: object, grad: object) -> None:
        b.add(node.src[0], b.graph.grads[node])  # type: ignore[attr-defined]

    monkeypatch.setitem(gradients.RULES, Op.SQR, half)
    found = check_slope("sqr", backend)
    assert found.status == "fail" and "gradient" in found.reason


def test_a_flat_case_is_refused(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(p: Problem) -> object:
        from wggml.core import ops

        return ops.scale(p.ctx, p.param(4), 1e-4)

    monkeypatch.setitem(CASES, "flat", flat)  # type: ignore[arg-type]
    assert check_slope("flat", backend) == Slope(
        "flat", "fail", 0.0, reason="param 0: flat, so it shows nothing"
    )


def test_every_rule_has_a_case() -> None:
    seen: set[Op] = set()
    unary, glu = set(), set()
    for case in CASES.values():
        built = build(case)
        through = [t for t in built.forward.nodes if t in built.graph.grads]
        seen |= {t.op for t in through}
        unary |= {t.unary_op for t in through if t.op == Op.UNARY}
        glu |= {t.glu_op for t in through if t.op == Op.GLU}
    assert seen >= set(gradients.RULES) - {Op.NONE}
    assert unary == set(derivatives.UNARY)
    assert glu == set(derivatives.GLU_ACTS)
