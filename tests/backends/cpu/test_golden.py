"""Every recorded operator case on the NumPy backend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wggml.backends.cpu.backend import CpuBackend
from wggml.backends.cpu.device import CpuDevice, missing_ops
from wggml.testing.opcases import iter_cases, run_case
from wggml.testing.opdata import OpCase, build_case, read_values

DATA = Path(__file__).resolve().parents[2] / "data" / "ops"
OP_NAMES = sorted(p.stem for p in DATA.glob("*.npz"))


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuDevice().init_backend(cpu_cache_mb=64)


def check(case: OpCase, backend: CpuBackend, **options: object) -> str | None:
    """None when the case passes, else why not."""
    result = run_case(case, backend, **options)  # type: ignore[arg-type]
    return None if result.status == "pass" else f"{case}: {result.status}: {result.reason}"


@pytest.mark.parametrize("op", OP_NAMES)
def test_committed_cases(op: str, backend: CpuBackend) -> None:
    problems = []
    for case in iter_cases(DATA, op):
        # replayed, so that a plan which kept a value shows, and with constant operands as weights
        problems.append(check(case, backend, runs=2))
        problems.append(check(case, backend, weights_buffer=True))
    assert [p for p in problems if p] == []


@pytest.mark.parametrize("op", OP_NAMES)
def test_all_recorded_cases(op: str, shared_dir: Path, backend: CpuBackend) -> None:
    problems = [check(c, backend) for c in iter_cases(shared_dir / "oracle" / "ops", op)]
    assert problems
    assert [p for p in problems if p] == []


def test_total_of_transposed_rows_is_the_sum_of_their_values(backend: CpuBackend) -> None:
    from graphs import graph_of, place

    from wggml.core import ops
    from wggml.core.context import Context
    from wggml.core.types import Type

    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, (33, 256))
    total = ops.transpose(ctx, a).sum()
    place(ctx.tensors)
    values = np.random.default_rng(0).standard_normal((256, 33), np.float32)
    a.set(values)
    backend.graph_compute(graph_of(total))
    assert total.numpy()[0] == pytest.approx(values.astype(np.float64).sum(), rel=1e-6)


def test_argmax_takes_the_last_of_equals(backend: CpuBackend) -> None:
    from graphs import graph_of, place

    from wggml.core import ops
    from wggml.core.context import Context
    from wggml.core.types import Type

    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, (500, 3))
    found = ops.argmax(ctx, a)
    place(ctx.tensors)
    values = np.zeros((3, 500), np.float32)
    values[1, [3, 77, 400]] = 1.0
    values[2, 0] = 1.0
    a.set(values)
    backend.graph_compute(graph_of(found))
    assert found.numpy().tolist() == [499, 400, 0]


def test_committed_selection_names_every_recorded_op(shared_dir: Path) -> None:
    recorded = {c.op for c in iter_cases(shared_dir / "oracle" / "ops")}
    assert recorded == set(OP_NAMES)


def test_every_op_has_a_kernel() -> None:
    """ggml's MAP_CUSTOM ops take C functions; its attention gradient is switched off upstream."""
    custom = {"MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3"}
    assert set(missing_ops()) == custom | {"FLASH_ATTN_BACK"}


def test_reader_agrees_with_stored_sizes() -> None:
    for case in iter_cases(DATA):
        built = build_case(case)
        for record, t in zip(case.tensors, built.tensors, strict=True):
            if record.data is not None:
                assert record.data[1] == t.nbytes, f"{case}: {record.name}"
        for o in case.outputs:
            record = case.tensors[o.id]
            assert read_values(case.bytes_at(o.data), record).shape == tuple(record.ne[::-1])
