"""`wggml devices`: every device, in words and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

Wggml = Callable[..., Result]


@pytest.mark.usefixtures("one_gpu")
def test_every_device_is_listed_with_what_it_has_and_lacks(wggml: Wggml) -> None:
    done = wggml("devices")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "0: Gpu0  A large GPU  (default)"
    assert "   type        gpu, Vulkan, some driver 1.2" in lines
    assert "   features    f16, subgroups of 32, timestamps" in lines
    assert "   limits      buffer 4.00 GiB, binding 128.0 MiB" in lines
    assert "   missing     immediates" in lines
    assert "   also as     D3D12" in lines
    assert any(line.startswith("1: Soft0") for line in lines)
    assert any(line.startswith("2: CPU") for line in lines)
    assert sum("(default)" in line for line in lines) == 1


@pytest.mark.usefixtures("one_gpu")
def test_json_has_all_of_it(wggml: Wggml) -> None:
    rows = json.loads(wggml("devices", "--json").stdout)
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [row["type"] for row in rows] == ["gpu", "software", "cpu"]
    assert [row["default"] for row in rows] == [True, False, False]
    assert rows[0]["max_binding"] == 128 * 2**20


@pytest.mark.usefixtures("no_gpu")
def test_the_cpu_is_the_default_where_only_software_adapters_are(wggml: Wggml) -> None:
    rows = json.loads(wggml("devices", "--json").stdout)
    assert [(row["type"], row["default"]) for row in rows] == [("software", False), ("cpu", True)]


@pytest.mark.usefixtures("broken_gpu")
def test_why_a_family_gives_no_device_is_said(wggml: Wggml) -> None:
    done = wggml("devices")
    assert done.exit_code == 0
    assert "not available: wgpu: no Vulkan here" in done.stderr


@pytest.mark.usefixtures("closed_gpu")
def test_a_device_that_does_not_open_is_listed_with_the_reason(wggml: Wggml) -> None:
    done = wggml("devices")
    assert done.exit_code == 0
    assert "   error       out of handles" in done.stdout.splitlines()
