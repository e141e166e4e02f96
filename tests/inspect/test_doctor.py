"""`doctor` tells of everything, and of what is broken too."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from wggml.inspect import doctor
from wggml.inspect.doctor_text import doctor_text

GOOD = {
    "name": "WGPU0", "description": "A GPU", "type": "gpu", "api": "Vulkan", "driver": "Driver 1",
    "vendor": "V", "implementation": "wgpu-native", "also": ["OpenGL"], "features": ["f16"],
    "missing": ["immediates"], "subgroup_size": 32, "selftest": "49 cases passed", "seconds": 0.5,
    "limits": {"max-buffer-size": 2**31, "max-compute-invocations-per-workgroup": 256},
    "notes": ["a note"], "index": 0,
}  # fmt: skip
BROKEN = {"index": 1, "name": "WGPU1", "description": "Bad", "type": "gpu", "error": "signal 6: x"}


def report(devices: dict[str, Any]) -> dict[str, Any]:
    return {
        "versions": doctor.versions(), "system": doctor.system(), "blas": doctor.blas(),
        "devices": devices, "cache": doctor.cache(), "switches": {},
    }  # fmt: skip


def test_one_broken_adapter_does_not_hide_the_others():
    text = doctor_text(report({"adapters": [BROKEN, GOOD], "problems": []}))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "FAILED signal 6: x" in lines
    assert "subgroups 32 lanes, counted by a shader" in lines
    assert "missing immediates" in lines and "note a note" in lines
    assert "limits buffer 2.00 GiB, invocations 256" in lines
    assert "self-test 49 cases passed" in lines


def test_no_adapter_says_what_to_install():
    text = doctor_text(report({"adapters": [], "problems": ["wgpu: no driver: apt install x"]}))
    assert "apt install x" in text and "NumPy computes" in text


@pytest.mark.parametrize(
    "script, said",
    [
        (
            "import os, sys; print('boom', file=sys.stderr, flush=True); os.abort()",
            "signal 6: boom",
        ),
        ("import time; time.sleep(60)", "no answer within 1 s"),
        ("raise SystemExit(3)", "code 3: nothing was printed"),
        ("print('[]')", "code 0"),
    ],
)
def test_a_driver_that_crashes_or_hangs_is_told_of(script: str, said: str):
    timeout = 1.0 if "sleep" in script else 600.0
    found = doctor.run_probe([], command=(sys.executable, "-c", script), timeout=timeout)
    assert said in found["error"]


def test_looking_fails_as_a_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "run_probe", lambda args: {"error": "signal 11"})
    assert doctor.devices() == {"adapters": [], "problems": ["looking for adapters: signal 11"]}


def test_versions_and_cache(tmp_path, monkeypatch: pytest.MonkeyPatch):
    versions = doctor.versions()
    assert versions["python"].startswith("3.") and versions["numpy"][0].isdigit()
    assert versions["wgpu-native"][0].isdigit()
    monkeypatch.setitem(doctor.EXTRAS, "demo", ("no-such-package-of-ours",))
    assert "pip install 'wggml[demo]'" in doctor.versions()["extra demo"]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"x" * 10)
    (tmp_path / "model.gguf").write_bytes(b"x" * 7)
    monkeypatch.setenv("WGGML_CACHE", str(tmp_path))
    assert doctor.cache()["parts"] == {"model.gguf": 7, "sub/": 10}
    assert doctor.switches()["WGGML_CACHE"]


def test_real_adapters(gpu: str):
    """In processes of their own, as `doctor` looks at them; here one of them is enough."""
    names = [a["name"] for a in doctor.run_probe([], timeout=600)["adapters"]]
    assert "WGPU0" in names
    found = doctor.run_probe(["0"], timeout=600)
    assert "error" not in found, found
    assert found["limits"]["max-buffer-size"] > 0 and "subgroup_size" in found
    assert found["selftest"] == "off"  # as the tests want it
