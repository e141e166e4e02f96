"""The self-test at device open: wrong ops are found, left out, told of and remembered."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wggml.backends.wgpu import selftest, templates
from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.device import WgpuDevice
from wggml.backends.wgpu.ops import FAMILIES, op_table
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.types import Type
from wggml.errors import DeviceError, DeviceLostError, UsageError
from wggml.hal.registry import default_registry
from wggml.testing.short_cases import recipes


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WGGML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(selftest.ENV_SELFTEST, "short")
    return tmp_path / "cache" / "selftest"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases only."""
    chosen = [r for r in recipes() if r.op in ("SCALE", "SOFT_MAX")]
    monkeypatch.setattr("wggml.testing.short_cases.recipes", lambda: iter(chosen))


@pytest.fixture
def device(first_backend: WgpuBackend) -> WgpuDevice:
    return first_backend.device.with_mask("")


def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    """A folder of templates in which one has a fault."""
    path = templates.path_of(name)
    assert path is not None
    text = path.read_text()
    assert old in text
    fault = tmp_path / "faulty" / name
    fault.parent.mkdir(parents=True, exist_ok=True)
    fault.write_text(text.replace(old, new))
    monkeypatch.setenv(templates.ENV_SHADERS, str(tmp_path / "faulty"))


def nodes() -> dict[str, Any]:
    ctx = Context(8)
    x = ctx.new_tensor(Type.F32, (64, 2))
    w = ctx.new_tensor(Type.Q4_0, (64, 8))
    return {"SCALE": ops.scale(ctx, x, 2.0), "SOFT_MAX": ops.soft_max(ctx, x),
            "MUL_MAT": ops.mul_mat(ctx, w, x)}  # fmt: skip


def test_every_adapter_passes_and_the_verdict_is_remembered(
    adapter_name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = default_registry().find(adapter_name)
    assert isinstance(adapter, WgpuDevice)
    first = adapter.with_mask("")
    first.init_backend()
    assert first.verdict is not None and not first.verdict.wrong and not first.verdict.remembered
    assert first.verdict.cases > 35
    monkeypatch.setattr(selftest, "run", lambda *_: pytest.fail("ran again"))
    second = adapter.with_mask("")
    second.init_backend()
    assert second.verdict is not None and second.verdict.remembered
    assert str(second.verdict) == str(first.verdict) == f"{first.verdict.cases} cases passed"


def test_the_cases_touch_every_family_of_kernels() -> None:
    table, reference = op_table(), default_registry().cpu().init_backend()
    tested = {selftest.key_of_case(r.case(r.op, reference))[0] for r in recipes()}
    family_of = {op: impl.emit.__module__.rpartition(".")[2] for op, impl in table.items()}
    families = set(FAMILIES) & set(family_of.values()) - {"custom"}  # users' own are theirs to test
    assert families == {family_of[op] for op in tested}


def test_a_wrong_kernel_is_left_out_and_told_of(
    device: WgpuDevice, cache: Path, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    plant(tmp_path, monkeypatch, "softmax/softmax.wgsl", "exp(", "exp(0.001 + 1.01 * ")
    with caplog.at_level(logging.WARNING):
        backend = device.init_backend()
    node = nodes()
    assert not backend.supports_op(node["SOFT_MAX"]) and backend.supports_op(node["SCALE"])
    reason = device.why_not(node["SOFT_MAX"])
    assert reason is not None and reason.startswith("self-test: SOFT_MAX") and "nmse" in reason
    assert len(caplog.messages) == 1 and "computes wrongly: SOFT_MAX." in caplog.messages[0]
    caplog.clear()
    again = device.with_mask("")  # the remembered verdict is told as well
    again.init_backend()
    assert not again.supports_op(node["SOFT_MAX"]) and "SOFT_MAX" in caplog.messages[0]
    assert again.probe()["selftest"] == "1 wrong: SOFT_MAX"


def test_a_kernel_that_does_not_compile_is_left_out(
    device: WgpuDevice, cache: Path, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, monkeypatch, "softmax/softmax.wgsl", "exp(", "no_such_function(")
    device.init_backend()
    reason = device.why_not(nodes()["SOFT_MAX"])
    assert reason is not None and "no_such_function" in reason


def test_a_wrong_weight_type_leaves_the_others(device: WgpuDevice) -> None:
    device.verdict = selftest.Verdict("short", wrong={(Op.MUL_MAT, Type.Q4_0): "planted"})
    node = nodes()["MUL_MAT"]
    assert device.why_not(node) == "self-test: planted"
    assert device.verdict.why_not(nodes()["SCALE"]) is None
    ctx = Context(3)
    other = ops.mul_mat(ctx, ctx.new_tensor(Type.Q8_0, (64, 8)), ctx.new_tensor(Type.F32, (64, 2)))
    assert device.supports_op(other)


def test_another_driver_or_shader_is_tested_anew(
    device: WgpuDevice, cache: Path, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(d: WgpuDevice, mode: str, memory: selftest.Memory) -> selftest.Verdict:
        ran.append(mode)
        return selftest.Verdict(mode, 1)

    monkeypatch.setattr(selftest, "run", run)
    info = device.adapter.info
    for _ in range(2):
        device.with_mask("").init_backend()
    assert ran == ["short"]
    monkeypatch.setitem(info, "description", "a fake driver 9.9")
    device.with_mask("").init_backend()
    assert len(ran) == 2
    device.with_mask("no-f16").init_backend()
    assert len(ran) == 3
    plant(tmp_path, monkeypatch, "softmax/softmax.wgsl", "exp(", "exp (")
    device.with_mask("").init_backend()
    assert len(ran) == 4
    assert len(list(cache.glob("*.json"))) == 4
    stored = [json.loads(p.read_text()) for p in cache.glob("*.json")]
    assert "a fake driver 9.9" in {s["driver"].partition(" ")[2] for s in stored}


def test_an_op_the_driver_did_not_come_back_from_is_left_out(
    device: WgpuDevice, cache: Path, few: None
) -> None:
    memory = selftest.Memory(device, "short")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    memory.journal.parent.mkdir(parents=True)
    memory.journal.write_text(f"{gone.pid} SOFT_MAX")
    device.init_backend()
    assert "did not come back" in str(device.why_not(nodes()["SOFT_MAX"]))
    assert device.supports_op(nodes()["SCALE"]) and not memory.journal.exists()


def test_a_lost_device_is_an_error_and_the_op_is_left_out_next_time(
    device: WgpuDevice, cache: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(case: Any, backend: Any, **_: Any) -> None:
        raise DeviceLostError("planted")

    with monkeypatch.context() as m:
        m.setattr("wggml.testing.opcases.run_case", lose)
        with pytest.raises(DeviceError, match="lost the device.*planted.*Run again"):
            device.init_backend()
    memory = selftest.Memory(device, "short")
    assert memory.journal.exists()
    monkeypatch.setattr(selftest, "_is_running", lambda pid: False)
    device.init_backend()
    assert not device.supports_op(nodes()["SCALE"]) and device.supports_op(nodes()["SOFT_MAX"])


@pytest.mark.parametrize("text", ["", "{", '{"wrong": 3, "cases": 1}', '{"wrong": {"X": ""}}'])
def test_a_damaged_memory_is_no_memory(
    device: WgpuDevice, cache: Path, few: None, text: str
) -> None:
    memory = selftest.Memory(device, "short")
    memory.path.parent.mkdir(parents=True)
    memory.path.write_text(text)
    assert memory.read() is None
    device.init_backend()
    assert device.verdict is not None and device.verdict.cases == 2


def test_a_cache_that_cannot_be_written_costs_only_time(
    device: WgpuDevice, cache: Path, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WGGML_CACHE", str(tmp_path / "file"))
    device.init_backend()
    assert str(device.verdict) == "2 cases passed"


def test_switched_off_and_misspelt(
    device: WgpuDevice, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "run", lambda *_: pytest.fail("ran"))
    monkeypatch.setenv(selftest.ENV_SELFTEST, "off")
    device.init_backend()
    assert str(device.verdict) == "off" and not cache.exists()
    monkeypatch.setenv(selftest.ENV_SELFTEST, "often")
    with pytest.raises(UsageError, match="short, full, off"):
        device.with_mask("").init_backend()


def test_full_runs_the_built_in_table(
    device: WgpuDevice, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = default_registry().cpu().init_backend()
    cases = [r.case(r.op, reference) for r in recipes() if r.op == "SCALE"]
    monkeypatch.setattr("wggml.testing.builtin.iter_builtin", lambda: iter(cases))
    monkeypatch.setenv(selftest.ENV_SELFTEST, "full")
    device.init_backend()
    assert device.verdict is not None
    assert (device.verdict.mode, device.verdict.cases) == ("full", 1)


def test_nothing_is_tested_before_a_stream_is_asked_for(device: WgpuDevice, cache: Path) -> None:
    assert device.supports_op(nodes()["SCALE"]) and device.verdict is None and not cache.exists()
    code = (
        "import sys, wggml, wggml.backends.wgpu.device\n"
        "print('wggml.backends.wgpu.selftest' in sys.modules, 'wgpu' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
