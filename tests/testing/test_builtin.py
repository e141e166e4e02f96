"""The built-in case table: complete, not degenerate, and a sample of it on every device."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import find_adapter
from wggml.backends.cpu.device import CpuDevice
from wggml.core.opcodes import Op
from wggml.core.types import TRAITS, Type
from wggml.hal.interface import Backend
from wggml.testing.builtin import Recipe, iter_recipes
from wggml.testing.opdata import OpCase, is_real, read_values
from wggml.testing.record import write_cases
from wggml.testing.runner import run_cases
from wggml.testing.selection import Selection

# of the table on each adapter, some five seconds on a software one
ONE_IN = 100
# ggml's custom ops take functions; its attention gradient is switched off there.
WITHOUT_CASE = {
    Op.NONE, Op.CUSTOM, Op.MAP_CUSTOM1, Op.MAP_CUSTOM2, Op.MAP_CUSTOM3, Op.FLASH_ATTN_BACK,
}  # fmt: skip


@pytest.fixture(scope="module")
def reference() -> Iterator[Backend]:
    backend = CpuDevice().init_backend()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def backend(device_name: str, module_monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    module_monkeypatch.setenv("WGGML_SELFTEST", "off")
    device = CpuDevice() if device_name == "cpu" else find_adapter(device_name)
    assert device is not None
    b = device.init_backend()
    yield b
    b.close()


@pytest.fixture(scope="module")
def module_monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def sample(one_in: int) -> list[tuple[str, Recipe]]:
    return [
        (id, r) for id, r in iter_recipes() if zlib.crc32(f"{r.op} {r.vars}".encode()) % one_in == 0
    ]


@pytest.fixture(scope="module")
def sampled(reference: Backend) -> list[OpCase]:
    return [recipe.case(id, reference) for id, recipe in sample(ONE_IN)]


def test_a_sample_of_the_table(
    backend: Backend, device_name: str, sampled: list[OpCase]
) -> None:
    # Mesa's OpenGL driver takes minutes to compile an attention kernel for long heads
    slow = {"FLASH_ATTN_EXT"} if device_name == "opengl" else set()
    results = run_cases([c for c in sampled if c.op not in slow], backend, runs=2)
    wrong = [f"{r.case}: {r.reason}" for r in results if r.status == "fail"]
    assert not wrong, "\n".join(wrong)
    passed = sum(r.status == "pass" for r in results)
    assert passed >= 0.95 * len(results), Counter(r.reason for r in results)


def test_every_op_and_every_type_has_a_case() -> None:
    ops: set[Op] = set()
    by_type: dict[str, set[Type]] = {}
    seen: set[tuple[str, object]] = set()
    for id, recipe in iter_recipes():
        kinds = tuple(v for v in recipe.params.values() if isinstance(v, Type))
        if (recipe.op, kinds) not in seen:
            seen.add((recipe.op, kinds))
            ops |= {t.op for t in recipe.make(id).tensors}
            by_type.setdefault(recipe.op, set()).update(kinds)
    assert set(Op) - ops <= WITHOUT_CASE
    # blocks of activations only (Q8_1, Q8_K) are no weights
    blocks = {t for t, x in TRAITS.items() if x.is_quantized} - {Type.Q8_1, Type.Q8_K}
    for op in ("MUL_MAT", "MUL_MAT_ID", "GET_ROWS", "OUT_PROD", "CPY"):
        assert by_type[op] >= blocks, op


def test_every_recorded_op_name_has_cases_of_our_own(data_dir) -> None:  # type: ignore[no-untyped-def]
    recorded = set(Selection(directory=data_dir / "ops").op_names)
    assert recorded - set(Selection().op_names) == set()


def test_parameters_tell_cases_apart() -> None:
    names = Counter((r.op, r.vars) for _, r in iter_recipes())
    assert [name for name, n in names.items() if n > 1] == []


def test_ids_and_contents_are_the_same_every_time(reference: Backend) -> None:
    [(id, recipe)] = list(iter_recipes("SOFT_MAX_BACK", r"b003 "))
    first, second = recipe.case(id, reference), recipe.case(id, reference)
    assert first.blob.tobytes() == second.blob.tobytes()
    assert first.tensors == second.tensors and first.outputs == second.outputs


@pytest.mark.parametrize("op", ["CONV_2D", "COUNT_EQUAL", "IM2COL_3D", "MUL_MAT", "POOL_2D_BACK"])
def test_answers_are_not_degenerate(op: str, reference: Backend) -> None:
    for id, recipe in list(iter_recipes(op))[::9]:
        case = recipe.case(id, reference)
        for o in case.outputs:
            values = read_values(case.bytes_at(o.data), case.tensors[o.id])
            assert np.abs(values).max() > 0, f"{case}: nothing but zeros"
            assert op == "COUNT_EQUAL" or values.size < 4 or np.ptp(values) > 0, f"{case}: constant"


def test_measured_shapes_are_built_without_reference() -> None:
    [(id, recipe)] = list(iter_recipes("MUL_MAT", "type_a=q8_0.*n=8,", perf=True))
    case = recipe.make(id)
    assert case.outputs == []
    assert [t.ne for t in case.tensors if is_real(t)] == [(2048, 8, 1, 1)]  # type: ignore[arg-type]


def test_cases_survive_a_file(tmp_path, reference: Backend) -> None:  # type: ignore[no-untyped-def]
    wanted = ("ADD", "SET_ROWS", "OPT_STEP_ADAMW", "TOPK_MOE", "VIEW")
    cases = [
        recipe.case(id, reference) for op in wanted for id, recipe in list(iter_recipes(op))[::25]
    ]
    write_cases(tmp_path, cases)
    again = {c.id: c for c in Selection(directory=tmp_path).cases()}
    assert set(again) == {c.id for c in cases}
    for case in cases:
        copy = again[case.id]
        assert (copy.vars, copy.metric, copy.max_err) == (case.vars, case.metric, case.max_err)
        for a, b in zip(case.outputs, copy.outputs, strict=True):
            assert case.bytes_at(a.data).tobytes() == copy.bytes_at(b.data).tobytes()
    assert all(r.status == "pass" for r in run_cases(again.values(), reference))
