"""Bytes and values recorded from ggml, for every tensor type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from wggml.core.types import BY_NAME, TRAITS, Type, type_from_name
from wggml.quants import can_dequantize, can_quantize, dequantize_rows, quantize
from wggml.quants.registry import IGNORE_WEIGHTS

# Types whose recorded bytes our writers must match: all that ggml has a reference routine for.
WRITTEN = [
    "f16", "bf16", "q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1",
    "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "q8_K",
    "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "tq1_0", "tq2_0", "iq2_s", "iq3_xxs", "iq3_s",
]  # fmt: skip
# Written without weights, though ggml has no reference routine for it.
PLAIN_ONLY = "iq1_m"

# Types that are written with importance weights, where these make a difference.
WEIGHTED = [
    "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs",
    "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s",
]  # fmt: skip


def _recorded(path: Path) -> Mapping[str, np.ndarray]:
    with np.load(path) as z:
        return {name: z[name] for name in z.files if name != "meta"}


def _check_read(z: Mapping[str, np.ndarray]) -> set[str]:
    seen = set()
    for key in z:
        if not key.endswith(".f"):
            continue
        name = key.split(".")[0]
        got = dequantize_rows(z[key[:-1] + "q"], type_from_name(name))
        np.testing.assert_allclose(got, z[key], rtol=2e-6, atol=0, err_msg=key)
        seen.add(name)
    return seen


def _check_written(z: Mapping[str, np.ndarray], name: str) -> None:
    variant = {"q8_K": "cpu", PLAIN_ONLY: "plain"}.get(name, "ref")
    got, want = quantize(z["src"], type_from_name(name)), z[f"{name}.{variant}.q"]
    if name == "iq4_nl":  # the reference leaves the codes of zero blocks unwritten
        got, want = got.reshape(-1, 18), want.reshape(-1, 18)
        empty = ~want[:, :2].any(axis=1)
        np.testing.assert_array_equal(got[empty, :2], want[empty, :2])
        got, want = got[~empty], want[~empty]
    np.testing.assert_array_equal(got, want, err_msg=name)


def test_reads_recorded_bytes(data_dir: Path) -> None:
    seen = _check_read(_recorded(data_dir / "quants.npz"))
    unread = set(BY_NAME) - seen
    # f32 and integers need no record; ggml itself never reads q8_1 and q8_K back
    assert unread == {"f32", "f64", "i8", "i16", "i32", "i64", "q8_1", "q8_K"}


def test_reads_all_recorded_variants(shared_dir: Path) -> None:
    _check_read(_recorded(shared_dir / "oracle" / "ops" / "quants.npz"))


@pytest.mark.parametrize("name", [*WRITTEN, PLAIN_ONLY])
def test_writes_recorded_bytes(data_dir: Path, name: str) -> None:
    _check_written(_recorded(data_dir / "quants.npz"), name)


@pytest.mark.parametrize("name", [*WRITTEN, PLAIN_ONLY])
def test_writes_all_recorded_rows(shared_dir: Path, name: str) -> None:
    _check_written(_recorded(shared_dir / "oracle" / "ops" / "quants.npz"), name)


def _check_weighted(z: Mapping[str, np.ndarray], name: str) -> None:
    ones = np.ones(z["src"].shape[1])
    for variant, w in (("ones", ones), ("weighted", z["weights"])):
        if f"{name}.{variant}.q" not in z:
            continue  # of the committed rows only some variants are kept
        got = quantize(z["src"], type_from_name(name), w)
        np.testing.assert_array_equal(got, z[f"{name}.{variant}.q"], err_msg=f"{name} {variant}")


@pytest.mark.parametrize("name", WEIGHTED)
def test_writes_recorded_bytes_with_weights(data_dir: Path, name: str) -> None:
    recorded = _recorded(data_dir / "quants.npz")
    assert f"{name}.weighted.q" in recorded
    _check_weighted(recorded, name)


@pytest.mark.parametrize("name", [*WEIGHTED, *(TRAITS[t].name for t in sorted(IGNORE_WEIGHTS))])
def test_writes_all_recorded_rows_with_weights(shared_dir: Path, name: str) -> None:
    if name not in ("f32", "f64"):
        _check_weighted(_recorded(shared_dir / "oracle" / "ops" / "quants.npz"), name)


def test_all_reference_routines_are_matched(shared_dir: Path) -> None:
    recorded = _recorded(shared_dir / "oracle" / "ops" / "quants.npz")
    assert {key.split(".")[0] for key in recorded if ".ref." in key} | {"q8_K"} == set(WRITTEN)


def test_every_type_is_read() -> None:
    assert [t.name for t in Type if not can_dequantize(t)] == []


def test_written_list_is_complete() -> None:
    plain = {"f32", "f64"}
    assert {TRAITS[t].name for t in Type if can_quantize(t)} == plain | {*WRITTEN, PLAIN_ONLY}
    weighted = {TRAITS[t].name for t in Type if can_quantize(t, weighted=True)}
    assert weighted == {TRAITS[t].name for t in IGNORE_WEIGHTS} | set(WEIGHTED)
