"""wgpu devices: opened on first use with the adapter's own limits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.backends.wgpu import workers
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
    from wggml.backends.wgpu.selftest import Verdict

# An all-ones value means "undefined" to the C API, so reported maxima are clamped below it.
_MAX_U32 = 2**32 - 2
_MAX_U64 = 2**53
# Limits that a profile may tighten, by field of `DeviceProfile`.
_LIMITS = {
    "max_buffer": "max-buffer-size",
    "max_binding": "max-storage-buffer-binding-size",
    "max_storage_buffers": "max-storage-buffers-per-shader-stage",
    "max_storage_textures": "max-storage-textures-per-shader-stage",
    "max_invocations": "max-compute-invocations-per-workgroup",
    "max_workgroup_memory": "max-compute-workgroup-storage-size",
    "max_workgroups_per_dim": "max-compute-workgroups-per-dimension",
    "min_storage_offset_alignment": "min-storage-buffer-offset-alignment",
    "min_uniform_offset_alignment": "min-uniform-buffer-offset-alignment",
}
_SIZE_LIMITS = tuple(f"max-compute-workgroup-size-{axis}" for axis in "xyz")
_FEATURES = {
    "shader-f16": "f16", "subgroup": "subgroups", "subgroups": "subgroups",
    "timestamp-query": "timestamps", "timestamp-query-inside-passes": "timestamps",
    "immediates": "immediates",
}  # fmt: skip
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
        self.verdict: Verdict | None = None  # of the self-test, once there is a stream
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
        features, limits = self._wanted()
        try:
            return a.request_device_sync(required_features=features, required_limits=limits)
        except Exception as e:
            raise DeviceError(f"device {self.name} ({self.description}) does not open: {e}") from e

    @functools.cached_property
    def profile(self) -> DeviceProfile:
        """What kernels may rely on; opens the device and counts its subgroup lanes. A software
        adapter's threads are spread over the processors here."""
        found = self._profile(self.gpu.limits, self.gpu.features)
        if found.is_software:
            workers.spread(self.gpu)
        return masked(probe_subgroups(self.gpu, found), self.mask)

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

    def _allowed(self) -> DeviceProfile:
        """What the adapter reports, less what is masked; known without opening it."""
        a = self.adapter.gpu
        return masked(self._profile(a.limits, a.features), self.mask)

    def _wanted(self) -> tuple[list[str], dict[str, int]]:
        """Features and limits to open the device with: all that the mask leaves, so that the
        implementation refuses what a masked device would refuse."""
        a, allowed = self.adapter.gpu, self._allowed()
        features = [
            name
            for name, field in _FEATURES.items()
            if name in a.features and getattr(allowed, field)
        ]
        limits = {name: getattr(allowed, field) for field, name in _LIMITS.items()}
        limits |= dict(zip(_SIZE_LIMITS, allowed.max_workgroup_size, strict=True))
        if allowed.immediates:
            limits["max-immediate-size"] = a.limits["max-immediate-size"]
        return features, {k: _clamp(k, v) for k, v in limits.items() if k in a.limits}

    def _profile(self, limits: Any, features: Any) -> DeviceProfile:
        """The profile of these limits and features."""
        return DeviceProfile(
            implementation=self.adapter.implementation,
            backend_type=self.adapter.api,
            is_software=self.type is DeviceType.SOFTWARE,
            max_workgroup_size=tuple(limits[k] for k in _SIZE_LIMITS),
            f16="shader-f16" in features,
            subgroups="subgroup" in features or "subgroups" in features,
            immediates="immediates" in features,
            texel_reads="llvmpipe" in self.adapter.device,
            timestamps="timestamp-query-inside-passes" in features,
            **{field: _limit(name, limits[name]) for field, name in _LIMITS.items()},
        )

    # ---- the device interface -----------------------------------------------------------------

    def props(self) -> dict[str, Any]:
        info, allowed = self.adapter.info, self._allowed()
        words = dict.fromkeys(_FEATURES.values())
        return {
            "api": self.adapter.api,
            "also": list(self.adapter.aliases),
            "implementation": self.adapter.implementation,
            "adapter_type": info.get("adapter_type", ""),
            "vendor": info.get("vendor", ""),
            "driver": info.get("description", ""),
            "features": sorted(word for word in words if getattr(allowed, word)),
            "missing": [word for word in words if not getattr(allowed, word)],
            "max_buffer": allowed.max_buffer,
            "max_binding": allowed.max_binding,
            "storage_buffers_per_stage": allowed.max_storage_buffers,
            "max_invocations": allowed.max_invocations,
        }

    def probe(self) -> dict[str, Any]:
        self.init_backend().close()
        return {"subgroup_size": self.profile.subgroup_size, "selftest": str(self.verdict)}

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
        if self.verdict is not None and (why := self.verdict.why_not(t)) is not None:
            return why
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
        (bool), `debug` (bool). The first one of a device makes its self-test (selftest.py)."""
        from wggml.backends.wgpu import selftest
        from wggml.backends.wgpu.backend import WgpuBackend

        if self.verdict is None:
            self.verdict = selftest.verdict(self)
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


def _limit(name: str, value: int) -> int:
    """What kernels may use of a limit: ranges end on 16 bytes, so that vec4 arrays show all."""
    value = _clamp(name, value)
    return value // 16 * 16 if name.endswith("-size") and "workgroup" not in name else value


def _clamp(name: str, value: int) -> int:
    return min(int(value), _MAX_U64 if name == "max-buffer-size" else _MAX_U32)


def pick(devices: Sequence[Device], text: str) -> Device | None:
    """The first device whose name or description contains `text`, case ignored."""
    return next((d for d in devices if text.lower() in f"{d.name} {d.description}".lower()), None)
