"""Every node of the recorded operator cases, without contents, packed small.

python -m tests.core.op_nodes DIR    writes tests/data/op_nodes.json.xz from recorded cases
"""

from __future__ import annotations

import json
import lzma
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.testing.opdata import OpCase, iter_cases

FILE = Path(__file__).resolve().parent.parent / "data" / "op_nodes.json.xz"
PackedCase = list[Any]  # [case id, [[op, type, ne, nb, params, src, view_src, view_offs, flags]]]


def pack_case(case: OpCase) -> PackedCase:
    tensors = []
    for r in case.tensors:
        params = list(struct.unpack("<16i", r.op_params))
        while params and params[-1] == 0:
            params.pop()
        tensors.append(
            [r.op.name, r.type.name, list(r.ne), list(r.nb), params, r.src, r.view_src,
             r.view_offs, r.flags]
        )  # fmt: skip
    return [case.id, tensors]


def build(packed: PackedCase) -> list[Tensor]:
    """The tensors of a case exactly as recorded."""
    _, records = packed
    ctx = Context(len(records))
    tensors = []
    for op, type_, ne, nb, params, _src, _view_src, _view_offs, flags in records:
        t = Tensor(Type[type_], tuple(ne), tuple(nb), ctx=ctx)
        t.op, t.flags = Op[op], flags
        t.op_params = struct.pack(f"<{len(params)}i", *params).ljust(64, b"\0")
        tensors.append(t)
    for t, r in zip(tensors, records, strict=True):
        t.src = [None if i is None else tensors[i] for i in r[5]]
        if r[6] is not None:
            t.view_src, t.view_offs = tensors[r[6]], r[7]
    return tensors


def read() -> list[PackedCase]:
    cases: list[PackedCase] = json.loads(lzma.decompress(FILE.read_bytes()))
    return cases


def pack_all(directory: str | Path) -> Iterator[PackedCase]:
    return (pack_case(c) for c in iter_cases(directory))


if __name__ == "__main__":
    text = json.dumps(list(pack_all(sys.argv[1])), separators=(",", ":"))
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
