"""Which WebGPU implementation is loaded, and what differs between them.

`wgpu` (wgpu-native) by default; WGGML_WGPU_MODULE names another package with the same API, e.g.
`wgpudawn`. Nothing is imported before a device is asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from wggml.backends.wgpu.c_types import resolve_ahead
from wggml.errors import AllocationError, DeviceError, DeviceLostError, WggmlError

ENV_MODULE = "WGGML_WGPU_MODULE"
# Versions of wgpu-py whose raw cffi calls were tested; others go through the public API.
RAW_VERSIONS = ("0.32.",)


def module() -> Any:
    """The wgpu-py compatible package; `DeviceError` when it cannot be loaded."""
    name = os.environ.get(ENV_MODULE) or "wgpu"
    try:
        wgpu = import_module(name)
        if name == "wgpu":
            resolve_ahead(import_module("wgpu.backends.wgpu_native").ffi)
        return wgpu
    except (ImportError, OSError, RuntimeError) as e:
        raise DeviceError(f"the WebGPU package {name!r} cannot be loaded: {e}") from e


def implementation() -> str:
    """`wgpu-native` or `dawn`."""
    return "dawn" if "dawn" in module().__name__ else "wgpu-native"


def raw_api() -> tuple[Any, Any] | None:
    """(`lib`, `ffi`) of wgpu-native when this version's raw calls are known to work, else None."""
    wgpu = module()
    if implementation() != "wgpu-native" or not wgpu.__version__.startswith(RAW_VERSIONS):
        return None
    try:
        native = import_module("wgpu.backends.wgpu_native")
        return native.lib, native.ffi
    except (ImportError, AttributeError):
        return None


def trusted_module(gpu_device: Any, code: str, label: str, checks: int) -> Any:
    """A shader module of wgpu-native with only the run-time checks of the bit set `checks`."""
    native = import_module("wgpu.backends.wgpu_native._api")
    lib, ffi = native.lib, native.ffi
    text = code.encode()
    chars = ffi.new("char[]", text)
    source = ffi.new("WGPUShaderSourceWGSL *")
    source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
    source.code.data, source.code.length = chars, len(text)
    name = label.encode()
    name_chars = ffi.new("char[]", name)
    descriptor = ffi.new("WGPUShaderModuleDescriptor *")
    descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
    descriptor.label.data, descriptor.label.length = name_chars, len(name)
    handle = native.libf.wgpuDeviceCreateShaderModuleTrusted(
        gpu_device._internal, descriptor, checks
    )
    return native.GPUShaderModule(label, handle, gpu_device)


def translate(error: Exception, doing: str, device_name: str) -> WggmlError:
    """An error of the WebGPU implementation as one of ours."""
    if isinstance(error, WggmlError):
        return error
    text = str(error).strip()
    kind = type(error).__name__
    low = f"{kind} {text}".lower()
    if "lost" in low:
        return DeviceLostError(
            f"device {device_name} was lost while {doing}: {text}. A dispatch may have run too "
            "long or the driver was reset; run again with smaller batches or on another device"
        )
    if "outofmemory" in low or "out of memory" in low or "not enough memory" in low:
        return AllocationError(f"device {device_name} is out of memory while {doing}: {text}")
    return DeviceError(f"device {device_name} failed while {doing}: {kind}: {text}")
