"""C types that wgpu-py names in strings, resolved all at once.

cffi parses each such string together with all 400 type names of wgpu.h: 26 ms for each of about
fifty, more than a second of every start. One structure with a field of each type is parsed in the
time of two, and cffi's table of parsed strings is filled from its fields.
"""

from __future__ import annotations

from typing import Any

_STRUCT = "struct wggml_types"

_POINTED = (
    "AdapterInfo", "BindGroupDescriptor", "BindGroupEntry", "BindGroupLayoutDescriptor",
    "BindGroupLayoutEntry", "BufferBindingLayout", "BufferDescriptor", "BufferMapCallbackInfo",
    "ChainedStruct", "CommandBufferDescriptor", "CommandEncoderDescriptor",
    "ComputePassDescriptor", "ComputePipelineDescriptor", "ComputeState", "DeviceDescriptor",
    "DeviceExtras", "DeviceLostCallbackInfo", "Extent3D", "InstanceDescriptor", "Limits",
    "NativeLimits", "Origin3D", "PassTimestampWrites", "PipelineLayoutDescriptor",
    "QuerySetDescriptor", "QueueDescriptor", "RequestAdapterCallbackInfo",
    "RequestDeviceCallbackInfo", "ShaderModuleDescriptor", "ShaderSourceWGSL",
    "StorageTextureBindingLayout", "StringView", "TexelCopyBufferLayout", "TexelCopyTextureInfo",
    "TextureBindingLayout", "TextureDescriptor", "TextureViewDescriptor",
    "UncapturedErrorCallbackInfo",
)  # fmt: skip
_LISTED = (
    "Adapter", "BindGroupEntry", "BindGroupLayout", "BindGroupLayoutEntry", "CommandBuffer",
    "FeatureName",
)  # fmt: skip
_CALLBACKS = (
    "WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *",
    "WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *",
    "WGPULogLevel, WGPUStringView, void *",
    "WGPUMapAsyncStatus, WGPUStringView, void *, void *",
    "WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *",
)

# String as wgpu-py writes it -> declaration of a field that leads to the type.
POINTERS = {
    **{f"WGPU{n} *": f"WGPU{n} *{{}}" for n in _POINTED},
    "WGPUChainedStruct * ": "WGPUChainedStruct *{}", "uint8_t *": "uint8_t *{}",
}  # fmt: skip
ARRAYS = {
    **{f"WGPU{n}[]": f"WGPU{n} (*{{}})[]" for n in _LISTED},
    "char []": "char (*{})[]", "char[]": "char (*{})[]", "uint32_t []": "uint32_t (*{})[]",
    "uint8_t []": "uint8_t (*{})[]",
}  # fmt: skip
SCALARS = {t: f"{t} {{}}" for t in ("intptr_t", "uint32_t", "uintptr_t")}
FUNCTIONS = {f"void({c})": f"void (*{{}})({c})" for c in _CALLBACKS}


def resolve_ahead(ffi: Any) -> bool:
    """Fill the table of `ffi`, wgpu-native's cffi object; True when that was done now.

    False where it was done before, and where this wgpu.h or this cffi is another than expected:
    then each string is parsed when it is first used.
    """
    known = getattr(ffi, "_parsed_types", None)
    if not isinstance(known, dict) or "WGPUAdapterInfo *" in known:
        return False
    wanted = {**POINTERS, **ARRAYS, **SCALARS, **FUNCTIONS}
    fields = "".join(f"{d.format(f'f{i}')};" for i, d in enumerate(wanted.values()))
    try:
        ffi.cdef(f"{_STRUCT} {{ {fields} }};")
        types = [field.type for _, field in ffi.typeof(_STRUCT).fields]
    except Exception:  # cffi's errors share no base; the slow way remains
        return False
    for text, ctype in zip(wanted, types, strict=True):
        # the table tells a function from a pointer to one by its second entry
        known.setdefault(text, (ctype.item if text in ARRAYS else ctype, text in FUNCTIONS))
    return True
