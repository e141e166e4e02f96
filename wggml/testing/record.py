"""Graphs and their contents as `OpCase` records, and such records as files.

`record_graph` is the way in (cases of the built-in table, nodes captured from a running model),
`write_cases` the way out: the files have the format that `opdata.iter_cases` reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wggml.core.opcodes import Op, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, type_name
from wggml.errors import ShapeError
from wggml.testing.opdata import Bytes, OpCase, OutputRecord, TensorRecord

ALIGN = 64  # of contents in a blob
FORMAT_VERSION = "wggml"


class Blob:
    """Contents one after the other; equal ones are stored once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._known: dict[bytes, tuple[int, int]] = {}

    def add(self, data: Bytes | bytes) -> tuple[int, int]:
        """(offset, length) of `data`."""
        raw = bytes(data) if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
        if raw not in self._known:
            self._known[raw] = (self.size, len(raw))
            padded = raw + b"\0" * (-len(raw) % ALIGN)
            self.parts.append(padded)
            self.size += len(padded)
        return self._known[raw]

    def array(self) -> Bytes:
        return np.frombuffer(b"".join(self.parts), np.uint8)


def record_graph(
    leafs: Sequence[Tensor],
    nodes: Sequence[Tensor],
    contents: Mapping[Tensor, Bytes],
    *,
    id: str,
    op: str,
    vars: str,
    metric: str = "nmse",
    max_err: float = 1e-7,
    whole_graph: bool = False,
    origin: str = "builtin",
) -> OpCase:
    """A case without outputs: the tensors as they are, with `contents` (the bytes of its span) of
    every leaf that owns memory. `nodes` are in execution order, the last one is the result.

    Raises `ShapeError` when contents are missing or of another size, or a source is not among the
    tensors.
    """
    tensors = [*leafs, *nodes]
    index = {t: i for i, t in enumerate(tensors)}
    blob = Blob()
    records = [_record(t, index, contents, blob) for t in tensors]
    return OpCase(
        id=id, op=op, vars=vars, origin=origin, metric=metric, max_err=max_err,
        whole_graph=whole_graph, final=len(tensors) - 1, tensors=records, outputs=[],
        blob=blob.array(),
    )  # fmt: skip


def _record(
    t: Tensor, index: Mapping[Tensor, int], contents: Mapping[Tensor, Bytes], blob: Blob
) -> TensorRecord:
    for s in (*t.src, t.view_src):
        if s is not None and s not in index:
            raise ShapeError(f"cannot record {t.name!r}: its source {s.name!r} is not in the graph")
    data = None
    if t.op == Op.NONE and t.view_src is None:
        if t not in contents or contents[t].nbytes != t.nbytes:
            has = contents[t].nbytes if t in contents else "no"
            raise ShapeError(f"leaf {t.name!r} of {t.nbytes} bytes has {has} bytes of contents")
        data = blob.add(contents[t])
    return TensorRecord(
        id=index[t], name=t.name or f"t{index[t]}", op=t.op, type=t.type, flags=t.flags, ne=t.ne,
        nb=t.nb, op_params=t.op_params, src=[None if s is None else index[s] for s in t.src],
        view_src=None if t.view_src is None else index[t.view_src], view_offs=t.view_offs,
        data=data,
    )  # fmt: skip


def with_outputs(case: OpCase, outputs: Mapping[int, Bytes]) -> OpCase:
    """The case with these reference bytes (tensor id -> bytes of its span), all compared."""
    blob = Blob()
    tensors = []
    for r in case.tensors:
        data = None if r.data is None else blob.add(case.bytes_at(r.data))
        tensors.append(replace(r, data=data))
    found = [OutputRecord(i, blob.add(raw), True, 0.0) for i, raw in outputs.items()]
    return replace(case, tensors=tensors, outputs=found, blob=blob.array())


# ---- files ------------------------------------------------------------------------------------


def write_cases(directory: str | Path, cases: Iterable[OpCase]) -> list[Path]:
    """Write the cases as `<OP>.npz` files and an `index.json`; the folder is made if need be and
    files of the same names are replaced. Returns the case files. `wggml test-ops --cases DIR` runs
    them.

    Raises `ShapeError` when there is no case or two have one id.
    """
    by_op: dict[str, list[OpCase]] = {}
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ShapeError(f"two cases have the id {case.id!r}; give each one of its own")
        seen.add(case.id)
        by_op.setdefault(case.op, []).append(case)
    if not by_op:
        raise ShapeError(f"no case to write to {directory}")
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths, index = [], []
    for op, group in by_op.items():
        blob = Blob()
        entries = [_case_entry(c, blob) for c in group]
        meta = json.dumps({"op": op, "ggml": FORMAT_VERSION, "cases": entries})
        path = folder / f"{op}.npz"
        np.savez_compressed(path, meta=np.frombuffer(meta.encode(), np.uint8), blob=blob.array())
        paths.append(path)
        index += [[c.id, path.name, c.vars, c.origin] for c in group]
    (folder / "index.json").write_text(json.dumps({"ggml": FORMAT_VERSION, "cases": index}))
    return paths


def _case_entry(case: OpCase, blob: Blob) -> dict[str, Any]:
    return {
        "id": case.id,
        "op": case.op,
        "vars": case.vars,
        "origin": case.origin,
        "metric": case.metric,
        "max_err": case.max_err,
        "whole_graph": case.whole_graph,
        "final": case.final,
        "tensors": [_tensor_entry(case, r, blob) for r in case.tensors],
        "outputs": [
            {
                "id": o.id,
                "data": blob.add(case.bytes_at(o.data)),
                "compared": o.compared,
                "self_err": o.self_err,
            }
            for o in case.outputs
        ],
    }


def _tensor_entry(case: OpCase, r: TensorRecord, blob: Blob) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": r.id,
        "name": r.name,
        "op": r.op.name,
        "type": type_name(r.type),
        "flags": r.flags,
        "nbytes": _nbytes(r),
        "ne": r.ne,
        "nb": r.nb,
        "op_params": np.frombuffer(r.op_params, np.int32).tolist(),
        "src": r.src,
        "view_src": r.view_src,
        "view_offs": r.view_offs,
    }
    if r.op == Op.UNARY:
        entry["sub_op"] = UnaryOp(int(np.frombuffer(r.op_params, np.int32)[0])).name
    if r.data is not None:
        entry["data"] = blob.add(case.bytes_at(r.data))
    return entry


def _nbytes(r: TensorRecord) -> int:
    assert r.type in TRAITS
    return Tensor(r.type, r.ne, r.nb).nbytes
