"""Which operator cases a run is about: from a folder of recorded ones, or the built-in table."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from wggml.errors import ShapeError, UsageError
from wggml.testing.builtin import Recipe, iter_builtin, iter_recipes
from wggml.testing.opdata import OpCase, case_files, iter_cases


@dataclass(frozen=True)
class Selection:
    """Cases of `directory` (None: the built-in table) whose op is one of `ops` (none: all) and in
    whose `"<id> <parameters>"` the regular expression `pattern` is found.

    `perf` chooses among the built-in shapes for measuring, which have no reference values.
    Raises `UsageError` for a folder without cases, an op that it does not have, a pattern that is
    no regular expression.
    """

    ops: tuple[str, ...] = ()
    pattern: str | None = None
    directory: Path | None = None
    perf: bool = False

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern or "")
        except re.error as e:
            raise UsageError(
                f"-p {self.pattern!r} is not a regular expression: {e}; put a backslash before "
                "characters such as [ ] ( ) * + ? that you mean literally"
            ) from e
        for op in self.ops:
            if op not in self.op_names:
                self._refuse(op)

    def _refuse(self, op: str) -> None:
        near = difflib.get_close_matches(op, self.op_names, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        where = "the built-in table" if self.directory is None else self.directory
        raise UsageError(f"no op {op!r} in {where}{hint} There is: {', '.join(self.op_names)}")

    @cached_property
    def op_names(self) -> list[str]:
        """Every op of the source, sorted."""
        return sorted({op for op, _ in self._lines})

    @cached_property
    def count(self) -> int:
        """How many cases are chosen."""
        return sum(self._wanted(op, text) for op, text in self._lines)

    def cases(self) -> Iterator[OpCase]:
        """The chosen cases, with reference values; the built-in ones are computed as they come."""
        if self.directory is None:
            yield from iter_builtin(self._op_regex, self.pattern)
        else:
            yield from iter_cases(self.directory, self._op_regex, self.pattern)

    def recipes(self) -> Iterator[tuple[str, Recipe]]:
        """The chosen lines of the built-in table."""
        return iter_recipes(self._op_regex, self.pattern, perf=self.perf)

    @property
    def _op_regex(self) -> str | None:
        return "|".join(map(re.escape, self.ops)) or None

    @cached_property
    def _lines(self) -> list[tuple[str, str]]:
        """(op, "<id> <parameters>") of every case of the source."""
        if self.directory is None:
            return [
                (recipe.op, f"{id} {recipe.vars}") for id, recipe in iter_recipes(perf=self.perf)
            ]
        lines = []
        try:
            for path in case_files(self.directory):
                with np.load(path) as z:
                    cases = json.loads(z["meta"].tobytes())["cases"]
                lines += [(c["op"], f"{c['id']} {c['vars']}") for c in cases]
        except ShapeError as e:
            raise UsageError(f"--cases: {e}") from e
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise UsageError(f"--cases: {path} is no file of operator cases ({e})") from e
        return lines

    def _wanted(self, op: str, text: str) -> bool:
        if self.ops and op not in self.ops:
            return False
        return self.pattern is None or re.search(self.pattern, text) is not None
