"""Counts the lanes of a subgroup with a shader, since drivers report sizes that are not real."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wggml.backends.wgpu.implementation import module
from wggml.backends.wgpu.profile import DeviceProfile

_LANES = 64
# Per lane: how many lanes answer a subgroupAdd, the lane's index in its subgroup, and the size the
# implementation claims.
_SHADER = """
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64) fn main(
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) sub_lane: u32,
    @builtin(subgroup_size) size: u32,
) {
    out[lane * 3u] = subgroupAdd(1u);
    out[lane * 3u + 1u] = sub_lane;
    out[lane * 3u + 2u] = size;
}
"""


def probe_subgroups(gpu_device: Any, profile: DeviceProfile) -> DeviceProfile:
    """`profile` with `subgroup_size` as counted, or without subgroups when they do not compile,
    do not agree with themselves, or lanes do not follow the invocation index."""
    if not profile.subgroups:
        return profile
    broken = replace(profile, subgroups=False, subgroup_size=0)
    try:
        lanes = _count_lanes(gpu_device, "enable subgroups;\n" if profile.is_dawn else "")
    except Exception:  # an implementation that lists the feature but cannot compile it
        return broken
    size = int(lanes[0, 0])
    index = np.arange(_LANES, dtype=np.uint32)
    linear = size > 0 and bool((lanes[:, 1] == index % size).all())
    if not linear or not (lanes[:, 0] == size).all():
        return broken
    return replace(profile, subgroup_size=size)


def _count_lanes(device: Any, header: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return run_once(device, header + _SHADER, _LANES * 3 * 4).reshape(_LANES, 3)


def run_once(
    device: Any, code: str, nbytes: int, groups: int = 1
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The words that a shader with one storage buffer of `nbytes` and entry point `main` leaves in
    it; waits for it."""
    flags = module().BufferUsage
    out = device.create_buffer(size=nbytes, usage=flags.STORAGE | flags.COPY_SRC)
    pipeline = device.create_compute_pipeline(
        layout="auto",
        compute={"module": device.create_shader_module(code=code), "entry_point": "main"},
    )
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": 0, "resource": {"buffer": out, "offset": 0, "size": nbytes}}],
    )
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(groups)
    compute.end()
    device.queue.submit([encoder.finish()])
    return np.frombuffer(device.queue.read_buffer(out), np.uint32)
