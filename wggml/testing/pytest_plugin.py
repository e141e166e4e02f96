"""Fixtures for tests of ops of one's own. In the `conftest.py` of a project:

    pytest_plugins = ["wggml.testing.pytest_plugin"]

and in a test:

    def test_my_op(check_op, op_device):
        check_op(my_op, op_device)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wggml.custom import CustomOp
    from wggml.hal.interface import Device

__all__ = ["check_op", "op_device"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--op-device", action="append", metavar="NAME",
        help="device that op_device gives, by index or part of its name; default: every one",
    )  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `op_device` runs once for each."""
    if "op_device" not in metafunc.fixturenames:
        return
    from wggml.hal.registry import default_registry

    os.environ.setdefault("WGGML_SELFTEST", "off")  # a wrong op is to fail, not to be left out
    registry = default_registry()
    chosen = metafunc.config.getoption("--op-device")
    devices = [registry.find(name) for name in chosen] if chosen else registry.devices()
    metafunc.parametrize("op_device", devices, ids=[d.name for d in devices], indirect=True)


@pytest.fixture
def op_device(request: pytest.FixtureRequest) -> Device:
    """Each device there is (or those of `--op-device`), the CPU among them."""
    device: Device = request.param
    return device


@pytest.fixture
def check_op() -> Callable[..., None]:
    """`check_op(op, device, *, allow_unsupported=False)`: run the op's examples on the device, in
    poisoned memory with guards around every tensor, twice, and compare with the NumPy reference.
    An AssertionError lists what failed, or what the device refused."""
    return run_examples


def run_examples(op: CustomOp, device: Device, *, allow_unsupported: bool = False) -> None:
    from wggml.hal.registry import default_registry
    from wggml.testing.builtin.custom import recipes_of
    from wggml.testing.runner import run_cases

    reference = default_registry().cpu().init_backend()
    backend = device.init_backend()
    try:
        cases = [r.case(f"{op.name}/{i}", reference) for i, r in enumerate(recipes_of(op))]
        results = run_cases(cases, backend, runs=2)
    finally:
        backend.close()
        reference.close()
    bad = ["fail"] if allow_unsupported else ["fail", "unsupported"]
    lines = [f"{r.status}: {r.case}: {r.reason}" for r in results if r.status in bad]
    assert not lines, f"{op.name} on {device.name} ({device.description}):\n" + "\n".join(lines)
