"""Which matrix product kernel runs where: one table, read by device profile.

On adapters that compute on the host's cores a barrier costs more than a row, so a lane makes whole
rows (`rows`); a GPU shares a row between the lanes of a workgroup (`group`) and stages tiles of
larger products in workgroup memory (`tile`). Each subgroup kernel has a twin without.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

from wggml.backends.wgpu.profile import DeviceProfile
from wggml.errors import UsageError

ENV_VARIANT = "WGGML_MM_VARIANT"
# Up to this many columns a product is bound by reading the weights.
MAX_VECTOR_COLUMNS = 8
TILE = 64


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel: template, template constants, and the rows and columns a workgroup makes."""

    name: str
    shader: str
    consts: tuple[tuple[str, object], ...]
    rows: int
    cols: int


def _columns(n: int) -> int:
    """Columns a lane keeps: the smallest of 1, 2, 4, 8 that holds n."""
    return next((c for c in (1, 2, 4) if n <= c), 8)


def _rows(profile: DeviceProfile, n: int, *, bcast: bool, long_loads: bool) -> Variant:
    cols = _columns(n)
    size = profile.subgroup_size
    lanes = (8 if size >= 8 else 4) if bcast and size >= 4 else 0
    # Each lane that loads columns by itself does so for more rows.
    r = 1 if long_loads else 4 if lanes or cols > 2 else 8
    wg = max(8, size)
    consts = (
        ("C", cols), ("R", r), ("WG", wg), ("bcast", lanes), ("factored", cols <= 2),
        ("uses_subgroups", lanes > 0), ("one_subgroup", lanes > 0 and wg == size),
    )  # fmt: skip
    name = "rows" if lanes else "rows-direct"
    return Variant(name, "mul_mat/rows.wgsl", consts, wg * r, cols)


def _group(profile: DeviceProfile, n: int, *, subgroups: bool, long_loads: bool) -> Variant:
    cols = _columns(n)
    r = 1 if long_loads else {1: 4, 2: 4, 4: 2, 8: 1}[cols]
    # subgroup_id is not known to every implementation of subgroups.
    use = subgroups and profile.subgroups and not profile.is_dawn
    wg = 64 if not use else min(max(profile.subgroup_size, 32), 128)
    consts = (("C", cols), ("R", r), ("WG", wg), ("use_subgroups", use), ("uses_subgroups", use))
    return Variant("group" if use else "group-shared", "mul_mat/group.wgsl", consts, r, cols)


def _tile(profile: DeviceProfile, n: int, *, long_loads: bool) -> Variant:
    return Variant("tile", "mul_mat/tile.wgsl", (), TILE, TILE)


class _Maker(Protocol):
    def __call__(self, profile: DeviceProfile, n: int, *, long_loads: bool) -> Variant: ...


_MAKERS: dict[str, _Maker] = {
    "rows": partial(_rows, bcast=True),
    "rows-direct": partial(_rows, bcast=False),
    "group": partial(_group, subgroups=True),
    "group-shared": partial(_group, subgroups=False),
    "tile": _tile,
}
VARIANTS = tuple(_MAKERS)


def choose(
    profile: DeviceProfile, n: int, *, long_loads: bool = False, by_id: bool = False
) -> Variant:
    """The kernel for a product with `n` columns a matrix. `long_loads`: weights come as single
    words, so that a lane takes one row, for the sake of compile time.

    WGGML_MM_VARIANT names one of `VARIANTS` instead (for tests; products by expert ids have no
    `tile`). Raises `UsageError` on an unknown name.
    """
    forced = os.environ.get(ENV_VARIANT)
    if forced and forced not in _MAKERS:
        raise UsageError(f"{ENV_VARIANT}={forced!r}; known variants: {', '.join(VARIANTS)}")
    name = forced or _default(profile, n)
    if by_id and name == "tile":
        name = "group"
    return _made(name, profile, _columns(n), long_loads)


@lru_cache(maxsize=256)
def _made(name: str, profile: DeviceProfile, columns: int, long_loads: bool) -> Variant:
    return _MAKERS[name](profile, columns, long_loads=long_loads)


def _default(profile: DeviceProfile, n: int) -> str:
    if profile.is_software:
        return "rows" if profile.subgroups else "rows-direct"
    return "group" if n <= MAX_VECTOR_COLUMNS else "tile"
