"""The table of ops and types, and that the committed one is current."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.conftest import REPO, find_adapter
from wggml.backends.cpu.device import CpuDevice
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.testing.selection import Selection
from wggml.testing.support import Answer, Line, lines, markdown

DOCS = REPO / "docs" / "ops.md"
COMMAND = "wggml test-ops --mode support -b lavapipe > docs/ops.md"


def numpy_rows(text: str) -> dict[str, Counter[str]]:
    """Per op how often each type is named, with NumPy's answer: what no adapter changes."""
    found: dict[str, Counter[str]] = {}
    for row in text.splitlines():
        cells = [c.strip() for c in row.split("|")]
        if len(cells) == 7 and re.fullmatch(r"[A-Z0-9_]+", cells[1]):
            names = re.findall(r"\w+", cells[2])
            found.setdefault(cells[1], Counter()).update({f"{n} {cells[3]}": 1 for n in set(names)})
    return found


def test_docs_name_every_op_and_type_with_numpys_answer() -> None:
    cpu = CpuDevice()
    made = markdown(lines(Selection(), [cpu, cpu]), [cpu, cpu])
    in_docs, now = numpy_rows(DOCS.read_text(encoding="utf-8")), numpy_rows(made)
    assert {op: set(c) for op, c in in_docs.items()} == {op: set(c) for op, c in now.items()}, (
        f"docs/ops.md is out of date; run: {COMMAND}"
    )


def test_docs_show_what_lavapipe_runs() -> None:
    device = find_adapter("lavapipe")
    if device is None:
        pytest.skip("no lavapipe adapter here")
    devices = [CpuDevice(), device]
    made = markdown(lines(Selection(), devices), devices)
    assert DOCS.read_text(encoding="utf-8") == made, f"docs/ops.md is out of date; run: {COMMAND}"


def test_answers_count_cases_and_keep_reasons() -> None:
    class Picky(CpuDevice):
        def why_not(self, t: Tensor) -> str | None:
            wide = t.op == Op.SQR and t.ne[0] > 100
            return "operand 'x' is wide (200 > 100)" if wide else super().why_not(t)

    devices = [CpuDevice(), Picky()]
    table = lines(Selection(("SQR",)), devices)
    [f32, *_] = table
    assert (f32.op, f32.types) == ("SQR", "f32")
    all_, some = f32.answers
    assert str(all_) == "yes" and str(some) == f"{some.runs} of {all_.cases}"
    assert 0 < some.runs < all_.cases
    assert "| SQR | f32" in markdown(table, devices)
    assert "| an operand is wide |" in markdown(table, devices)


def test_rows_join_types_of_one_answer() -> None:
    yes, no = Answer(2), Answer(1, Counter({"conversion of f32 to q4_0": 1}))
    table = [
        Line("CPY", "f32 -> f16", (yes,)), Line("CPY", "f16 -> f16", (yes,)),
        Line("CPY", "f32 -> q4_0", (no,)), Line("CPY", "f32 -> q8_0", (no,)),
    ]  # fmt: skip
    text = markdown(table, [CpuDevice()])
    assert "| CPY | f32, f16 -> f16 | yes |  |" in text
    assert "| CPY | f32 -> q4_0, q8_0 | no | conversion of … to … |" in text
