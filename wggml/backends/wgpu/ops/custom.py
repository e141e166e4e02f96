"""CUSTOM: ops that users registered with WGSL of their own (wggml/custom.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml import custom
from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._operands import source, why_not_strides
from wggml.backends.wgpu.ops._walk import strides_of
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

ELEMS = {Type.F32: "f32", Type.F16: "f16", Type.I32: "i32"}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    op = custom.op_of(t)
    if op is None:
        return custom.why_not(t)
    for s in (*t.src, t):
        assert s is not None
        if s.type == Type.F16 and not profile.f16:
            return f"{op.name} has an f16 operand and the device no f16"
        if not op.strided and not s.is_contiguous():
            return f"operand {s.name!r} of {op.name} is not contiguous; see ops.cont"
    if (why := why_not_strides(t)) is not None:
        return why
    if op.workgroup_size > profile.max_invocations:
        limit = profile.max_invocations
        return f"{op.name} has workgroups of {op.workgroup_size}; the device allows {limit}"
    return None


def _emit(b: PlanBuilder, t: Tensor) -> None:
    op = custom.op_of(t)
    assert op is not None
    params = op.params_of(t)
    srcs = [source(t, i) for i in range(len(op.types))]
    named = {**{f"src{i}": s for i, s in enumerate(srcs)}, "dst": t}
    shapes: dict[str, int | float] = {"n": t.n_elements}
    for name, s in named.items():
        shapes |= {f"{name}_ne{i}": n for i, n in enumerate(s.ne)}
        if op.strided:
            shapes |= {f"{name}_s{i}": n for i, n in enumerate(strides_of(s))}
    b.dispatch(
        op.template,
        operands=[
            b.operand(s, ELEMS[s.type], name=name, write=name == "dst")
            for name, s in named.items()
        ],
        # a changed text must not find the pipeline of the old one
        consts={"workgroup_size": op.workgroup_size, "version": op.version},
        params={**shapes, **params},
        groups=op.workgroups(t, *srcs, **params),
        label=op.name,
    )


FAMILY = {Op.CUSTOM: OpImpl(_why_not, _emit)}
