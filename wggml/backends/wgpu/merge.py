"""Turning a plan's requests into dispatches, independent ones into one.

Every dispatch costs the device a start and a barrier, and small ones leave most of it idle: the
three projections of a token's attention, say. Requests that touch no common bytes but to read them
may run side by side; those of one depth are put into one dispatch whose first workgroups run the
first kernel, the next ones the second, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.wgpu import templates
from wggml.backends.wgpu.binding import Binding, bind
from wggml.backends.wgpu.builder import Request, fold_groups
from wggml.backends.wgpu.dispatch import Dispatch
from wggml.backends.wgpu.pipelines import (
    Part,
    PipelineKey,
    parameters,
    storage,
    template_context,
)
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.errors import ShaderError, UnsupportedOpError

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice

MAX_PARTS = 4
# A dispatch with more workgroups than this fills any device by itself.
MAX_GROUPS = 8192
# Compile time grows with the text, which has every part in it: the long kernels, those for many
# columns, gain least from company (5 s of compiling a prompt's plan became 10 s on lavapipe).
MAX_TEXT = 20_000


def dispatches(
    device: WgpuDevice, requests: Sequence[Request], *, join: bool = True
) -> list[Dispatch]:
    """Dispatches in an order that gives the results of the requests' order."""
    if not join:
        return [_dispatch(device, [r]) for r in requests]
    out: list[Dispatch] = []
    by_depth: dict[int, list[Request]] = {}
    for r, depth in zip(requests, depths(requests), strict=True):
        by_depth.setdefault(depth, []).append(r)
    for depth in sorted(by_depth):
        for group, binding in _sets(device.profile, by_depth[depth]):
            out += _try_dispatch(device, group, binding)
    return out


# ---- what may run side by side ------------------------------------------------------------------


def depths(requests: Sequence[Request]) -> list[int]:
    """Per request one more than the deepest earlier one it must wait for: one that writes what it
    touches, or that reads what it writes."""
    written = {id(op.key) for r in requests for op in r.operands if op.write}
    touched = [[op for op in r.operands if id(op.key) in written] for r in requests]
    n = sum(map(len, touched))
    begins, ends = np.zeros(n, np.int64), np.zeros(n, np.int64)
    keys, depth, writes = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    numbers: dict[int, int] = {}
    used = 0
    out = []
    for operands in touched:
        mine = -1
        for op in operands:
            key = numbers.setdefault(id(op.key), len(numbers))
            hit = (keys[:used] == key) & (begins[:used] < op.offset + op.nbytes)
            hit &= ends[:used] > op.offset
            if not op.write:
                hit &= writes[:used]
            if hit.any():
                mine = max(mine, int(depth[:used][hit].max()))
        out.append(mine + 1)
        for op in operands:
            keys[used], writes[used] = numbers[id(op.key)], op.write
            begins[used], ends[used] = op.offset, op.offset + op.nbytes
            depth[used] = mine + 1
            used += 1
    return out


def _sets(
    profile: DeviceProfile, requests: Sequence[Request]
) -> Iterable[tuple[list[Request], Binding | None]]:
    """Requests of one depth, cut into sets that fit one dispatch, with their binding where it is
    known. Workgroups of one size only: templates call it W, WG or wg."""
    by_size: dict[object, list[Request]] = {}
    for r in requests:
        consts = dict(r.consts)
        size = next((consts[k] for k in ("W", "WG", "wg") if k in consts), id(r))
        by_size.setdefault(size, []).append(r)
    for same in by_size.values():
        current: list[Request] = []
        binding: Binding | None = None
        for r in same:
            more = _fit(profile, [*current, r]) if current else None
            if current and more is None:
                yield current, binding
                current = []
            current.append(r)
            binding = more
        yield current, binding


def _fit(profile: DeviceProfile, requests: Sequence[Request]) -> Binding | None:
    """The binding of a shared dispatch; None where there can be none."""
    if len(requests) > MAX_PARTS or sum(_count(r) for r in requests) > MAX_GROUPS:
        return None
    try:
        return _bind(profile, requests)
    except UnsupportedOpError:
        return None


def _bind(profile: DeviceProfile, requests: Sequence[Request]) -> Binding:
    if len(requests) == 1:
        return bind(profile, requests[0].shader, requests[0].operands)
    operands = [op for r in requests for op in r.operands]
    names = [f"{op.name}_{k}" for k, r in enumerate(requests) for op in r.operands]
    return bind(profile, "joined", operands, names)


def _count(r: Request) -> int:
    x, y, z = r.groups
    return x * y * z


# ---- dispatches -----------------------------------------------------------------------------


def _try_dispatch(
    device: WgpuDevice, requests: list[Request], binding: Binding | None
) -> list[Dispatch]:
    """One dispatch for all, or one each where the joined text cannot be made or compiled."""
    if len(requests) > 1:
        try:
            return [_dispatch(device, requests, binding)]
        except ShaderError as e:
            device.note(f"kernels stay apart: {e}")
    return [_dispatch(device, [r]) for r in requests]


def _dispatch(
    device: WgpuDevice, requests: list[Request], binding: Binding | None = None
) -> Dispatch:
    try:
        binding = binding or _bind(device.profile, requests)
    except UnsupportedOpError as e:
        raise UnsupportedOpError(f"{requests[0].node} on {device.name}: {e}") from e
    operands = [op for r in requests for op in r.operands]
    offsets = iter(zip(binding.offsets(operands), binding.where, strict=True))
    joined = len(requests) > 1
    parts, blocks = [], []
    base = 0
    for r in requests:
        values: dict[str, int | float] = {}
        names = []
        for op in r.operands:
            offset, slot = next(offsets)
            values[f"off_{op.name}"] = offset
            names.append((op.name, slot))
        values.update(r.params)
        if joined:
            end = base + _count(r)
            values.update(join_end=end, join_x=r.groups[0], join_y=r.groups[1])
            base = end
        types = tuple((k, "f32" if isinstance(v, float) else "u32") for k, v in values.items())
        parts.append(Part(r.shader, r.consts, tuple(names), types))
        blocks.append(_pack(values.values()))
    slots = tuple(
        (var, s.elem, s.access) for var, s in zip(binding.variables, binding.slots, strict=True)
    )
    pipeline = device.pipelines.get(PipelineKey(slots, tuple(parts)))
    return Dispatch(
        " | ".join(r.label for r in requests), " | ".join(r.node for r in requests), pipeline,
        binding.slots, tuple(blocks), fold_groups(base) if joined else requests[0].groups,
    )  # fmt: skip


def _pack(values: Iterable[int | float]) -> bytes:
    """A parameter struct: 4 bytes a value, padded to 16."""
    numbers = list(values)
    words = np.zeros(-(-max(len(numbers), 1) // 4) * 4, np.uint32)
    for i, v in enumerate(numbers):
        words[i] = np.float32(v).view(np.uint32) if isinstance(v, float) else int(v) & 0xFFFFFFFF
    return words.tobytes()


# ---- the joined text --------------------------------------------------------------------------

_GLOBAL = re.compile(
    r"^(?:fn|const|alias|struct|override|var<(?:workgroup|private)>)\s+(\w+)", re.MULTILINE
)
_MAIN = re.compile(r"@compute\s+@workgroup_size\(([^)]*)\)\s*fn\s+main\s*\((.*?)\)\s*\{", re.DOTALL)
_ARGUMENT = re.compile(r"@builtin\((\w+)\)\s*\w+\s*:\s*([\w<>]+)")
_BUILTIN = re.compile(r"@builtin\(\w+\)\s*")
_WORKGROUP = re.compile(r"var<workgroup>\s+\w+\s*:\s*array<\s*([\w<>]+?)\s*,\s*(\d+)u?\s*>")
_SIZES = {"f32": 4, "u32": 4, "i32": 4, "f16": 2, "vec2<f32>": 8, "vec4<f32>": 16, "vec4<u32>": 16}
# What a kernel may ask for besides its workgroup's number.
_LOCAL = {
    "local_invocation_index", "local_invocation_id", "subgroup_invocation_id", "subgroup_size",
    "subgroup_id", "num_subgroups",
}  # fmt: skip


def joined_source(profile: DeviceProfile, key: PipelineKey) -> str:
    """WGSL of several kernels and of a `main` that gives each its workgroups.

    Names at module level get a number each. `ShaderError` when the kernels differ in workgroup
    size, ask for inputs that would change, or need more workgroup memory than there is.
    """
    texts, sizes, arguments = [], set(), []
    memory = 0
    for k, part in enumerate(key.parts):
        text = templates.render(part.shader, template_context(profile, key, k))
        memory += sum(_SIZES.get(t, 16) * int(n) for t, n in _WORKGROUP.findall(text))
        main = _MAIN.search(text)
        if main is None:
            raise ShaderError(f"{part.shader} has no entry point of the usual form")
        sizes.add(main[1].strip())
        arguments.append(_ARGUMENT.findall(main[2]))
        plain = _BUILTIN.sub("", main[2])
        text = text[: main.start()] + f"fn main({plain}) {{" + text[main.end() :]
        parameters_text = parameters(part, len(key.slots) + k, f"_{k}")
        texts.append(f"{parameters_text}\n{_renamed(text, k)}")
    if max(map(len, texts)) > MAX_TEXT:
        raise ShaderError(f"a text of {max(map(len, texts))} characters; {MAX_TEXT} may be joined")
    if len(sizes) > 1:
        raise ShaderError(f"workgroups of different sizes: {sorted(sizes)}")
    if memory > profile.max_workgroup_memory:
        raise ShaderError(
            f"{memory} bytes of workgroup memory; there is {profile.max_workgroup_memory}"
        )
    return "\n".join([storage(key), *texts, _entry(key, sizes.pop(), arguments)])


def _renamed(text: str, k: int) -> str:
    names = {*_GLOBAL.findall(text), "P"}
    pattern = re.compile(r"(?<![\w.@])(" + "|".join(map(re.escape, sorted(names))) + r")\b")
    return pattern.sub(rf"\1_{k}", text)


def _entry(key: PipelineKey, size: str, arguments: list[list[tuple[str, str]]]) -> str:
    wanted = dict(pair for args in arguments for pair in args)
    unknown = set(wanted) - _LOCAL - {"workgroup_id"}
    if unknown:
        raise ShaderError(f"{key.shader}: inputs {sorted(unknown)} cannot be shared")
    wanted["workgroup_id"] = "vec3<u32>"
    inputs = ", ".join(f"@builtin({b}) in_{b}: {t}" for b, t in sorted(wanted.items()))
    lines = [f"@compute @workgroup_size({size})", f"fn main({inputs}) {{"]
    lines.append("    let group = in_workgroup_id.x + in_workgroup_id.y * 32768u;")
    for k, args in enumerate(arguments):
        begin = f"P_{k - 1}.join_end" if k else "0u"
        call = ", ".join("wg" if b == "workgroup_id" else f"in_{b}" for b, _ in args)
        lines += [
            f"    {'else ' if k else ''}if (group < P_{k}.join_end) {{",
            f"        let i = group - {begin};",
            f"        let row = i / P_{k}.join_x;",
            f"        let plane = row / P_{k}.join_y;",
            f"        let x = i - row * P_{k}.join_x;",
            f"        let wg = vec3<u32>(x, row - plane * P_{k}.join_y, plane);",
            f"        main_{k}({call});",
            "    }",
        ]
    lines.append("}")
    return "\n".join(lines)
