"""Seeing what the engine does: plans of memory and splits, timelines, differences between devices.

`plan(graph, sched)` plans any graph without computing it; `snapshot(sched)` is what a scheduler
planned last. Both give a `GraphPlan`: plain data, drawn by `wggml plan` and by windows.
"""

from wggml.inspect.data import (
    BEFORE,
    BackendInfo,
    Chunk,
    Copy,
    FixedMemory,
    GraphPlan,
    MemoryBuffer,
    MemoryMap,
    Node,
    OpRow,
    OpTable,
    Rect,
    SplitInfo,
    SplitMap,
    explain_cause,
)
from wggml.inspect.take import plan, plan_context, snapshot, snapshot_context

__all__ = [
    "BEFORE", "BackendInfo", "Chunk", "Copy", "FixedMemory", "GraphPlan", "MemoryBuffer",
    "MemoryMap", "Node", "OpRow", "OpTable", "Rect", "SplitInfo", "SplitMap", "explain_cause",
    "plan", "plan_context", "snapshot", "snapshot_context",
]  # fmt: skip
