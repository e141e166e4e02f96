"""Golden operator cases: read them and build them as tensors (`opcases` runs them).

The format is that of the operator golden data recorded from ggml: `<OP>[.<k>].npz` files with two
uint8 arrays, `meta` (JSON) and `blob` (contents that the JSON points into).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type, type_from_name
from wggml.errors import ShapeError

Bytes = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]


@dataclass(slots=True)
class TensorRecord:
    """One tensor of a case; `data` is (offset, length) in the case's blob, for leafs only."""

    id: int
    name: str
    op: Op
    type: Type
    flags: int
    ne: tuple[int, int, int, int]
    nb: tuple[int, int, int, int]
    op_params: bytes
    src: list[int | None]
    view_src: int | None
    view_offs: int
    data: tuple[int, int] | None


@dataclass(slots=True)
class OutputRecord:
    """A stored result; only `compared` ones count."""

    id: int
    data: tuple[int, int]
    compared: bool
    self_err: float


@dataclass(slots=True)
class OpCase:
    """One recorded case. `tensors` holds leafs, then nodes in execution order."""

    id: str
    op: str
    vars: str
    origin: str
    metric: str
    max_err: float
    whole_graph: bool
    final: int
    tensors: list[TensorRecord]
    outputs: list[OutputRecord]
    blob: Bytes

    def bytes_at(self, place: tuple[int, int]) -> Bytes:
        """The stored bytes at (offset, length)."""
        return self.blob[place[0] : place[0] + place[1]]

    def __str__(self) -> str:
        return f"{self.id} [{self.vars}]"


@dataclass(slots=True)
class BuiltCase:
    """A case as core records: `tensors[i]` is the record with id i."""

    case: OpCase
    ctx: Context
    tensors: list[Tensor]
    graph: Graph

    @property
    def roots(self) -> list[Tensor]:
        """Tensors that own memory."""
        return [t for t in self.tensors if t.view_src is None]


def iter_cases(
    directory: str | Path, op_regex: str | None = None, case_regex: str | None = None
) -> Iterator[OpCase]:
    """Cases of every file in `directory`, in file order.

    `op_regex` must match a case's whole op name (`MUL_MAT`, `SILU`, `RMS_NORM_MUL_ADD`);
    `case_regex` is searched in `"<id> <vars>"`. Raises `ShapeError` when the directory has no
    case files.
    """
    for path in case_files(directory):
        with np.load(path) as z:
            meta = json.loads(z["meta"].tobytes())
            wanted = [c for c in meta["cases"] if _matches(c, op_regex, case_regex)]
            blob = z["blob"] if wanted else None
        for record in wanted:
            assert blob is not None
            yield _read_case(record, blob)


def case_files(directory: str | Path) -> list[Path]:
    """The case files of a folder in order; `ShapeError` when there is none."""
    files = sorted(p for p in Path(directory).glob("*.npz") if p.stem != "quants")
    if not files:
        raise ShapeError(f"no operator case files (*.npz) in {directory}")
    return files


def _matches(c: dict[str, Any], op_regex: str | None, case_regex: str | None) -> bool:
    if op_regex is not None and re.fullmatch(op_regex, c["op"]) is None:
        return False
    return case_regex is None or re.search(case_regex, f"{c['id']} {c['vars']}") is not None


def _read_case(c: dict[str, Any], blob: Bytes) -> OpCase:
    return OpCase(
        id=c["id"],
        op=c["op"],
        vars=c["vars"],
        origin=c["origin"],
        metric=c["metric"],
        max_err=float(c["max_err"]),
        whole_graph=bool(c["whole_graph"]),
        final=c["final"],
        tensors=[_read_tensor(t) for t in c["tensors"]],
        outputs=[
            OutputRecord(o["id"], tuple(o["data"]), bool(o["compared"]), o["self_err"])
            for o in c["outputs"]
        ],
        blob=blob,
    )


def _read_tensor(t: dict[str, Any]) -> TensorRecord:
    return TensorRecord(
        id=t["id"],
        name=t["name"],
        op=Op[t["op"]],
        type=type_from_name(t["type"]),
        flags=t["flags"],
        ne=tuple(t["ne"]),
        nb=tuple(t["nb"]),
        op_params=np.asarray(t["op_params"], np.int32).tobytes().ljust(64, b"\0"),
        src=list(t["src"]),
        view_src=t["view_src"],
        view_offs=t["view_offs"] or 0,
        data=tuple(t["data"]) if t.get("data") is not None else None,
    )


def build_case(case: OpCase) -> BuiltCase:
    """Tensors exactly as recorded, and a graph whose nodes are in the recorded order, all of them
    marked for computation. Nothing is placed yet."""
    ctx = Context(len(case.tensors) + 1, name=f"case {case.id}")
    tensors: list[Tensor] = []
    for r in case.tensors:
        t = Tensor(r.type, r.ne, r.nb, ctx=ctx)
        t.set_name(r.name)
        t.op, t.op_params, t.flags = r.op, r.op_params, r.flags
        tensors.append(t)
        ctx.tensors.append(t)
    graph = Graph(max(len(tensors), 1))
    for r, t in zip(case.tensors, tensors, strict=True):
        t.src = [None if s is None else tensors[s] for s in r.src]
        if r.view_src is not None:
            t.view_src, t.view_offs = tensors[r.view_src], r.view_offs
        for s in t.src:
            if s is not None:
                graph.use_counts[s] = graph.use_counts.get(s, 0) + 1
        graph.use_counts.setdefault(t, 0)
        if t.op == Op.NONE:
            graph.leafs.append(t)
        else:
            t.flags |= Flag.COMPUTE
            graph.nodes.append(t)
    return BuiltCase(case, ctx, tensors, graph)


def read_values(raw: Bytes, t: Tensor | TensorRecord) -> F64:
    """Values of `t` from the bytes of its span, as float64 [i3, i2, i1, i0]."""
    shape = (t.ne[3], t.ne[2], t.ne[1], t.ne[0])
    if 0 in shape:
        return np.zeros(shape)
    traits = TRAITS[t.type]
    raw = np.ascontiguousarray(raw)
    if traits.dtype is None:
        from wggml.quants import dequantize_rows

        row = t.ne[0] // traits.blck_size * traits.type_size
        strides = (t.nb[3], t.nb[2], t.nb[1], 1)
        rows = np.ndarray((*shape[:3], row), np.uint8, buffer=raw, strides=strides)
        return dequantize_rows(rows, t.type).astype(np.float64)
    a = np.ndarray(shape, traits.dtype, buffer=raw, strides=t.nb[::-1])
    if t.type == Type.BF16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def is_real(t: Tensor) -> bool:
    """True for nodes that compute something (views and leafs do not)."""
    return t.op not in EMPTY_OPS
