"""The project's own operator cases: a table of recipes, one module for each family of ops.

Reference values come from the NumPy backend, which the recorded data of ggml checks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module

from wggml.hal.registry import default_registry
from wggml.testing.builtin.recipe import Recipe
from wggml.testing.opdata import OpCase

__all__ = ["FAMILIES", "Recipe", "iter_builtin", "iter_recipes", "op_names"]

FAMILIES = (
    "elementwise",
    "reduce",
    "matmul",
    "rows",
    "shape",
    "attention",
    "conv",
    "image",
    "recurrent",
    "chains",
    "model_chains",
    "models",
)
"""Modules of this package; each has `recipes()`."""


def iter_recipes(
    op: str | None = None, case: str | None = None, *, perf: bool = False
) -> Iterator[tuple[str, Recipe]]:
    """(id, recipe) of the table's lines, with `perf` those for measuring instead.

    Filters as in `opdata.iter_cases`: `op` must match the whole op name, `case` is searched in
    `"<id> <vars>"`; both are regular expressions.
    """
    count: Counter[str] = Counter()
    for family in (*FAMILIES, "custom"):
        recipes: Callable[[], Iterator[Recipe]] = import_module(f"{__name__}.{family}").recipes
        for recipe in recipes():
            if recipe.perf != perf:
                continue
            id = f"{recipe.op}/b{count[recipe.op]:03}"
            count[recipe.op] += 1
            if op is not None and re.fullmatch(op, recipe.op) is None:
                continue
            if case is None or re.search(case, f"{id} {recipe.vars}"):
                yield id, recipe


def iter_builtin(op: str | None = None, case: str | None = None) -> Iterator[OpCase]:
    """The cases of the table with reference values, filtered as by `iter_recipes`."""
    reference = default_registry().cpu().init_backend()
    try:
        for id, recipe in iter_recipes(op, case):
            yield recipe.case(id, reference)
    finally:
        reference.close()


def op_names() -> list[str]:
    """Every op name of the table, sorted."""
    return sorted({recipe.op for _, recipe in iter_recipes()})
