"""`DeviceProfile`: what a kernel may rely on. Variant choosers read this and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wggml.errors import UsageError

ENV_PROFILE = "WGGML_PROFILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """Limits (bytes and counts) and features of an open device, possibly masked for tests.

    Attributes:
        implementation: `wgpu-native` or `dawn`.
        backend_type: the API below, e.g. `Vulkan`, `OpenGL`, `D3D12`, `Metal`.
        is_software: the adapter computes on the host's cores, where barriers are dear and a lane a
            row is cheap; a GPU wants the opposite.
        max_binding: largest range one binding can show; larger operands need windows.
        max_buffer: largest buffer.
        f16: `enable f16` works; kernels must also run without, through `unpack2x16float`.
        subgroups: subgroup functions work.
        subgroup_size: lanes of a subgroup as a shader counted them when the device was opened, 0
            when unknown. The driver's figure is not trusted; results must not depend on this one.
        immediates: small per-dispatch constants exist.
        texel_reads: packed weights lie in storage textures, buffer loads being slow (texels.py).
        timestamps: `write_timestamp` works inside a pass.
    """

    implementation: str = "wgpu-native"
    backend_type: str = ""
    is_software: bool = False
    max_binding: int = 128 << 20
    max_buffer: int = 256 << 20
    max_storage_buffers: int = 8
    max_storage_textures: int = 4
    max_invocations: int = 256
    max_workgroup_size: tuple[int, int, int] = (256, 256, 64)
    max_workgroup_memory: int = 16384
    max_workgroups_per_dim: int = 65535
    min_storage_offset_alignment: int = 256
    min_uniform_offset_alignment: int = 256
    f16: bool = False
    subgroups: bool = False
    subgroup_size: int = 0
    immediates: bool = False
    texel_reads: bool = False
    timestamps: bool = False

    @property
    def is_dawn(self) -> bool:
        return self.implementation == "dawn"


_SIZE = re.compile(r"^(\d+)\s*([kmg]?)i?b?$", re.IGNORECASE)
_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_COUNTS = {
    "binding": "max_binding",
    "buffer": "max_buffer",
    "storage-buffers": "max_storage_buffers",
    "invocations": "max_invocations",
    "workgroup-memory": "max_workgroup_memory",
}
# What WebGPU promises on every adapter: https://www.w3.org/TR/webgpu/#limits
_SPEC_DEFAULTS: dict[str, object] = {
    "max_binding": 128 << 20,
    "max_buffer": 256 << 20,
    "max_storage_buffers": 8,
    "max_storage_textures": 4,
    "max_invocations": 256,
    "max_workgroup_size": (256, 256, 64),
    "max_workgroup_memory": 16384,
    "max_workgroups_per_dim": 65535,
    "min_storage_offset_alignment": 256,
    "min_uniform_offset_alignment": 256,
}
_FLAGS: dict[str, dict[str, object]] = {
    "spec-defaults": _SPEC_DEFAULTS,
    "no-f16": {"f16": False},
    "no-subgroups": {"subgroups": False, "subgroup_size": 0},
    "no-immediates": {"immediates": False},
    "no-timestamps": {"timestamps": False},
    "texels": {"texel_reads": True},
    "no-texels": {"texel_reads": False},
    "software": {"is_software": True},
    "hardware": {"is_software": False},
}


def parse_size(text: str) -> int:
    """Bytes of `128M`, `4096`, `1GiB`; `UsageError` otherwise."""
    found = _SIZE.match(text.strip())
    if not found:
        raise UsageError(f"{text!r} is no size; write bytes with an optional K, M or G, as in 128M")
    return int(found[1]) * _UNIT[found[2].lower()]


def parse_mask(text: str) -> dict[str, object]:
    """Field overrides of `spec-defaults,no-f16,binding=64M`, later words over earlier ones;
    `UsageError` on an unknown word."""
    out: dict[str, object] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        key, eq, value = word.partition("=")
        if not eq and key in _FLAGS:
            out.update(_FLAGS[key])
        elif eq and key in _COUNTS:
            out[_COUNTS[key]] = parse_size(value)
        else:
            known = [*_FLAGS, *(f"{k}=SIZE" for k in _COUNTS)]
            raise UsageError(f"{word!r} is no device property; known: {', '.join(known)}")
    return out


def masked(profile: DeviceProfile, words: str | Iterable[str] = "") -> DeviceProfile:
    """`profile` with features taken away and limits tightened (never eased) by `words` and by the
    environment variable WGGML_PROFILE; same syntax as `parse_mask`."""
    text = words if isinstance(words, str) else ",".join(words)
    kept = profile
    for source in (os.environ.get(ENV_PROFILE, ""), text):
        overrides = {
            field: _tighter(field, value, getattr(kept, field))
            for field, value in parse_mask(source).items()
        }
        kept = replace(kept, **overrides)  # type: ignore[arg-type]
    return kept


def _tighter(field: str, asked: object, have: object) -> object:
    if isinstance(asked, bool):
        return asked
    if isinstance(asked, tuple) and isinstance(have, tuple):
        return tuple(map(min, asked, have))
    assert isinstance(asked, int) and isinstance(have, int)
    return max(asked, have) if field.startswith("min_") else min(asked, have)
