"""Which op runs on which device with which types: the table of `docs/ops.md`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wggml.core.types import BY_NAME, Type, type_name
from wggml.hal.interface import Device
from wggml.testing.builtin.recipe import Recipe
from wggml.testing.opdata import build_case, is_real
from wggml.testing.selection import Selection


@dataclass(slots=True)
class Answer:
    """Of the cases of one op and its types, how many a device runs, and why not the others."""

    cases: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> int:
        return self.cases - sum(self.refused.values())

    def __str__(self) -> str:
        if not self.refused:
            return "yes"
        return f"{self.runs} of {self.cases}" if self.runs else "no"


@dataclass(frozen=True, slots=True)
class Line:
    """One op with one choice of types, and the answer of each device in order."""

    op: str
    types: str
    answers: tuple[Answer, ...]


def lines(selection: Selection, devices: Sequence[Device]) -> list[Line]:
    """The table, by op and in the order of its types, from the chosen built-in cases."""
    table: dict[tuple[str, str], tuple[Answer, ...]] = {}
    for op, types, reasons in _asked(selection, devices):
        answers = table.setdefault((op, types), tuple(Answer() for _ in devices))
        for answer, reason in zip(answers, reasons, strict=True):
            answer.cases += 1
            if reason is not None:
                answer.refused[reason] += 1
    return [Line(op, types, answers) for (op, types), answers in sorted(
        table.items(), key=lambda item: item[0][0])]  # fmt: skip


def _asked(
    selection: Selection, devices: Sequence[Device]
) -> Iterator[tuple[str, str, list[str | None]]]:
    for id, recipe in selection.recipes():
        nodes = [t for t in build_case(recipe.make(id)).graph.nodes if is_real(t)]
        reasons = [next(filter(None, map(d.why_not, nodes)), None) for d in devices]
        yield recipe.op, types_of(recipe), reasons


def types_of(recipe: Recipe) -> str:
    """The types among a recipe's parameters, e.g. `q4_0`, `f32 -> q8_0`, `f16 x f16`. Second
    operands of F32 and indices go without saying."""
    params = recipe.params
    kinds = {k: v for k, v in params.items() if isinstance(v, Type)}
    kinds.pop("type_idx", None)
    if "type_src" in kinds and "type_dst" in kinds:
        return f"{type_name(kinds['type_src'])} -> {type_name(kinds['type_dst'])}"
    names = [type_name(v) for k, v in kinds.items() if k != "type_b" or v != Type.F32]
    return " x ".join(dict.fromkeys(names)) or "f32"


def titles(devices: Sequence[Device]) -> list[str]:
    """What columns are called: `NumPy`, or the first words of an adapter's name."""
    return ["NumPy" if d.name == "CPU" else d.description.split(",")[0] for d in devices]


INTRODUCTION = """\
# Ops and types

Written by `wggml test-ops --mode support`; a test says when it is out of date. An answer counts the
cases of the built-in table: yes = all of them run on the device itself. What an adapter does not
run goes to NumPy, at the price of a copy. Another adapter: `wggml test-ops --mode support -b NAME`.
"""


def markdown(table: Sequence[Line], devices: Sequence[Device]) -> str:
    """The table with one row for the types of an op that have the same answers."""
    names = titles(devices)
    rows = [f"| op | types | {' | '.join(names)} | why not |", "|---" * (len(names) + 3) + "|"]
    groups: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for line in table:
        key = (line.op, tuple(map(str, line.answers)), _why_not(line))
        groups.setdefault(key, []).append(line.types)
    for (op, answers, why), types in groups.items():
        rows.append(f"| {op} | {_joined(types)} | {' | '.join(answers)} | {why} |")
    return INTRODUCTION + "\n" + "\n".join(rows) + "\n"


def _joined(types: Sequence[str]) -> str:
    """`f32 -> f16, q8_0; f16 -> f32` for conversions, else the names."""
    by_source: dict[str, list[str]] = {}
    for pair in types:
        source, arrow, target = pair.partition(" -> ")
        by_source.setdefault(source if arrow else "", []).append(target or source)
    merged: dict[str, list[str]] = {}  # sources with the same targets
    for source, targets in by_source.items():
        merged.setdefault(", ".join(targets), []).append(source)
    return "; ".join(
        f"{', '.join(sources)} -> {targets}" if sources != [""] else targets
        for targets, sources in merged.items()
    )


_NAME = re.compile(r"(operand )?'[^']*'")
_SIZES = re.compile(r" \(.*\)")
_TYPE = re.compile(rf"\b({'|'.join(sorted(BY_NAME, key=len, reverse=True))})\b")


def _why_not(line: Line) -> str:
    """The commonest reason, without the names and sizes of one case, and without its types where
    none of the cases of these types runs."""
    reasons: Counter[str] = Counter()
    for answer in line.answers:
        reasons.update(answer.refused)
    if not reasons:
        return ""
    text = _SIZES.sub("", _NAME.sub("an operand", reasons.most_common(1)[0][0]))
    text = text.replace("|", "\\|")
    return text if any(a.runs for a in line.answers if a.refused) else _TYPE.sub("…", text)
