"""Compute pipelines of one device: rendered, compiled and kept by what defines them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wggml.backends.wgpu import templates
from wggml.backends.wgpu.implementation import raw_api, trusted_module
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.errors import ShaderError, UsageError
from wggml.hal.interface import Counters

COMPUTE_STAGE = 4  # wgpu.ShaderStage.COMPUTE, without importing wgpu here
# naga says `wgsl:12:5`, Tint `:12:5 error: ...`
_LINE = re.compile(r"wgsl:(\d+):\d+|(?<!\d):(\d+):\d+ (?:error|warning)")


@dataclass(frozen=True, slots=True)
class PipelineKey:
    """What defines a pipeline: template, constants, and how operands and parameters are declared.

    `slots` holds (variable, element type, access) per storage binding, `names` (operand, slot
    index) pairs, `params` (name, WGSL type) pairs.
    """

    shader: str
    consts: tuple[tuple[str, object], ...]
    slots: tuple[tuple[str, str, str], ...]
    names: tuple[tuple[str, int], ...]
    params: tuple[tuple[str, str], ...]

    @property
    def access(self) -> tuple[str, ...]:
        return tuple(access for _, _, access in self.slots)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled pipeline and the layout its bind groups need."""

    key: PipelineKey
    gpu: Any
    layout: Any


def declarations(key: PipelineKey) -> str:
    """WGSL of the bindings and of the parameter struct `P`."""
    lines = ["struct Params {"]
    lines += [f"    {name}: {type_}," for name, type_ in key.params] or ["    unused: u32,"]
    lines.append("}")
    for i, (var, elem, access) in enumerate(key.slots):
        lines.append(f"@group(0) @binding({i}) var<storage, {access}> {var}: array<{elem}>;")
    lines.append(f"@group(0) @binding({len(key.slots)}) var<uniform> P: Params;")
    return "\n".join(lines)


def header(profile: DeviceProfile, key: PipelineKey) -> str:
    """`enable` lines: asked for by constants `uses_f16`, `uses_subgroups` or by an f16 operand."""
    consts = dict(key.consts)
    lines = []
    if consts.get("uses_f16") or any("f16" in elem for _, elem, _ in key.slots):
        lines.append("enable f16;")
    # naga takes `enable subgroups;` for a parse error, Tint needs it. Tint also refuses subgroup
    # functions behind conditions that it cannot prove to be the same for a whole workgroup.
    if consts.get("uses_subgroups") and profile.is_dawn:
        lines += ["enable subgroups;", "diagnostic(off, subgroup_uniformity);"]
    return "".join(f"{line}\n" for line in lines)


def template_context(profile: DeviceProfile, key: PipelineKey) -> Mapping[str, object]:
    """What a template sees: `decls`, `profile`, one variable name per operand, the constants."""
    names = {name: key.slots[i][0] for name, i in key.names}
    access = {f"{name}_access": key.slots[i][2] for name, i in key.names}
    consts = dict(key.consts)
    clash = {"decls", "profile", *names, *access} & consts.keys()
    if clash:
        raise ShaderError(f"{key.shader}: constants {sorted(clash)} collide with operand names")
    return {"decls": declarations(key), "profile": profile, **names, **access, **consts}


ENV_SHADER_CHECKS = "WGGML_WGPU_SHADER_CHECKS"
_CHECKS = {"bounds": 1, "none": 0}  # bits of WGPUShaderRuntimeChecks


def create_module(gpu_device: Any, code: str, label: str) -> Any:
    """A shader module. wgpu-native guards every loop with a counter against endless ones; our
    loops end, so where its C call is known these guards are left out and bounds checks kept.
    WGGML_WGPU_SHADER_CHECKS=all|bounds|none chooses otherwise."""
    checks = os.environ.get(ENV_SHADER_CHECKS) or "bounds"
    if checks not in ("all", *_CHECKS):
        raise UsageError(f"{ENV_SHADER_CHECKS}={checks!r}: choose all, bounds or none")
    api = raw_api() if checks != "all" else None
    if api is None:
        return gpu_device.create_shader_module(code=code, label=label)
    return trusted_module(gpu_device, code, label, _CHECKS[checks])


class PipelineCache:
    """Renders and compiles on first use. One per open device."""

    def __init__(self, gpu_device: Any, profile: DeviceProfile) -> None:
        self.gpu_device = gpu_device
        self.profile = profile
        self.created = Counters()  # pipelines_created, layouts_created of this device
        self._pipelines: dict[PipelineKey, Pipeline] = {}
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._pipelines)

    def layout(self, access: tuple[str, ...]) -> tuple[Any, Any]:
        """(bind group layout, pipeline layout) for storage bindings and the uniform after them."""
        found = self._layouts.get(access)
        if found is None:
            kind = {"read": "read-only-storage", "read_write": "storage"}
            entries = [
                {"binding": i, "visibility": COMPUTE_STAGE, "buffer": {"type": t}}
                for i, t in enumerate([*(kind[a] for a in access), "uniform"])
            ]
            group = self.gpu_device.create_bind_group_layout(entries=entries)
            found = (group, self.gpu_device.create_pipeline_layout(bind_group_layouts=[group]))
            self._layouts[access] = found
            self.created.layouts_created += 1
        return found

    def source(self, key: PipelineKey) -> str:
        """The complete WGSL of a key."""
        body = templates.render(key.shader, template_context(self.profile, key))
        return header(self.profile, key) + body

    def get(self, key: PipelineKey) -> Pipeline:
        """The pipeline, compiled now if it is new; `ShaderError` when it does not compile."""
        found = self._pipelines.get(key)
        if found is None:
            found = self._compile(key)
            self._pipelines[key] = found
            self.created.pipelines_created += 1
        return found

    def _compile(self, key: PipelineKey) -> Pipeline:
        code = self.source(key)
        if os.environ.get("WGGML_PRINT_WGSL"):
            print(f"// ---- {key.shader} {dict(key.consts)}\n{code}", file=sys.stderr)
        group, layout = self.layout(key.access)
        try:
            module = create_module(self.gpu_device, code, key.shader)
            gpu = self.gpu_device.create_compute_pipeline(
                layout=layout, compute={"module": module, "entry_point": "main"}
            )
        except Exception as e:  # each implementation has error classes of its own
            raise ShaderError(self._explain(key, code, str(e))) from e
        return Pipeline(key, gpu, group)

    def _explain(self, key: PipelineKey, code: str, message: str) -> str:
        found = _LINE.search(message)
        where = key.shader
        shown = ""
        if found:
            line = int(found[1] or found[2])
            lines = code.split("\n")
            if 0 < line <= len(lines):
                shown = f"\n  {lines[line - 1].strip()}"
            skipped = header(self.profile, key).count("\n")
            context = template_context(self.profile, key)
            where = templates.origin(key.shader, context, line - skipped)
        consts = ", ".join(f"{k}={v}" for k, v in key.consts)
        return (
            f"shader {where} does not compile ({consts}): {message.strip()}{shown}\n"
            "Set WGGML_PRINT_WGSL=1 to see the rendered text"
        )
