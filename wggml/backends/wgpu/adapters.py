"""Finding GPU adapters: what they are, which are the same GPU seen twice, which is best."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wggml.backends.wgpu.implementation import implementation, module
from wggml.errors import DeviceError
from wggml.hal.interface import DeviceType

# Preferred API first where one GPU shows up under several.
_API_RANK = ["Vulkan", "Metal", "D3D12", "D3D11", "OpenGL", "OpenGLES"]
_TYPES = {
    "DiscreteGPU": DeviceType.GPU,
    "IntegratedGPU": DeviceType.IGPU,
    "CPU": DeviceType.SOFTWARE,
}
_SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "swiftshader", "softpipe", "basic render")
_RANK = [DeviceType.GPU, DeviceType.IGPU, DeviceType.ACCEL, DeviceType.SOFTWARE]


@dataclass(slots=True)
class Adapter:
    """One entry of the adapter list. `aliases` are other APIs of the same GPU."""

    gpu: Any
    info: dict[str, Any]
    type: DeviceType
    implementation: str
    aliases: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        return str(self.info.get("backend_type", ""))

    @property
    def device(self) -> str:
        return str(self.info.get("device", "") or "unnamed adapter")

    @property
    def title(self) -> str:
        """What a person calls it, with the API: `lavapipe, llvmpipe (LLVM 15) (Vulkan)`."""
        # Mesa's Vulkan driver on llvmpipe reports the rasteriser's name, as its OpenGL one does.
        prefix = "lavapipe, " if self.api == "Vulkan" and "llvmpipe" in self.device else ""
        return f"{prefix}{self.device} ({self.api})"


def device_type(info: dict[str, Any]) -> DeviceType:
    """Kind of an adapter; OpenGL gives no type, so software ones are known by name."""
    text = f"{info.get('device', '')} {info.get('description', '')} {info.get('vendor', '')}"
    if any(name in text.lower() for name in _SOFTWARE_NAMES):
        return DeviceType.SOFTWARE
    return _TYPES.get(str(info.get("adapter_type", "")), DeviceType.GPU)


def find_adapters() -> list[Adapter]:
    """All usable adapters, best first; `DeviceError` when there is none."""
    wgpu = module()
    try:
        found = list(wgpu.gpu.enumerate_adapters_sync())
    except Exception as e:
        raise DeviceError(f"no GPU API answers: {e}") from e
    impl = implementation()
    adapters = [Adapter(a, dict(a.info), device_type(dict(a.info)), impl) for a in found]
    adapters = [a for a in adapters if a.api not in ("Null", "Undefined", "")]
    if not adapters:
        raise DeviceError(
            "no GPU adapter: no driver for Vulkan, Metal, D3D12 or OpenGL was found. Install your "
            "GPU's driver, or a software one (Debian/Ubuntu: apt install mesa-vulkan-drivers)"
        )
    return sorted(fold(adapters), key=_order)


def _order(a: Adapter) -> tuple[int, int, int]:
    # lavapipe is several times faster than SwiftShader.
    slow = 1 if "swiftshader" in a.device.lower() else 0
    return (_RANK.index(a.type), _api_rank(a.api), slow)


def _api_rank(api: str) -> int:
    return _API_RANK.index(api) if api in _API_RANK else len(_API_RANK)


def fold(adapters: Sequence[Adapter]) -> list[Adapter]:
    """One entry per GPU: its best API, the others as aliases.

    Two equal cards under one API stay two. Software adapters are never folded: their APIs are
    different implementations, worth choosing between.
    """
    groups: dict[str, dict[str, list[Adapter]]] = defaultdict(lambda: defaultdict(list))
    kept: list[Adapter] = []
    for a in adapters:
        if a.type is DeviceType.SOFTWARE:
            kept.append(a)
        else:
            groups[_gpu_key(a)][a.api].append(a)
    for by_api in groups.values():
        apis = sorted(by_api, key=_api_rank)
        best = by_api[apis[0]]
        for a in best:
            a.aliases = tuple(apis[1:])
        kept.extend(best)
    return kept


def _gpu_key(a: Adapter) -> str:
    """The GPU's name without what OpenGL adds behind a slash ("NVIDIA X/PCIe/SSE2")."""
    name = re.sub(r"[/(].*$", "", a.device).lower()
    return re.sub(r"\b(nvidia|amd|intel|mesa|corporation|inc\.?)\b|\W+", "", name)
