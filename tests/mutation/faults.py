"""Faults planted one at a time into the shader templates: each must be seen by an operator case.

The list is in `families/*.toml`. A fault replaces `old`, which must occur exactly once in its file,
by `new`; `ops` matches the display names of the ops whose cases are to see it. Some are invisible
where a workgroup is a single subgroup of lanes that run in step, as software adapters have it: `on`
names an adapter, and how it is treated, on which they matter.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FAMILIES = Path(__file__).parent / "families"


@dataclass(frozen=True, slots=True)
class Fault:
    """A line of the list; `name` is one no other has."""

    file: str
    kind: str
    old: str
    new: str
    ops: str
    on: str = "lavapipe"
    cases: str = ""  # searched in their ids and parameters, where an op has very many

    @property
    def name(self) -> str:
        return f"{self.file}: {self.kind}"

    def applied(self, text: str) -> str:
        """The template with the fault; `ValueError` when its text is not there just once."""
        n = text.count(self.old)
        if n != 1:
            raise ValueError(f"{self.name}: {self.old!r} occurs {n} times; mend the list of faults")
        return text.replace(self.old, self.new)


@cache
def all_faults() -> list[Fault]:
    """Every fault, families in order of their names."""
    return [
        Fault(**entry)
        for path in sorted(FAMILIES.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["fault"]
    ]
