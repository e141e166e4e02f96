"""Make `tests/data/ops`: a small selection of the recorded operator cases, in the same format.

    python tests/testing/select_ops.py /path/to/oracle/ops

From each op the smallest cases are taken that bring in an operand-type combination, a layout or a
kind of parameter set not seen before, up to a number of cases and bytes an op.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).resolve().parent.parent / "data" / "ops"
CASES_PER_OP = 12
BYTES_PER_OP = 48 * 1024
ALIGN = 64


def traits(case: dict[str, Any]) -> set[object]:
    """What a case shows: types, layouts, sub-ops, and which optional operands are there."""
    tensors = case["tensors"]
    shown: set[object] = {("metric", case["metric"]), ("whole", case["whole_graph"])}
    for t in tensors:
        if t["op"] == "NONE":
            continue
        types = tuple(None if s is None else tensors[s]["type"] for s in t["src"])
        shown.add((t["op"], t.get("sub_op"), types, t["type"]))
        shown.add((t["op"], "view", t["view_src"] is None))
        for s in t["src"]:
            if s is not None:
                nb = tensors[s]["nb"]
                shown.add((t["op"], "permuted", nb != sorted(nb)))
                repeats = [a != b for a, b in zip(tensors[s]["ne"], t["ne"], strict=True)]
                shown.add((t["op"], "shape", tuple(repeats)))
    return shown


def stored_bytes(case: dict[str, Any]) -> int:
    places = [t["data"] for t in case["tensors"] if t.get("data")]
    places += [o["data"] for o in case["outputs"]]
    return sum(p[1] for p in places)


def choose(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[object] = set()
    chosen, used = [], 0
    for case in sorted(cases, key=lambda c: (stored_bytes(c), c["id"])):
        shown = traits(case)
        size = stored_bytes(case)
        if shown <= seen or (chosen and used + size > BYTES_PER_OP):
            continue
        seen |= shown
        used += size
        chosen.append(case)
        if len(chosen) == CASES_PER_OP:
            break
    return chosen


def repacked(case: dict[str, Any], blob: np.ndarray, parts: list[bytes]) -> dict[str, Any]:
    """The case with its contents moved to the end of `parts`."""

    def move(place: list[int]) -> list[int]:
        at = sum(map(len, parts))
        raw = blob[place[0] : place[0] + place[1]].tobytes()
        parts.append(raw + b"\0" * (-len(raw) % ALIGN))
        return [at, place[1]]

    case = json.loads(json.dumps(case))
    for t in case["tensors"]:
        if t.get("data"):
            t["data"] = move(t["data"])
    for o in case["outputs"]:
        o["data"] = move(o["data"])
    return case


def main(source: str) -> None:
    by_op: dict[str, list[tuple[dict[str, Any], np.ndarray]]] = {}
    for path in sorted(Path(source).glob("*.npz")):
        if path.stem == "quants":
            continue
        with np.load(path) as z:
            meta, blob = json.loads(z["meta"].tobytes()), z["blob"]
        for case in meta["cases"]:
            by_op.setdefault(case["op"], []).append((case, blob))
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.npz"):
        old.unlink()
    for op, found in sorted(by_op.items()):
        blobs = {case["id"]: blob for case, blob in found}
        parts: list[bytes] = []
        chosen = [repacked(c, blobs[c["id"]], parts) for c in choose([c for c, _ in found])]
        meta = json.dumps({"op": op, "ggml": "0.25.3", "cases": chosen}, separators=(",", ":"))
        np.savez_compressed(
            OUT / f"{op}.npz",
            meta=np.frombuffer(meta.encode(), np.uint8),
            blob=np.frombuffer(b"".join(parts), np.uint8),
        )
        print(f"{op:32} {len(chosen):3} of {len(found)}")


if __name__ == "__main__":
    main(sys.argv[1])
