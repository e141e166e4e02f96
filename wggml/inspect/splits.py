"""The split map and the op table: who runs what, why, and what is copied in between."""

from __future__ import annotations

from collections import Counter

from wggml.core.opcodes import VIEW_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.hal.interface import Backend
from wggml.inspect.data import (
    BEFORE,
    BackendInfo,
    Copy,
    Node,
    OpRow,
    OpTable,
    SplitInfo,
    SplitMap,
    explain_cause,
)
from wggml.inspect.words import name_of, op_label, type_label, weight_of
from wggml.sched.split import Plan


def execution_order(plan: Plan) -> list[Tensor]:
    """The nodes as the backends run them, which may have reordered their splits."""
    return [t for split in plan.splits for t in split.graph.nodes]


def backend_infos(backends: tuple[Backend, ...]) -> list[BackendInfo]:
    """The scheduler's backends in words."""
    out = []
    for b in backends:
        device = b.device
        out.append(BackendInfo(b.name, getattr(device, "description", b.name), device.type.value))
    return out


def split_map(plan: Plan, order: list[Tensor]) -> SplitMap:
    """The map of a plan; `order` from `execution_order`."""
    a = plan.assignment
    out = SplitMap(backend_infos(tuple(a.backends)), [], [], [])
    index = {t: i for i, t in enumerate(plan.graph.nodes)}
    step_of = {t: i for i, t in enumerate(order)}
    step = 0
    for i, split in enumerate(plan.splits):
        start = step
        for s in split.inputs:
            root = s.view_src if s.view_src in step_of else s
            made_at = step_of.get(s, step_of.get(root, BEFORE)) if root else BEFORE
            src = a.id_of(s)
            out.copies.append(Copy(s.name, src, split.backend_id, s.nbytes, i, start, made_at))
        for t in split.graph.nodes:
            out.nodes.append(_node(plan, t, step, index[t], i))
            step += 1
        out.splits.append(SplitInfo(i, split.backend_id, start, step))
    return out


def _node(plan: Plan, t: Tensor, step: int, index: int, split: int) -> Node:
    a = plan.assignment
    sources = [name_of(s) for s in t.src if s is not None]
    b = a.id_of(t)
    is_view = t.op in VIEW_OPS or t.op == Op.NONE
    left = "" if is_view else why_left(plan, t)
    return Node(
        step, index, t.name, op_label(t), type_label(t), t.ne, t.nbytes, b, a.causes.get(t, ""),
        split, is_view, sources, left,
    )  # fmt: skip


def why_left(plan: Plan, t: Tensor) -> str:
    """Why the backends before the one of `t` do not run it; empty where the first one does."""
    a = plan.assignment
    reasons = []
    for c in range(a.id_of(t)):
        backend = a.backends[c]
        why = None if a.supports_op(c, t) else backend.device.why_not(t) or "not supported"
        if why is not None:
            reasons.append(f"{backend.name}: {why}")
    if reasons or a.id_of(t) <= 0:
        return "; ".join(reasons)
    return explain_cause(a.causes.get(t, ""))


def _written(t: Tensor) -> int:
    """Bytes that a node writes; of one that writes into another tensor, those of what it brings."""
    source = t.src[0] if t.view_src is not None and t.src else None
    return t.nbytes if source is None else min(source.nbytes, t.nbytes)


def op_table(plan: Plan, nodes: SplitMap, order: list[Tensor]) -> OpTable:
    """Computing nodes counted by op, type of weight and backend, most bytes first."""
    rows: dict[tuple[str, str, int], OpRow] = {}
    causes: dict[tuple[str, str, int], Counter[str]] = {}
    for n, t in zip(nodes.nodes, order, strict=True):
        if n.is_view or not t.flags & Flag.COMPUTE:
            continue
        weight = weight_of(t)
        key = (n.op, "" if weight is None else type_label(weight), n.backend)
        row = rows.setdefault(key, OpRow(*key, 0, 0, {}, []))
        row.count += 1
        row.nbytes += _written(t)
        causes.setdefault(key, Counter())[n.cause] += 1
        if n.left and n.left not in row.left:
            row.left.append(n.left)
    for key, row in rows.items():
        row.causes = dict(causes[key].most_common())
    return OpTable(nodes.backends, sorted(rows.values(), key=lambda r: (r.backend, -r.nbytes)))
