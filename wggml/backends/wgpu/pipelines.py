"""Compute pipelines of one device: rendered, compiled and kept by what defines them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wggml.backends.wgpu import templates, texels
from wggml.backends.wgpu.implementation import raw_api, trusted_module
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.errors import ShaderError, UsageError
from wggml.hal.interface import Counters

COMPUTE_STAGE = 4  # wgpu.ShaderStage.COMPUTE, without importing wgpu here
# naga says `wgsl:12:5`, Tint `:12:5 error: ...`
_LINE = re.compile(r"wgsl:(\d+):\d+|(?<!\d):(\d+):\d+ (?:error|warning)")


@dataclass(frozen=True, slots=True)
class Part:
    """What defines the text of one kernel: template, constants, how operands and parameters are
    called. `names` holds (operand, slot index) pairs, `params` (name, WGSL type) pairs."""

    shader: str
    consts: tuple[tuple[str, object], ...]
    names: tuple[tuple[str, int], ...]
    params: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PipelineKey:
    """What defines a pipeline: `slots` are (variable, element type, access) per storage binding
    (for a texture both are its WGSL type); one part for an ordinary kernel, several for kernels
    that share a dispatch (merge.py)."""

    slots: tuple[tuple[str, str, str], ...]
    parts: tuple[Part, ...]

    @property
    def access(self) -> tuple[str, ...]:
        return tuple(access for _, _, access in self.slots)

    @property
    def shader(self) -> str:
        return " + ".join(part.shader for part in self.parts)

    @property
    def consts(self) -> tuple[tuple[str, object], ...]:
        return tuple(pair for part in self.parts for pair in part.consts)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled pipeline and the layout its bind groups need."""

    key: PipelineKey
    gpu: Any
    layout: Any


def storage(key: PipelineKey) -> str:
    """WGSL of the storage and texture bindings."""
    return "".join(
        f"@group(0) @binding({i}) var {var}: {elem};\n" if elem in texels.LAYOUTS
        else f"@group(0) @binding({i}) var<storage, {access}> {var}: array<{elem}>;\n"
        for i, (var, elem, access) in enumerate(key.slots)
    )  # fmt: skip


def parameters(part: Part, binding: int, suffix: str = "") -> str:
    """WGSL of a part's parameter struct `P`; `suffix` tells the parts of a dispatch apart."""
    fields = [f"    {name}: {type_}," for name, type_ in part.params] or ["    unused: u32,"]
    lines = [
        f"struct Params{suffix} {{", *fields, "}",
        f"@group(0) @binding({binding}) var<uniform> P{suffix}: Params{suffix};",
    ]  # fmt: skip
    return "\n".join(lines)


def header(profile: DeviceProfile, key: PipelineKey) -> str:
    """`enable` lines: asked for by constants `uses_f16`, `uses_subgroups` or by an f16 operand."""
    flags = {name for name, value in key.consts if value is True}
    lines = []
    if "uses_f16" in flags or any("f16" in elem for _, elem, _ in key.slots):
        lines.append("enable f16;")
    # naga takes `enable subgroups;` for a parse error, Tint needs it. Tint also refuses subgroup
    # functions behind conditions that it cannot prove to be the same for a whole workgroup.
    if "uses_subgroups" in flags and profile.is_dawn:
        lines += ["enable subgroups;", "diagnostic(off, subgroup_uniformity);"]
    return "".join(f"{line}\n" for line in lines)


def template_context(
    profile: DeviceProfile, key: PipelineKey, index: int = 0
) -> Mapping[str, object]:
    """What the template of a part sees: `decls`, `profile`, one variable name per operand, the
    constants. A shared dispatch declares its bindings itself: `decls` is empty then."""
    part = key.parts[index]
    names = {name: key.slots[i][0] for name, i in part.names}
    access = {f"{name}_access": key.slots[i][2] for name, i in part.names}
    consts = dict(part.consts)
    clash = {"decls", "profile", *names, *access} & consts.keys()
    if clash:
        raise ShaderError(f"{part.shader}: constants {sorted(clash)} collide with operand names")
    decls = ""
    if len(key.parts) == 1:
        decls = storage(key) + parameters(part, len(key.slots))
    return {"decls": decls, "profile": profile, **names, **access, **consts}


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


_BUFFER_LAYOUTS: dict[str, dict[str, object]] = {
    "read": {"buffer": {"type": "read-only-storage"}},
    "read_write": {"buffer": {"type": "storage"}},
    "uniform": {"buffer": {"type": "uniform"}},
}


class PipelineCache:
    """Renders and compiles on first use. One per open device."""

    def __init__(self, gpu_device: Any, profile: DeviceProfile) -> None:
        self.gpu_device = gpu_device
        self.profile = profile
        self.created = Counters()  # pipelines_created, layouts_created of this device
        self._pipelines: dict[PipelineKey, Pipeline] = {}
        # Keys asked for, also those that do not compile, and the templates each was rendered from.
        self.templates: dict[PipelineKey, frozenset[str]] = {}
        self.asked: set[PipelineKey] = set()
        self._refused: dict[PipelineKey, str] = {}
        self._layouts: dict[tuple[tuple[str, ...], int], tuple[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._pipelines)

    def forget(self, names: Collection[str]) -> None:
        """Compile the pipelines that were rendered from these templates anew when next asked for.
        Plans keep what they were made with."""
        for key, used in list(self.templates.items()):
            if not used.isdisjoint(names):
                self._pipelines.pop(key, None)
                self._refused.pop(key, None)
                del self.templates[key]

    def layout(self, access: tuple[str, ...], n_uniforms: int) -> tuple[Any, Any]:
        """(bind group layout, pipeline layout): storage bindings, then uniforms."""
        found = self._layouts.get((access, n_uniforms))
        if found is None:
            kinds = {**_BUFFER_LAYOUTS, **texels.LAYOUTS}
            entries = [
                {"binding": i, "visibility": COMPUTE_STAGE, **kinds[a]}
                for i, a in enumerate([*access, *["uniform"] * n_uniforms])
            ]
            group = self.gpu_device.create_bind_group_layout(entries=entries)
            found = (group, self.gpu_device.create_pipeline_layout(bind_group_layouts=[group]))
            self._layouts[access, n_uniforms] = found
            self.created.layouts_created += 1
        return found

    def source(self, key: PipelineKey) -> str:
        """The complete WGSL of a key."""
        if len(key.parts) > 1:
            from wggml.backends.wgpu.merge import joined_source

            return header(self.profile, key) + joined_source(self.profile, key)
        body = templates.render(key.shader, template_context(self.profile, key))
        return header(self.profile, key) + body

    def get(self, key: PipelineKey) -> Pipeline:
        """The pipeline, compiled now if it is new; `ShaderError` when it does not compile."""
        self.asked.add(key)
        found = self._pipelines.get(key)
        if found is None:
            if key in self._refused:
                raise ShaderError(self._refused[key])
            try:
                found = self._compile(key)
            except ShaderError as e:
                if len(key.parts) > 1:  # not tried again: the parts run by themselves
                    self._refused[key] = str(e)
                raise
            self._pipelines[key] = found
            self.created.pipelines_created += 1
        return found

    def _compile(self, key: PipelineKey) -> Pipeline:
        with templates.traced() as names:
            try:
                code = self.source(key)
            finally:
                self.templates[key] = frozenset(names)
        if os.environ.get("WGGML_PRINT_WGSL"):
            print(f"// ---- {key.shader} {dict(key.consts)}\n{code}", file=sys.stderr)
        group, layout = self.layout(key.access, len(key.parts))
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
        where = templates.shown(key.shader)
        shown = ""
        if found:
            line = int(found[1] or found[2])
            lines = code.split("\n")
            if 0 < line <= len(lines):
                shown = f"\n  {lines[line - 1].strip()}"
            if len(key.parts) == 1:
                skipped = header(self.profile, key).count("\n")
                context = template_context(self.profile, key)
                where = templates.origin(key.shader, context, line - skipped)
        consts = ", ".join(f"{k}={v}" for k, v in key.consts)
        return (
            f"shader {where} does not compile ({consts}): {message.strip()}{shown}\n"
            "Set WGGML_PRINT_WGSL=1 to see the rendered text"
        )
