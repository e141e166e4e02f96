"""The hot path: replaying a plan. One pass and one submit, unless a long plan is cut.

A plan that is replayed again and again is encoded for its next run while the device computes.

Two ways to record, equal in effect: the public wgpu-py calls, and wgpu-native's C calls for the
versions they were tested with. Per dispatch 3.0 us against 0.87 us (1000 dispatches, lavapipe),
which is why both exist; WGGML_WGPU_ENCODE=public|raw chooses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wggml.backends.wgpu.implementation import raw_api
from wggml.errors import UsageError

if TYPE_CHECKING:
    from wggml.backends.wgpu.dispatch import Dispatch

ENV_ENCODE = "WGGML_WGPU_ENCODE"
# Puts dispatches into an open compute pass.
Recorder = Callable[[Any], None]
Record = Callable[["Sequence[Dispatch]"], Recorder]


def choose(wanted: str | None) -> Record:
    """The way to record: `public`, `raw`, or None for the best one that this version allows."""
    wanted = wanted or os.environ.get(ENV_ENCODE) or "auto"
    if wanted not in ("auto", "public", "raw"):
        raise UsageError(f"{ENV_ENCODE}={wanted!r}: choose public or raw")
    api = raw_api() if wanted in ("auto", "raw") else None
    if api is None:
        return record_public
    lib, ffi = api
    return lambda dispatches: record_raw(dispatches, lib, ffi)


def record_public(dispatches: Sequence[Dispatch]) -> Recorder:
    """Records with wgpu-py's own calls."""
    items = [(d.pipeline.gpu, d.bind_group, d.groups) for d in dispatches]

    def record(compute_pass: Any) -> None:
        set_pipeline = compute_pass.set_pipeline
        set_bind_group = compute_pass.set_bind_group
        dispatch = compute_pass.dispatch_workgroups
        last_pipeline = None
        for pipeline, group, (x, y, z) in items:
            if pipeline is not last_pipeline:
                set_pipeline(pipeline)
                last_pipeline = pipeline
            set_bind_group(0, group)
            dispatch(x, y, z)

    return record


def record_raw(dispatches: Sequence[Dispatch], lib: Any, ffi: Any) -> Recorder:
    """Records with C calls; their errors come out of the encoder's `finish`. The handles belong to
    objects that the plan keeps."""
    items = [(d.pipeline.gpu._internal, d.bind_group._internal, *d.groups) for d in dispatches]
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
    null = ffi.NULL

    def record(compute_pass: Any) -> None:
        handle = compute_pass._internal
        last_pipeline = None
        for pipeline, group, x, y, z in items:
            if pipeline is not last_pipeline:
                set_pipeline(handle, pipeline)
                last_pipeline = pipeline
            set_bind_group(handle, 0, group, 0, null)
            dispatch(handle, x, y, z)

    return record


def prepare(dispatches: Sequence[Dispatch], record: Record, per_submit: int) -> list[Recorder]:
    """One recorder per submit; `per_submit` 0 means all in one."""
    if not dispatches:
        return []
    step = per_submit or len(dispatches)
    return [record(dispatches[i : i + step]) for i in range(0, len(dispatches), step)]


def commands(gpu_device: Any, recorders: Sequence[Recorder]) -> list[Any]:
    """Command buffers ready to be submitted, one per recorder."""
    out = []
    for record in recorders:
        encoder = gpu_device.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        record(compute_pass)
        compute_pass.end()
        out.append(encoder.finish())
    return out


def submit(gpu_device: Any, buffers: Sequence[Any]) -> None:
    """Submit each by itself; returns without waiting."""
    for b in buffers:
        gpu_device.queue.submit([b])


def replay(gpu_device: Any, recorders: Sequence[Recorder]) -> None:
    """Encode and submit, one recorder after the other; returns without waiting."""
    for record in recorders:
        submit(gpu_device, commands(gpu_device, [record]))
