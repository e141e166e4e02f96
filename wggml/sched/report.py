"""What the scheduler decided, for people and for programs."""

from __future__ import annotations

from typing import Any

from wggml.core.opcodes import VIEW_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.sched.passes import UNASSIGNED
from wggml.sched.split import Plan, Split


def describe(plan: Plan, level: int = 1) -> str:
    """One block per split; `level` 2 and more adds every node with causes and use counts."""
    lines: list[str] = []
    for i, split in enumerate(plan.splits):
        lines.append(_split_line(i, split))
        if level > 1:
            first = split.i_start
            nodes = plan.graph.nodes[first : split.i_end]
            lines += [
                _node_line(plan, first + k, t) for k, t in enumerate(nodes) if t.op not in VIEW_OPS
            ]
    return "\n".join(lines)


def _split_line(i: int, split: Split) -> str:
    inputs = "".join(f" [{s.name} ({format_size(s.nbytes)})]" for s in split.inputs)
    return (
        f"## SPLIT #{i}: {split.backend.name} # nodes {split.i_start}..{split.i_end - 1} "
        f"# {len(split.inputs)} inputs{':' if inputs else ''}{inputs}"
    )


def _node_line(plan: Plan, i: int, t: Tensor) -> str:
    uses = plan.graph.use_counts.get(t, 0)
    compute = int(bool(t.flags & Flag.COMPUTE))
    sources = "".join(f" {_tensor(plan, s)}" for s in t.src if s is not None)
    return f"node #{i:3d} ({t.op.name:>10}): {_tensor(plan, t)} use={uses},c={compute}:{sources}"


def _tensor(plan: Plan, t: Tensor) -> str:
    a = plan.assignment
    b = a.id_of(t)
    name = "NULL" if b == UNASSIGNED else a.backends[b].name
    return f"{t.name:>20} ({format_size(t.nbytes)}) [{name} {a.causes.get(t, '')}]"


def format_size(nbytes: int) -> str:
    """Bytes as `12B`, `12.0K`, `12.0M` or `12.0G` (powers of 1024)."""
    size = float(nbytes)
    for unit in ("B", "K", "M"):
        if size < 1024:
            return f"{size:.0f}{unit}" if unit == "B" else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}G"


def to_json(plan: Plan) -> dict[str, Any]:
    """Splits, assignments, causes and copies as plain data for `json.dumps`.

    Tensors are numbered: leafs, then nodes of the graph, then what the scheduler made.
    """
    a = plan.assignment
    tensors = [*plan.graph.leafs, *plan.graph.nodes, *plan.made]
    ids = {t: i for i, t in enumerate(tensors)}
    return {
        "backends": [b.name for b in a.backends],
        "n_copies": plan.n_copies,
        "cur_copy": plan.cur_copy,
        "n_leafs": len(plan.graph.leafs),
        "n_nodes": len(plan.graph.nodes),
        "tensors": [_tensor_json(plan, t, ids) for t in tensors],
        "splits": [_split_json(plan, split, ids) for split in plan.splits],
        "copied_bytes": sum(s.nbytes for split in plan.splits for s in split.inputs),
    }


def _tensor_json(plan: Plan, t: Tensor, ids: dict[Tensor, int]) -> dict[str, Any]:
    a = plan.assignment
    b = a.id_of(t)
    out: dict[str, Any] = {
        "name": t.name,
        "op": t.op.name,
        "type": t.type.name.lower(),
        "ne": list(t.ne),
        "nbytes": t.nbytes,
        "backend": None if b == UNASSIGNED else b,
        "cause": a.causes.get(t),
    }
    if t.op is not Op.NONE:
        out["src"] = [None if s is None else ids.get(s) for s in t.src]
        out["uses"] = plan.graph.use_counts.get(t, 0)
    return out


def _split_json(plan: Plan, split: Split, ids: dict[Tensor, int]) -> dict[str, Any]:
    return {
        "backend": split.backend_id,
        "i_start": split.i_start,
        "i_end": split.i_end,
        "uid": split.graph.uid,
        "inputs": [
            {
                "tensor": ids.get(s),
                "name": s.name,
                "from": plan.assignment.id_of(s),
                "copies": [ids[c] for c in plan.copies[s, split.backend_id]],
                "nbytes": s.nbytes,
            }
            for s in split.inputs
        ],
    }
