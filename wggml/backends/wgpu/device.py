"""wgpu devices: opened on first use with the adapter's own limits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu.adapters import Adapter, find_adapters
from wggml.backends.wgpu.implementation import module, translate
from wggml.backends.wgpu.ops import op_table
from wggml.backends.wgpu.pipelines import PipelineCache
from wggml.backends.wgpu.probe import probe_subgroups
from wggml.backends.wgpu.profile import DeviceProfile, masked
from wggml.backends.wgpu.readback import Reader
from wggml.backends.wgpu.texels import TexelScratch
from wggml.core.opcodes import VIEW_OPS, Op
from wggml.core.tensor import Tensor
from wggml.errors import DeviceError
from wggml.hal.interface import Backend, BufferType, Counters, Device, DeviceType

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBufferType

# An all-ones value means "undefined" to the C API, so reported maxima are clamped below it.
_MAX_U32 = 2**32 - 2
_MAX_U64 = 2**53
_LIMITS = (
    "max-buffer-size", "max-storage-buffer-binding-size", "max-storage-buffers-per-shader-stage",
    "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y", "max-compute-workgroup-size-z",
    "max-compute-workgroup-storage-size", "max-compute-workgroups-per-dimension",
    "max-immediate-size", "max-storage-textures-per-shader-stage",
)  # fmt: skip
_WANTED = (
    "shader-f16", "subgroup", "subgroups", "timestamp-query", "timestamp-query-inside-passes",
    "immediates",
)  # fmt: skip
# Below this many rows a host weight is not worth the copy to the device (ggml uses 32 too).
OFFLOAD_MIN_BATCH = 32


def find_devices(mask: str = "") -> list[Device]:
    """Devices of this machine, best first. `DeviceError` with the reason when there is none."""
    return [WgpuDevice(a, i, mask) for i, a in enumerate(find_adapters())]


class WgpuDevice(Device):
    """An adapter. `gpu`, `profile`, `pipelines` open it.

    `mask` takes features and limits away (`profile.masked`), for tests and for bad drivers.
    """

    def __init__(self, adapter: Adapter, index: int = 0, mask: str = "") -> None:
        self.adapter = adapter
        self.name = f"WGPU{index}"
        self.description = adapter.title
        self.type: DeviceType = adapter.type
        self.mask = mask
        self.created = Counters()  # buffers and bind groups made on this device
        self.notes: list[str] = []  # what was done otherwise than meant to, and why
        self._index = index
        self._constants: dict[bytes, Any] = {}
        self._scratch: Any = None
        self._scratch_size = 0

    def with_mask(self, mask: str) -> WgpuDevice:
        """The same adapter as another device, with features and limits taken away."""
        return WgpuDevice(self.adapter, self._index, mask)

    def note(self, text: str) -> None:
        """Remember something worth knowing, once."""
        if text not in self.notes:
            self.notes.append(text)

    # ---- opening ----------------------------------------------------------------------------

    @functools.cached_property
    def gpu(self) -> Any:
        """The open GPUDevice."""
        a = self.adapter.gpu
        limits = {k: _clamp(k, a.limits[k]) for k in _LIMITS if k in a.limits}
        features = [f for f in _WANTED if f in a.features]
        try:
            return a.request_device_sync(required_features=features, required_limits=limits)
        except Exception as e:
            raise DeviceError(f"device {self.name} ({self.description}) does not open: {e}") from e

    @functools.cached_property
    def profile(self) -> DeviceProfile:
        """What kernels may rely on; opens the device and counts its subgroup lanes."""
        return masked(probe_subgroups(self.gpu, self._reported()), self.mask)

    @functools.cached_property
    def pipelines(self) -> PipelineCache:
        """Compiled shaders."""
        return PipelineCache(self.gpu, self.profile)

    @functools.cached_property
    def texel_scratch(self) -> TexelScratch:
        """Activations on their way into a texture."""
        return TexelScratch(self)

    @functools.cached_property
    def reader(self) -> Reader:
        """Brings bytes back to the host."""
        return Reader(self)

    def _reported(self) -> DeviceProfile:
        limits, features = self.gpu.limits, self.gpu.features
        return DeviceProfile(
            implementation=self.adapter.implementation,
            backend_type=self.adapter.api,
            is_software=self.type is DeviceType.SOFTWARE,
            # A range is a multiple of 16 bytes, so that vec4 arrays show all of it.
            max_binding=limits["max-storage-buffer-binding-size"] // 16 * 16,
            max_buffer=limits["max-buffer-size"] // 16 * 16,
            max_storage_buffers=limits["max-storage-buffers-per-shader-stage"],
            max_storage_textures=limits["max-storage-textures-per-shader-stage"],
            max_invocations=limits["max-compute-invocations-per-workgroup"],
            max_workgroup_size=(
                limits["max-compute-workgroup-size-x"],
                limits["max-compute-workgroup-size-y"],
                limits["max-compute-workgroup-size-z"],
            ),
            max_workgroup_memory=limits["max-compute-workgroup-storage-size"],
            max_workgroups_per_dim=limits["max-compute-workgroups-per-dimension"],
            min_storage_offset_alignment=limits["min-storage-buffer-offset-alignment"],
            min_uniform_offset_alignment=limits["min-uniform-buffer-offset-alignment"],
            f16="shader-f16" in features,
            subgroups="subgroup" in features or "subgroups" in features,
            immediates="immediates" in features,
            texel_reads="llvmpipe" in self.adapter.device,
            timestamps="timestamp-query-inside-passes" in features,
        )

    # ---- the device interface -----------------------------------------------------------------

    def props(self) -> dict[str, Any]:
        info, a = self.adapter.info, self.adapter.gpu
        shown = {
            "shader-f16": "f16", "subgroup": "subgroups", "subgroups": "subgroups",
            "timestamp-query-inside-passes": "timestamps", "immediates": "immediates",
        }  # fmt: skip
        has = {word for key, word in shown.items() if key in a.features}
        lacks = dict.fromkeys(word for word in shown.values() if word not in has)
        return {
            "api": self.adapter.api,
            "also": list(self.adapter.aliases),
            "implementation": self.adapter.implementation,
            "adapter_type": info.get("adapter_type", ""),
            "vendor": info.get("vendor", ""),
            "driver": info.get("description", ""),
            "features": sorted(has),
            "missing": list(lacks),
            "max_buffer": _clamp("max-buffer-size", a.limits["max-buffer-size"]),
            "max_binding": _clamp("", a.limits["max-storage-buffer-binding-size"]),
            "storage_buffers_per_stage": a.limits["max-storage-buffers-per-shader-stage"],
            "max_invocations": a.limits["max-compute-invocations-per-workgroup"],
        }

    def probe(self) -> dict[str, Any]:
        return {"subgroup_size": self.profile.subgroup_size}

    @functools.cached_property
    def _buffer_type(self) -> WgpuBufferType:
        from wggml.backends.wgpu.buffer import WgpuBufferType

        return WgpuBufferType(self)

    def buffer_type(self) -> BufferType:
        return self._buffer_type

    def why_not(self, t: Tensor) -> str | None:
        if t.op == Op.NONE or t.op in VIEW_OPS:
            return None
        impl = op_table().get(t.op)
        if impl is None:
            return f"no wgpu kernel for {t.op.name}"
        profile = self.profile
        if not impl.windows:
            limit = profile.max_binding
            for s in (*t.src, t):
                if s is not None and s.nbytes > limit:
                    return f"{s.name!r} has {s.nbytes} bytes, a binding holds {limit}"
        return impl.why_not(profile, t)

    def supports_buft(self, buft: BufferType) -> bool:
        return buft.device is self

    def offload_op(self, t: Tensor) -> bool:
        if self.profile.is_software or t.op not in (Op.MUL_MAT, Op.MUL_MAT_ID):
            return False
        return t.ne[2 if t.op == Op.MUL_MAT_ID else 1] >= OFFLOAD_MIN_BATCH

    def init_backend(self, **options: Any) -> Backend:
        """A stream. Options: `encode` ("public" or "raw"), `max_dispatches_per_submit`, `fusion`
        (bool), `debug` (bool)."""
        from wggml.backends.wgpu.backend import WgpuBackend

        return WgpuBackend(self, **options)

    # ---- memory -----------------------------------------------------------------------------

    def create_buffer(self, size: int, usage: int, label: str) -> Any:
        """A GPUBuffer; errors come as ours."""
        try:
            gpu = self.gpu.create_buffer(size=size, usage=usage, label=label)
        except Exception as e:
            raise translate(e, f"making a buffer of {size} bytes ({label})", self.name) from e
        self.created.buffers_created += 1
        return gpu

    def storage_usage(self) -> int:
        flags = module().BufferUsage
        return int(flags.STORAGE | flags.COPY_SRC | flags.COPY_DST)

    def constant_buffer(self, array: npt.NDArray[Any]) -> Any:
        """A buffer with these contents; equal contents share one."""
        content = array.tobytes()
        gpu = self._constants.get(content)
        if gpu is None:
            padded = content.ljust(max(16, -(-len(content) // 16) * 16), b"\0")
            gpu = self.create_buffer(len(padded), self.storage_usage(), "constants")
            self.gpu.queue.write_buffer(gpu, 0, np.frombuffer(padded, np.uint8))
            self._constants[content] = gpu
        return gpu

    def scratch_buffer(self, size: int) -> Any:
        """Memory that plans share, at least `size` bytes. Grows by replacement: older plans keep
        the buffer they were bound to."""
        if size > self._scratch_size:
            if size > self.profile.max_buffer:
                raise DeviceError(
                    f"an op needs {size} bytes of scratch memory; device {self.name} allows "
                    f"{self.profile.max_buffer} a buffer. Use a smaller batch"
                )
            self._scratch = self.create_buffer(size, self.storage_usage(), "scratch")
            self._scratch_size = size
        return self._scratch


def _clamp(name: str, value: int) -> int:
    return min(int(value), _MAX_U64 if name == "max-buffer-size" else _MAX_U32)


def pick(devices: Sequence[Device], text: str) -> Device | None:
    """The first device whose name or description contains `text`, case ignored."""
    return next((d for d in devices if text.lower() in f"{d.name} {d.description}".lower()), None)
