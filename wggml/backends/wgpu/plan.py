"""`Plan`: the dispatches of one graph, as data. Built once, replayed while its buffers live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.backends.wgpu import fusion, merge, texels
from wggml.backends.wgpu.binding import Slot
from wggml.backends.wgpu.builder import PlanBuilder
from wggml.backends.wgpu.dispatch import Dispatch
from wggml.backends.wgpu.implementation import module, translate
from wggml.backends.wgpu.ops import op_table
from wggml.core.graph import Graph
from wggml.core.opcodes import VIEW_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.errors import UnsupportedOpError, WggmlError

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.device import WgpuDevice


@dataclass(slots=True)
class Plan:
    """What `encode` replays. `nodes` counts graph nodes, `names` the nodes in order for messages.

    `uniforms` holds every dispatch's parameters, `scratch` the memory they share.
    """

    uid: int
    dispatches: list[Dispatch]
    buffers: tuple[WgpuBuffer, ...]
    nodes: int
    uniforms: Any
    scratch: Any = None
    recorder: Any = None  # what encode.py prepared for this plan
    runs: int = 0
    ahead: Any = None  # command buffers for the next run, encoded while the last one computed

    def is_alive(self) -> bool:
        """False once a buffer it binds was freed."""
        return not any(b.freed for b in self.buffers)

    def free(self) -> None:
        """Drop the plan's own buffer."""
        self.ahead = None
        if self.uniforms is not None:
            self.uniforms.destroy()
            self.uniforms = None

    def describe(self) -> list[dict[str, object]]:
        """One record per dispatch: label, node, shader, constants, grid, bound ranges."""
        return [
            {
                "node": d.node,
                "label": d.label,
                "shader": d.pipeline.key.shader,
                "consts": dict(d.pipeline.key.consts),
                "groups": d.groups,
                "slots": [
                    (var, elem, access, s.offset, s.nbytes)
                    for (var, elem, access), s in zip(d.pipeline.key.slots, d.slots, strict=True)
                ],
            }
            for d in self.dispatches
        ]

    def __str__(self) -> str:
        lines = [f"plan {self.uid}: {self.nodes} nodes, {len(self.dispatches)} dispatches"]
        for i, d in enumerate(self.dispatches):
            slots = ", ".join(
                f"{var}:{elem}[{s.offset}+{s.nbytes}]{'' if access == 'read' else ' rw'}"
                for (var, elem, access), s in zip(d.pipeline.key.slots, d.slots, strict=True)
            )
            lines.append(f"{i:5} {d.node:40} {d.label} {d.groups} {slots}")
        return "\n".join(lines)


def runs(t: Tensor) -> bool:
    """True for a node that computes: flagged, no view, not empty."""
    if not t.flags & Flag.COMPUTE or t.op == Op.NONE or t.op in VIEW_OPS:
        return False
    return not t.is_empty()


def compile_plan(
    device: WgpuDevice, graph: Graph, *, kinds: frozenset[str] = fusion.ALL
) -> Plan:
    """Emit every node, with those of `fusion.KINDS` joined, then make the parameter buffer and the
    bind groups.

    Raises `UnsupportedOpError` naming the node the device cannot run.
    """
    nodes = [t for t in graph.nodes if runs(t)]
    builder = PlanBuilder(device, fusion=kinds, use_counts=graph.use_counts)
    for t in builder.nodes(nodes):
        _emit(builder, t)
    dispatches = merge.dispatches(device, builder.requests, join="merge" in kinds)
    uniforms = _uniforms(device, dispatches)
    scratch = device.scratch_buffer(builder.scratch_size) if builder.scratch_size else None
    plan = Plan(graph.uid, dispatches, tuple(builder.buffers), len(nodes), uniforms, scratch)
    _bind(device, plan)
    return plan


def _emit(builder: PlanBuilder, t: Tensor) -> None:
    impl = op_table().get(t.op)
    device = builder.device
    why = "no kernel" if impl is None else None
    if impl is not None:
        try:
            impl.emit(builder, t)
        except WggmlError as e:
            note = f"node {t.op.name} {t.name!r} (ne {list(t.ne)}) on {device.name}: {e}"
            raise type(e)(note) from e
    if why:
        raise UnsupportedOpError(
            f"device {device.name} has no kernel for {t.op.name} (node {t.name!r}); place it on "
            "the CPU"
        )


def _uniforms(device: WgpuDevice, dispatches: Sequence[Dispatch]) -> Any:
    """One uniform buffer with every distinct parameter block; sets each dispatch's offset."""
    align = device.profile.min_uniform_offset_alignment
    offsets: dict[bytes, int] = {}
    chunks: list[bytes] = []
    end = 0
    for d in dispatches:
        for block in d.params:
            if block not in offsets:
                offsets[block] = end
                padded = -(-len(block) // align) * align
                chunks.append(block.ljust(padded, b"\0"))
                end += padded
        d.params_at = tuple(offsets[block] for block in d.params)
    if not end:
        return None
    flags = module().BufferUsage
    gpu = device.create_buffer(end, int(flags.UNIFORM | flags.COPY_DST), "parameters")
    device.gpu.queue.write_buffer(gpu, 0, np.frombuffer(b"".join(chunks), np.uint8))
    return gpu


def _bind(device: WgpuDevice, plan: Plan) -> None:
    made: dict[object, Any] = {}
    for d in plan.dispatches:
        bound = tuple((id(s.gpu), s.offset, s.nbytes) for s in d.slots)
        key = (d.pipeline.key.access, d.params_at, tuple(map(len, d.params)), bound)
        group = made.get(key)
        if group is None:
            try:
                group = device.gpu.create_bind_group(
                    layout=d.pipeline.layout, entries=_entries(d, plan)
                )
            except Exception as e:
                raise translate(e, f"binding the operands of {d.node}", device.name) from e
            made[key] = group
            device.created.bind_groups_created += 1
        d.bind_group = group


def _entries(d: Dispatch, plan: Plan) -> list[dict[str, object]]:
    def entry(i: int, gpu: Any, offset: int, size: int) -> dict[str, object]:
        resource = {"buffer": gpu, "offset": offset, "size": size}
        return {"binding": i, "resource": resource}

    def of(s: Slot) -> Any:
        return plan.scratch if s.is_scratch else s.gpu

    entries: list[dict[str, object]] = [
        {"binding": i, "resource": s.gpu} if s.elem in texels.LAYOUTS
        else entry(i, of(s), s.offset, s.nbytes)
        for i, s in enumerate(d.slots)
    ]  # fmt: skip
    for i, (at, block) in enumerate(zip(d.params_at, d.params, strict=True), len(d.slots)):
        entries.append(entry(i, plan.uniforms, at, len(block)))
    return entries
