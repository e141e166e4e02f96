"""Choosing and folding adapters, without a GPU."""

from __future__ import annotations

import pytest

from wggml.backends.wgpu import adapters, implementation
from wggml.backends.wgpu.adapters import Adapter, device_type, fold
from wggml.backends.wgpu.implementation import translate
from wggml.backends.wgpu.profile import DeviceProfile, masked, parse_mask
from wggml.errors import AllocationError, DeviceError, DeviceLostError, UsageError
from wggml.hal.interface import DeviceType
from wggml.hal.registry import Registry


def adapter(device: str, api: str, kind: str = "DiscreteGPU") -> Adapter:
    info = {"device": device, "backend_type": api, "adapter_type": kind}
    return Adapter(None, info, device_type(info), "wgpu-native")


def test_one_gpu_under_several_apis_is_one_entry() -> None:
    listed = [
        adapter("NVIDIA GeForce RTX 4070/PCIe/SSE2", "OpenGL", "Unknown"),
        adapter("NVIDIA GeForce RTX 4070", "D3D12"),
        adapter("NVIDIA GeForce RTX 4070", "Vulkan"),
        adapter("Intel(R) UHD Graphics 770", "Vulkan", "IntegratedGPU"),
    ]
    kept = fold(listed)
    assert sorted((a.device, a.api) for a in kept) == [
        ("Intel(R) UHD Graphics 770", "Vulkan"), ("NVIDIA GeForce RTX 4070", "Vulkan"),
    ]  # fmt: skip
    nvidia = next(a for a in kept if "NVIDIA" in a.device)
    assert nvidia.aliases == ("D3D12", "OpenGL")


def test_two_equal_cards_stay_two() -> None:
    listed = [adapter("RTX 3090", api) for api in ("Vulkan", "Vulkan", "D3D12", "D3D12")]
    assert [a.api for a in fold(listed)] == ["Vulkan", "Vulkan"]


def test_software_adapters_are_known_by_name_and_never_folded() -> None:
    listed = [
        adapter("llvmpipe (LLVM 15.0.6, 256 bits)", "Vulkan", "CPU"),
        adapter("llvmpipe (LLVM 15.0.6, 256 bits)", "OpenGL", "Unknown"),
        adapter("SwiftShader Device (Subzero)", "Vulkan", "CPU"),
        adapter("Microsoft Basic Render Driver", "D3D12", "Unknown"),
    ]
    assert all(a.type is DeviceType.SOFTWARE for a in listed)
    assert len(fold(listed)) == 4
    assert "lavapipe" in listed[0].title and "OpenGL" in listed[1].title


def test_masks() -> None:
    full = DeviceProfile(f16=True, subgroups=True, subgroup_size=8, max_binding=1 << 30)
    cut = masked(full, "no-f16,binding=128M")
    assert not cut.f16 and cut.subgroups and cut.max_binding == 128 << 20
    assert masked(full, "binding=8G").max_binding == 1 << 30  # lowered only
    with pytest.raises(UsageError, match="no-f16"):
        parse_mask("no-luck")
    with pytest.raises(UsageError, match="128M"):
        parse_mask("binding=much")


def test_masks_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGGML_PROFILE", "no-subgroups,invocations=64")
    p = masked(DeviceProfile(subgroups=True, subgroup_size=8))
    assert (p.subgroups, p.subgroup_size, p.max_invocations) == (False, 0, 64)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Parent device is lost", DeviceLostError),
        ("Not enough memory left.", AllocationError),
        ("something else", DeviceError),
    ],
)
def test_errors_are_translated(text: str, kind: type[Exception]) -> None:
    error = translate(RuntimeError(text), "running", "WGPU7")
    assert type(error) is kind
    assert "WGPU7" in str(error) and "running" in str(error) and text in str(error)


class NoDrivers:
    """A WebGPU package on a machine without any driver."""

    __name__ = "wgpu"

    class gpu:
        @staticmethod
        def enumerate_adapters_sync() -> list[object]:
            return []


def test_without_drivers_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "module", NoDrivers)
    with pytest.raises(DeviceError, match="mesa-vulkan-drivers"):
        adapters.find_adapters()
    registry = Registry({"wgpu": "wggml.backends.wgpu.device:find_devices"})
    assert registry.devices() == []
    assert any("no GPU adapter" in p for p in registry.problems)


def test_a_package_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGGML_WGPU_MODULE", "no_such_webgpu")
    with pytest.raises(DeviceError, match="no_such_webgpu"):
        implementation.module()
