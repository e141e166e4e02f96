"""A `GraphPlan` as one HTML page."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from typing import Any

from wggml.inspect.data import GraphPlan, MemoryBuffer, Node, Rect, explain_cause
from wggml.inspect.families import FAMILIES, family_of
from wggml.inspect.pages import render_page
from wggml.units import nbytes_text

# Causes that share a colour on the page, by how they begin.
_CAUSE_CLASSES = {
    "1.wgt": "wgt", "1.off": "off", "1.inp": "inp", "1.": "place", "2.": "sup", "3.root": "place",
    "3.": "upg", "4.": "view", "usr": "usr",
}  # fmt: skip
_LAYER = re.compile(r"-(\d+)(?: \(.*\))?$")


def plan_page(plan: GraphPlan) -> str:
    """A self-contained page with the memory map, the split map and the op table."""
    return render_page(
        "plan.html.j2",
        plan.title,
        _script_data(plan),
        notes=plan.notes,
        backends=_backends(plan),
        tiles=_tiles(plan),
        families=_families(plan),
        buffers=[_buffer(b, plan) for b in plan.memory.buffers],
        causes=_causes(plan),
        ops=_ops(plan),
    )


def backend_colour(plan: GraphPlan, b: int) -> str:
    """Name of the style sheet's colour of a backend."""
    return "b-cpu" if plan.splits.backends[b].kind == "cpu" else f"b-{min(b, 3)}"


def cause_class(cause: str) -> str:
    """Name of the style sheet's colour of a cause."""
    return next((c for start, c in _CAUSE_CLASSES.items() if cause.startswith(start)), "inp")


def layers_of(nodes: list[Node]) -> list[tuple[int, int, int]]:
    """(layer, first step, end) by the names `<name>-<layer>`; a node without goes with the next
    one that has it."""
    numbers: list[int | None] = [None] * len(nodes)
    known = None
    for i in range(len(nodes) - 1, -1, -1):
        found = _LAYER.search(nodes[i].name)
        known = int(found[1]) if found else known
        numbers[i] = known
    out: list[tuple[int, int, int]] = []
    for i, layer in enumerate(numbers):
        if layer is None:
            continue
        if out and out[-1][0] == layer and out[-1][2] == i:
            out[-1] = (layer, out[-1][1], i + 1)
        else:
            out.append((layer, i, i + 1))
    return out


def _script_data(plan: GraphPlan) -> dict[str, Any]:
    memory, splits = plan.memory, plan.splits
    fans: Counter[int] = Counter()
    copies = []
    for c in splits.copies:
        copies.append({**asdict(c), "fan": fans[c.split]})
        fans[c.split] += 1
    per_split = {
        s.index: sum(c.nbytes for c in splits.copies if c.split == s.index) for s in splits.splits
    }
    return {
        "n_steps": memory.n_steps,
        "backends": [asdict(b) for b in splits.backends],
        "layers": layers_of(splits.nodes),
        "nodes": [
            {**asdict(n), "why": explain_cause(n.cause), "cause_class": cause_class(n.cause)}
            for n in splits.nodes
        ],
        "splits": [
            {**asdict(s), "n_copies": fans[s.index], "copied": per_split[s.index]}
            for s in splits.splits
        ],
        "copies": copies,
        "buffers": [
            {"peak": b.peak, "chunks": [asdict(c) for c in b.chunks], "usage": memory.usage(i)}
            for i, b in enumerate(memory.buffers)
        ],
        "rects": [{**asdict(r), "family": rect_family(r)} for r in memory.rects],
    }


def rect_family(r: Rect) -> str:
    """The family that a rectangle is coloured by."""
    return r.kind if r.kind in ("input", "leaf", "copy") else family_of(r.op)


def _backends(plan: GraphPlan) -> list[dict[str, str]]:
    return [
        {**asdict(b), "colour": backend_colour(plan, i)} for i, b in enumerate(plan.splits.backends)
    ]


def _families(plan: GraphPlan) -> list[dict[str, str]]:
    used = {rect_family(r) for r in plan.memory.rects}
    return [{"key": key, "label": label} for key, label in FAMILIES.items() if key in used]


def _buffer(b: MemoryBuffer, plan: GraphPlan) -> dict[str, Any]:
    names = " and ".join(plan.splits.backends[i].name for i in b.backends)
    chunks = f" in {len(b.chunks)} chunks" if len(b.chunks) > 1 else ""
    larger = ", as large as another graph needs" if b.size > b.peak else ""
    return {
        "name": names,
        "text": f"compute buffer of {nbytes_text(b.size)}{chunks}{larger}",
        "peak": b.peak,
        "peak_text": nbytes_text(b.peak),
        "sum": nbytes_text(b.tensor_bytes),
        "share": round(100 * b.peak / max(b.tensor_bytes, 1), 1),
    }


def _causes(plan: GraphPlan) -> list[dict[str, Any]]:
    counts = Counter(n.cause for n in plan.splits.nodes)
    return [
        {"name": c or "none", "key": cause_class(c), "count": n, "text": explain_cause(c)}
        for c, n in counts.most_common()
    ]


def _ops(plan: GraphPlan) -> list[dict[str, Any]]:
    most = max((r.nbytes for r in plan.ops.rows), default=1) or 1
    return [
        {
            **asdict(r),
            "backend": plan.splits.backends[r.backend].name,
            "colour": backend_colour(plan, r.backend),
            "bytes": nbytes_text(r.nbytes),
            "share": round(100 * r.nbytes / most, 1),
        }
        for r in plan.ops.rows
    ]


def _tiles(plan: GraphPlan) -> list[dict[str, str]]:
    memory, splits = plan.memory, plan.splits
    peak = sum(b.peak for b in memory.buffers)
    total = sum(b.tensor_bytes for b in memory.buffers)
    computing = sum(not n.is_view for n in splits.nodes)
    tiles = [
        {
            "label": "compute memory at its peak",
            "value": nbytes_text(peak),
            "note": f"{100 * peak / max(total, 1):.1f} % of the {nbytes_text(total)} that all "
            "tensors are together",
        },
        {
            "label": "nodes",
            "value": f"{len(splits.nodes)}",
            "note": f"{computing} compute, {len(splits.nodes) - computing} are views",
        },
        {
            "label": "splits",
            "value": f"{len(splits.splits)}",
            "note": f"{len(splits.copies)} copies, {nbytes_text(splits.copied_bytes)} each run",
        },
    ]
    for what in dict.fromkeys(f.what for f in plan.fixed):
        parts = [f for f in plan.fixed if f.what == what]
        where = ", ".join(
            f"{splits.backends[f.backend].name} {nbytes_text(f.nbytes)}" for f in parts
        )
        total = sum(f.nbytes for f in parts)
        tiles.append({"label": what, "value": nbytes_text(total), "note": where})
    return tiles
