"""Copying only those experts of a host weight that a mixture-of-experts node will read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import SchedulerError
from wggml.hal.interface import Bytes
from wggml.sched.passes import describe_tensor
from wggml.sched.split import Plan, Rewire, Split


@dataclass(slots=True, eq=False)
class ExpertUse:
    """Where the expert ids of a MUL_MAT_ID node can be read before its split runs.

    Attributes:
        node: the MUL_MAT_ID.
        key: its ids tensor in the caller's graph; equal keys hold equal ids within a run.
        ids, backend_id: tensor to read them from, and whose backend wrote it.
        n_expert, expert_bytes: matrices in the weight, and bytes from one to the next.
    """

    node: Tensor
    key: Tensor
    ids: Tensor
    backend_id: int
    n_expert: int
    expert_bytes: int


def find_expert_use(
    plan: Plan, split: Split, weight: Tensor, users: Sequence[Rewire]
) -> ExpertUse | None:
    """The use of `weight`, an input of `split` whose copy `users` read, if that is one MUL_MAT_ID
    whose ids are known when the split starts; else None. The plan must not be applied."""
    if len(users) != 1 or users[0].i != 0 or users[0].node.op != Op.MUL_MAT_ID:
        return None
    node = users[0].node
    key = node.src[2]
    if key is None or key.type != Type.I32:
        return None
    root = key if key.view_src is None else key.view_src
    if root in split.graph.nodes:
        return None  # computed by the split itself
    ids, backend_id = _where_to_read(plan, split, key)
    return ExpertUse(node, key, ids, backend_id, weight.ne[2], weight.nb[2])


def _where_to_read(plan: Plan, split: Split, key: Tensor) -> tuple[Tensor, int]:
    """The original is certain to be intact only while it is an input of the split; afterwards its
    copy, which an earlier split made, is."""
    copied = (key, split.backend_id) in plan.copies
    if copied and key not in split.inputs:
        return plan.copy_of(key, split.backend_id), split.backend_id
    return key, plan.assignment.id_of(key)


def used_experts(use: ExpertUse, raw: Bytes) -> list[tuple[int, int]]:
    """Ranges [first, end) of consecutive experts that occur in `raw`, the bytes of the ids tensor.

    Raises `SchedulerError` for an id outside the weight.
    """
    ids = _as_matrix(use.ids, raw)
    found = np.unique(ids)
    if found.size and (found[0] < 0 or found[-1] >= use.n_expert):
        bad = int(found[0] if found[0] < 0 else found[-1])
        raise SchedulerError(
            f"{describe_tensor(use.node)} selects expert {bad}, but its weight has "
            f"{use.n_expert} (0 to {use.n_expert - 1}); check what computes "
            f"{describe_tensor(use.key)}"
        )
    breaks = np.flatnonzero(np.diff(found) > 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(found, breaks) if run.size]


def _as_matrix(ids: Tensor, raw: Bytes) -> npt.NDArray[np.int32]:
    """The ids [i3, i2, i1, i0] through the tensor's strides."""
    shape, strides = tuple(reversed(ids.ne)), tuple(reversed(ids.nb))
    return np.ndarray(shape, np.int32, buffer=np.ascontiguousarray(raw), strides=strides)
