"""A node of a running graph as an operator case: its inputs' bytes, and what NumPy makes of them.

    inputs = capture_inputs(node)                 # before the node runs
    ...                                           # the device runs it
    case = capture_case(node, inputs=inputs)
    write_cases("bad", [case])                    # wggml test-ops --cases bad -b DEVICE

Inputs taken after the run serve as well, unless the node writes into one of them or their memory
has been used again since.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_name
from wggml.errors import AllocationError, ShapeError
from wggml.hal.interface import Backend
from wggml.hal.registry import default_registry
from wggml.testing.opcases import compute_outputs
from wggml.testing.opdata import Bytes, OpCase, is_real
from wggml.testing.placing import read_bytes
from wggml.testing.record import record_graph, with_outputs, write_cases

__all__ = ["capture_case", "capture_inputs", "node_tolerance", "op_display_name", "write_cases"]

Inputs = Mapping[Tensor, Bytes]


def op_display_name(node: Tensor) -> str:
    """The name a case of this node goes by: its op, or the function of UNARY and GLU nodes."""
    if node.op == Op.UNARY:
        return node.unary_op.name
    return node.glu_op.name if node.op == Op.GLU else node.op.name


@dataclass(frozen=True, slots=True)
class _Memory:
    """What of one root the case stores: the root itself, or only the window of its one user."""

    root: Tensor
    stored: Tensor


def _memories(node: Tensor) -> list[_Memory]:
    windows: dict[Tensor, list[Tensor]] = {}
    for t in (*node.src, node if node.view_src is not None else None):
        if t is None or (t is node and node.view_src is None):
            continue
        seen = windows.setdefault(t.view_src or t, [])
        if not any(t.same_layout(o) and t.view_offs == o.view_offs for o in seen):
            seen.append(t)
    return [_Memory(root, ts[0] if len(ts) == 1 else root) for root, ts in windows.items()]


def capture_inputs(node: Tensor) -> dict[Tensor, Bytes]:
    """Bytes of all that `node` reads, to be called before it runs: by source, or by the root of
    sources that share one. Raises `AllocationError` when a source has no memory."""
    found: dict[Tensor, Bytes] = {}
    for memory in _memories(node):
        t = memory.stored
        if t.placed_in is None:
            raise AllocationError(
                f"cannot capture {node.name!r}: its source {t.name!r} has no memory (yet, or any "
                "more); call this from an evaluation callback"
            )
        found[t] = read_bytes(t)
    return found


def capture_case(
    node: Tensor,
    *,
    inputs: Inputs | None = None,
    reference: Bytes | Backend | None = None,
    id: str | None = None,
    metric: str = "nmse",
    max_err: float | None = None,
) -> OpCase:
    """A case of this one node.

    `inputs` come from `capture_inputs` (default: read now). `reference` is the right result, as
    bytes of the node's span, or a backend that computes it (default: NumPy). `max_err` defaults to
    5e-4 for products and attention, whose sums may be taken in any order, and 1e-6 otherwise.
    Raises `ShapeError` for a node that computes nothing.
    """
    if not is_real(node):
        raise ShapeError(f"{node.name!r} is a {node.op.name}: it computes nothing to capture")
    op = op_display_name(node)
    leafs, nodes, contents = _copy(node, capture_inputs(node) if inputs is None else inputs)
    case = record_graph(
        leafs, nodes, contents, id=id or f"{op}/{node.name or 'captured'}", op=op,
        vars=_vars(node), metric=metric, origin="captured",
        max_err=node_tolerance(node) if max_err is None else max_err,
    )  # fmt: skip
    if reference is None or isinstance(reference, Backend):
        backend = reference or default_registry().cpu().init_backend()
        try:
            return with_outputs(case, compute_outputs(case, backend, [case.final]))
        finally:
            if reference is None:
                backend.close()
    return with_outputs(case, {case.final: reference})


def _copy(node: Tensor, inputs: Inputs) -> tuple[list[Tensor], list[Tensor], dict[Tensor, Bytes]]:
    """Leafs, nodes and contents: the node and its sources anew, each window with its root."""
    ctx = Context(2 * len(node.src) + 4, name=f"capture of {node.name}")
    memories = {m.root: m for m in _memories(node)}
    leafs = {root: _fresh(ctx, m.stored) for root, m in memories.items()}
    contents = {leafs[root]: inputs[m.stored] for root, m in memories.items()}
    copy = _fresh(ctx, node)
    copy.op, copy.op_params = node.op, node.op_params
    made = {node: copy}
    for s in node.src:
        if s is None or s in made:
            continue
        root = s.view_src or s
        made[s] = leafs[root]
        if s is not root and memories[root].stored is root:
            made[s] = view = _fresh(ctx, s)
            view.view_src, view.view_offs = leafs[root], s.view_offs
            view.op, view.src, view.op_params = Op.VIEW, [leafs[root]], _offset(s.view_offs)
    copy.src = [None if s is None else made[s] for s in node.src]
    if node.view_src is not None:
        copy.view_src = leafs[node.view_src]
        copy.view_offs = node.view_offs if memories[node.view_src].stored is node.view_src else 0
    views = [t for t in made.values() if t.op == Op.VIEW]
    return list(contents), [*views, copy], contents


def _offset(nbytes: int) -> bytes:
    """op_params of a VIEW."""
    return struct.pack("<Q", nbytes).ljust(64, b"\0")


def _fresh(ctx: Context, t: Tensor) -> Tensor:
    copy = Tensor(t.type, t.ne, t.nb, ctx=ctx).set_name(t.name)
    ctx.tensors.append(copy)
    copy.flags = t.flags
    return copy


def _vars(node: Tensor) -> str:
    def shown(t: Tensor) -> str:
        dense = "" if t.is_contiguous() else f"/nb={list(t.nb)}".replace(" ", "")
        return f"{type_name(t.type)}{list(t.ne)}".replace(" ", "") + dense

    operands = [f"src{i}={shown(s)}" for i, s in enumerate(node.src) if s is not None]
    return ",".join([f"dst={shown(node)}", *operands])


SUMS = frozenset({Op.MUL_MAT, Op.MUL_MAT_ID, Op.FLASH_ATTN_EXT, Op.OUT_PROD, Op.CONV_2D, Op.CONV_3D,
                  Op.CONV_TRANSPOSE_2D})  # fmt: skip


def node_tolerance(node: Tensor) -> float:
    """The error that a captured node may have: sums may be taken in any order."""
    if TRAITS[node.type].is_quantized:
        return 1e-3
    if node.op in SUMS:
        return 5e-4
    return 1e-6 if node.type == Type.F32 else 1e-5
