"""CROSS_ENTROPY_LOSS and its gradient, OPT_STEP_ADAMW, OPT_STEP_SGD."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops._gather import Pick, bits_of, gather
from wggml.backends.wgpu.ops._operands import source, why_not_types, workgroup
from wggml.backends.wgpu.ops._rowwise import lanes, row_params
from wggml.backends.wgpu.ops._walk import finish, strides_of, tensor_walk
from wggml.backends.wgpu.ops.reduce import add_up
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import Operand, PlanBuilder


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    return why_not_types(t, frozenset({Type.F32}))


def _rows(
    b: PlanBuilder, kind: str, tensors: dict[str, Tensor], others: list[Operand], scale: float
) -> None:
    logits = tensors["logits"]
    b.dispatch(
        "loss/cross_entropy.wgsl",
        operands=[
            *(b.operand(s, "f32", name=k, write=k == "dst") for k, s in tensors.items()), *others,
        ],
        consts={"W": lanes(b.profile, logits.ne[0]), "kind": kind},
        params={
            "n": logits.ne[0], "scale": scale, **row_params(logits, 1, **tensors),
            **{f"{k}_s0": strides_of(s)[0] for k, s in tensors.items()},
        },
        groups=logits.n_rows,
        label=f"cross_entropy {kind}",
    )  # fmt: skip


def _emit_loss(b: PlanBuilder, t: Tensor) -> None:
    """Losses of rows into scratch memory, then their sum."""
    logits, labels = source(t, 0), source(t, 1)
    if logits.is_empty():  # a mean of nothing
        gather(b, t, None, Pick(), other=bits_of(math.nan, t.type), label="loss of nothing")
        return
    n = logits.n_rows
    partial = b.scratch(n * 4, "f32", name="dst")
    _rows(b, "loss", {"logits": logits, "labels": labels}, [partial], -1.0 / n)
    dst = b.operand(t, "f32", name="dst", write=True)
    add_up(b, [replace(partial, name="src0", write=False), dst], n)


def _emit_loss_back(b: PlanBuilder, t: Tensor) -> None:
    grad, logits, labels = (source(t, i) for i in range(3))
    tensors = {"logits": logits, "labels": labels, "dst": t}
    _rows(b, "back", tensors, [b.operand(grad, "f32", name="grad")], 1.0 / logits.n_rows)


# ---- optimiser steps --------------------------------------------------------------------------

STEPS = {Op.OPT_STEP_ADAMW: ("adamw", ("w", "g", "m", "v")), Op.OPT_STEP_SGD: ("sgd", ("w", "g"))}


def _emit_step(b: PlanBuilder, t: Tensor) -> None:
    kind, names = STEPS[t.op]
    tensors = {name: source(t, i) for i, name in enumerate(names)}
    tensors["w"] = t  # a view of the first source
    settings = source(t, len(names))
    w = tensor_walk(t.ne, tensors)
    groups = finish(w, 1, workgroup(b.profile))
    b.dispatch(
        "loss/step.wgsl",
        operands=[
            *(b.operand(s, "f32", name=k, write=k != "g") for k, s in tensors.items()),
            b.operand(settings, "f32", name="settings"),
        ],
        consts={**w.consts, "kind": kind},
        params=w.params,
        groups=groups,
        label=kind,
    )  # fmt: skip


FAMILY: dict[Op, OpImpl] = {
    Op.CROSS_ENTROPY_LOSS: OpImpl(_why_not, _emit_loss),
    Op.CROSS_ENTROPY_LOSS_BACK: OpImpl(_why_not, _emit_loss_back),
    Op.OPT_STEP_ADAMW: OpImpl(_why_not, _emit_step),
    Op.OPT_STEP_SGD: OpImpl(_why_not, _emit_step),
}
