"""Reduced profiles: what they take away is refused by the implementation, and ops still run."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.backends.wgpu.profile import ENV_PROFILE, DeviceProfile, masked
from wggml.cli.devices import devices
from wggml.errors import UsageError
from wggml.testing.opcases import OpCase, iter_cases, run_case

PROFILES = [
    "spec-defaults", "no-f16", "no-subgroups", "no-immediates",
    "spec-defaults,no-f16,no-subgroups,no-immediates",
]  # fmt: skip
# Every op whose kernels depend on what a profile takes away, and one of each other family.
SAMPLE = (
    "ADD|MUL_MAT|MUL_MAT_ID|OUT_PROD|FLASH_ATTN_EXT|SOFT_MAX|RMS_NORM|ARGSORT|TOP_K|GET_ROWS|"
    "SET_ROWS|CPY|SUM_ROWS|CUMSUM|ROPE|CONV_2D|IM2COL|SSM_SCAN|SOLVE_TRI|POOL_2D|CROSS_ENTROPY_LOSS"
)

# Ops with kernels that use subgroup functions.
WITH_SUBGROUPS = (
    "MUL_MAT|MUL_MAT_ID|FLASH_ATTN_EXT|LIGHTNING_INDEXER|RWKV_WKV.|GATED_LINEAR_ATTN|SSM_SCAN"
)
SHARE = 3  # one case of so many, chosen by hash; each profile compiles its own kernels


def share(cases: Iterable[OpCase]) -> list[OpCase]:
    return [c for c in cases if zlib.crc32(c.id.encode()) % SHARE == 0]


def test_spec_defaults_never_ease_a_limit() -> None:
    big = DeviceProfile(
        max_binding=1 << 31, max_storage_buffers=32, max_invocations=1024,
        max_workgroup_size=(1024, 1024, 1024), max_workgroup_memory=49152,
        min_storage_offset_alignment=16, f16=True,
    )  # fmt: skip
    cut = masked(big, "spec-defaults")
    assert (cut.max_binding, cut.max_storage_buffers, cut.max_invocations) == (128 << 20, 8, 256)
    assert (cut.max_workgroup_size, cut.max_workgroup_memory) == ((256, 256, 64), 16384)
    assert cut.min_storage_offset_alignment == 256 and cut.f16
    small = DeviceProfile(max_storage_buffers=4, min_storage_offset_alignment=512)
    cut = masked(small, "spec-defaults")
    assert (cut.max_storage_buffers, cut.min_storage_offset_alignment) == (4, 512)


def test_the_environment_and_a_mask_both_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_PROFILE, "binding=1M")
    assert masked(DeviceProfile(), "binding=2M,no-f16").max_binding == 1 << 20


def test_the_device_is_opened_with_what_is_left(first_backend: WgpuBackend) -> None:
    """So that the implementation itself refuses what a lesser device would refuse."""
    device = first_backend.device.with_mask("spec-defaults,no-f16,no-subgroups")
    limits, features = device.gpu.limits, device.gpu.features
    assert limits["max-storage-buffers-per-shader-stage"] == 8
    assert limits["max-compute-invocations-per-workgroup"] == 256
    assert limits["max-storage-buffer-binding-size"] <= 128 << 20
    assert not {"shader-f16", "subgroup", "subgroups"} & set(features)
    with pytest.raises(Exception, match=r"(?i)limit|exceed"):
        shader = "@compute @workgroup_size(512) fn main() {}"
        module = device.gpu.create_shader_module(code=shader)
        device.gpu.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )


@pytest.mark.parametrize("words", PROFILES)
def test_ops_under_a_profile(first_backend: WgpuBackend, data_dir: Path, words: str) -> None:
    backend = first_backend.device.with_mask(words).init_backend()
    results = [run_case(case, backend) for case in share(iter_cases(data_dir / "ops", SAMPLE))]
    wrong = [f"{r.case}: {r.reason}" for r in results if r.status == "fail"]
    assert not wrong, "\n".join(wrong)
    assert sum(r.status == "pass" for r in results) > 40


# Runs in a child, since the driver reads the width when it is loaded.
_WIDTH = """
import sys
from wggml.hal.registry import default_registry
from wggml.testing.opcases import iter_cases, run_case
device = default_registry().find("lavapipe")
backend = device.init_backend()
results = [run_case(case, backend) for case in iter_cases(sys.argv[1], sys.argv[2])]
wrong = [f"{r.case}: {r.reason}" for r in results if r.status == "fail"]
print(device.profile.subgroup_size, len(wrong), *wrong, sep="\\n")
"""


@pytest.fixture(scope="module")
def lavapipe() -> Any:
    from wggml.errors import DeviceError
    from wggml.hal.registry import default_registry

    try:
        return default_registry().find("lavapipe")
    except DeviceError:
        pytest.skip("no lavapipe adapter here")


@pytest.mark.parametrize(("width", "lanes"), [(128, 4), (512, 16)])
def test_real_subgroup_sizes(lavapipe: Any, data_dir: Path, width: int, lanes: int) -> None:
    env = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": str(width)}
    done = subprocess.run(
        [sys.executable, "-c", _WIDTH, str(data_dir / "ops"), WITH_SUBGROUPS],
        env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    size, wrong, *reasons = done.stdout.splitlines() or ["", ""]
    assert (size, wrong) == (str(lanes), "0"), "\n".join(reasons) or done.stderr


@pytest.fixture
def clean_environment() -> Iterator[None]:
    before = os.environ.pop(ENV_PROFILE, None)
    yield
    os.environ.pop(ENV_PROFILE, None)
    if before is not None:
        os.environ[ENV_PROFILE] = before


def test_the_flag_of_the_command_line(clean_environment: None) -> None:
    refused = CliRunner().invoke(devices, ["--profile", "no-luck"])
    assert isinstance(refused.exception, UsageError)
    assert "spec-defaults" in str(refused.exception) and ENV_PROFILE not in os.environ
    done = CliRunner().invoke(devices, ["--profile", "spec-defaults", "--json"])
    assert done.exit_code == 0, done.output
    assert os.environ[ENV_PROFILE] == "spec-defaults"
