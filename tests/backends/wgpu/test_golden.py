"""Golden operator cases recorded from ggml: the committed selection on every adapter, a sample of
the whole set where it is present."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.ops import op_table
from wggml.core.opcodes import EMPTY_OPS
from wggml.testing.opcases import OpCase, iter_cases, run_case

ONE_IN = 12
# Files whose cases have these ops in them; other families have tests of their own.
FILES = (
    "ADD|SUB|MUL|DIV|SCALE|SQR|SQRT|LOG|SIN|COS|CLAMP|LEAKY_RELU|ABS|SGN|NEG|STEP|TANH|ELU|RELU"
    "|SIGMOID|GELU.*|SILU.*|HARD.*|EXP.*|SOFTPLUS|XIELU|FLOOR|CEIL|ROUND|TRUNC|REGLU|GEGLU.*"
    "|SWIGLU.*|RMS_NORM.*|NORM.*|L2_NORM|SUM_ROWS|MEAN|ARGMAX|SOFT_MAX|GET_ROWS|SET_ROWS|CPY"
    "|CONT|DUP|REPEAT|CONCAT|ROPE.*|SOFTCAP|ADD_RMS_NORM|VIEW"
)


def read(folder: Path, one_in: int, files: str = FILES) -> list[OpCase]:
    def wanted(case: OpCase) -> bool:
        ours = all(t.op in EMPTY_OPS or t.op in op_table() for t in case.tensors)
        return ours and zlib.crc32(case.id.encode()) % one_in == 0

    return [c for c in iter_cases(folder, files, None) if wanted(c)]


@pytest.fixture(scope="module")
def committed(data_dir: Path) -> list[OpCase]:
    return read(data_dir / "ops", 1)


@pytest.fixture(scope="module")
def sampled(shared_dir: Path) -> list[OpCase]:
    return read(shared_dir / "oracle" / "ops", ONE_IN)


def check(cases: Sequence[OpCase], backend: WgpuBackend, at_least: int) -> None:
    passed, failed = 0, []
    for case in cases:
        result = run_case(case, backend, weights_buffer=True, runs=2)
        passed += result.status == "pass"
        if result.status == "fail":
            failed.append(f"{case}: {result.reason}")
    assert not failed, "\n".join(failed)
    assert passed >= at_least


def test_committed_cases(committed: list[OpCase], backend: WgpuBackend) -> None:
    check(committed, backend, 60)


def test_sample_of_all_cases(sampled: list[OpCase], backend: WgpuBackend) -> None:
    check(sampled, backend, 60)


def test_kernels_meant_for_gpus(committed: list[OpCase], hardware_backend: WgpuBackend) -> None:
    check(committed, hardware_backend, 60)


def test_attention_over_every_kind_of_cache(data_dir: Path, first_backend: WgpuBackend) -> None:
    """On one adapter: each case is a pipeline of its own."""
    check(read(data_dir / "ops", 1, "FLASH_ATTN_EXT"), first_backend, 10)
