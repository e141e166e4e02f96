"""Planted faults are caught: a few each run, all by `python -m tests.mutation`."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from tests.conftest import REPO
from tests.mutation.faults import Fault, all_faults
from tests.mutation.harness import try_fault

SAMPLE = 30  # one in so many, chosen by name


def test_every_fault_applies_to_its_template() -> None:
    for fault in all_faults():
        text = (REPO / "shaders" / fault.file).read_text()
        assert fault.applied(text) != text


def test_faults_are_many_and_named() -> None:
    names = Counter(f.name for f in all_faults())
    assert len(names) == len(all_faults()) >= 40
    assert sum("barrier" in f.kind for f in all_faults()) >= 8


def test_every_kernel_has_a_fault() -> None:
    """But for those that compute nothing an op's result depends on."""
    folders = {p.parent.name for p in (REPO / "shaders").glob("*/*.wgsl")}
    assert folders - {"peak"} == {f.file.split("/")[0] for f in all_faults()}


@pytest.mark.parametrize(
    "fault",
    [f for f in all_faults() if zlib.crc32(f.name.encode()) % SAMPLE == 0],
    ids=lambda f: f.name,
)
def test_a_planted_fault_is_caught(fault: Fault) -> None:
    outcome = try_fault(fault)
    if outcome.verdict == "skipped":
        pytest.skip(outcome.why)
    assert outcome.verdict == "caught", outcome.why
