"""Reads language-model golden data (`llm/FORMAT.md`) and finds the model files it is about."""

from __future__ import annotations

import dataclasses
import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.errors import UsageError

# Directory of a real model -> (known model name, reference route, tensors as F32 on arrival)
REAL_MODELS: dict[str, tuple[str, str]] = {
    "smollm2-135m": ("smollm2", "f32deq"),
    "gemma3-270m": ("gemma3-270m", "f32deq"),
    "glass-en": ("glass", "f32"),
    "glass-pt": ("glass-pt", "f32"),
}


@dataclass(slots=True)
class Case:
    """One prompt: what is fed, and what the reference says at every position.

    `top_ids`, `top_logits`: [T, 8]; `lse`: [T]; `logits`: [T, n_vocab] or None. `first` is the
    position that row 0 belongs to. `greedy_margin[i]` belongs to `greedy_ids[i]`.
    """

    name: str
    tokens: list[int]
    n_prompt: int
    top_ids: npt.NDArray[np.int32]
    top_logits: npt.NDArray[np.float32]
    lse: npt.NDArray[np.float32]
    greedy_ids: list[int]
    greedy_margin: list[float]
    text: str | None = None
    ids_special: list[int] = field(default_factory=list)
    ids_plain: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class MultiSeq:
    """Sequences that must come out of one batch as if each ran alone, then one step of each."""

    seqs: list[list[int]]
    next_ids: list[int]
    logits: list[npt.NDArray[np.float32]]
    next_logits: list[npt.NDArray[np.float32]]


@dataclass(slots=True)
class Golden:
    """Everything recorded about one model. `tolerance` is the gate for an f32 KV cache."""

    name: str
    tolerance: float
    arch: str
    cases: list[Case]
    multi_seq: MultiSeq | None = None
    tokenize: list[dict[str, Any]] = field(default_factory=list)
    source: Path | None = None  # a tiny model's packed file


def read_golden(directory: str | Path, models: str = "") -> Iterator[Golden]:
    """Models in `directory` whose name matches `models` (whole name) and that have a route to
    compare with. Raises `UsageError` when the directory holds none."""
    root = Path(directory)
    wanted = re.compile(models or ".*")
    if not root.is_dir():
        raise UsageError(f"{root} is no directory; give one in the format of llm/FORMAT.md")
    names = [n for n in REAL_MODELS if (root / n / "prompts.json").is_file()]
    tiny = root / "tiny" / "index.json"
    if not names and not tiny.is_file():
        raise UsageError(f"{root} holds no language-model golden data (no */prompts.json)")
    for name in names:
        if wanted.fullmatch(name):
            yield _real(root / name, name)
    if tiny.is_file():
        for entry in _tiny_index(tiny):
            if entry["kind"] == "dec" and wanted.fullmatch(entry["name"]):
                yield _tiny(tiny.parent, entry)


def _tiny_index(path: Path) -> list[dict[str, Any]]:
    data = json.loads(path.read_text())
    entries: list[dict[str, Any]] = data if isinstance(data, list) else data["models"]
    return entries


def _real(folder: Path, name: str) -> Golden:
    known, route = REAL_MODELS[name]
    prompts = json.loads((folder / "prompts.json").read_text())["prompts"]
    results = {r["name"]: r for r in json.loads((folder / f"{route}.json").read_text())["results"]}
    z = np.load(folder / f"{route}.npz")
    cases = []
    for p in prompts:
        n = p["name"]
        cases.append(
            Case(
                n,
                p["tf_ids"],
                p["n_prompt"],
                z[f"{n}/top_ids"],
                z[f"{n}/top_logits"],
                z[f"{n}/lse"],
                results[n]["greedy_ids"],
                results[n]["greedy_margin"],
                text=p["text"],
                ids_special=p["ids_special"],
                ids_plain=p["ids_plain"],
                pieces=[bytes.fromhex(h) for h in p["pieces_hex"]],
            )
        )
    extra = folder / "tokenize.json"
    tokenize = _strings(json.loads(extra.read_text())) if extra.is_file() else []
    arch = "gemma3" if known.startswith("gemma3") else "llama"
    tolerance = 1e-3 if known.startswith("glass") else 5e-3
    return Golden(name, tolerance, arch, cases, tokenize=tokenize)


def _strings(data: Any) -> list[dict[str, Any]]:
    if isinstance(data, dict):
        data = next(v for v in data.values() if isinstance(v, list))
    return list(data)


def _tiny(folder: Path, entry: dict[str, Any]) -> Golden:
    name = entry["name"]
    meta = json.loads((folder / f"{name}.json").read_text())
    z = np.load(folder / f"{name}.npz")
    cases = []
    for c in meta["cases"]:
        n = c["name"]
        if f"{n}/logits" in z:
            top_ids, top_logits, lse = _top8(z[f"{n}/logits"])
        else:
            top_ids, top_logits, lse = z[f"{n}/top_ids"], z[f"{n}/top_logits"], z[f"{n}/lse"]
        cases.append(
            Case(
                n,
                c["tf_ids"],
                c["n_prompt"],
                top_ids,
                top_logits,
                lse,
                c["greedy_ids"],
                c["greedy_margin"],
            )
        )
    multi = None
    if meta.get("multi_seq"):
        m = meta["multi_seq"]
        k = len(m["seqs"])
        multi = MultiSeq(
            m["seqs"], m["next_ids"], [z[f"ms{i}/logits"] for i in range(k)],
            [z[f"ms{i}/next_logits"] for i in range(k)],
        )  # fmt: skip
    return Golden(name, 1e-3, entry["arch"], cases, multi, source=folder / f"{name}.gguf.xz")


def _top8(
    logits: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :8]
    wide = logits.astype(np.float64)
    top = wide.max(axis=1)
    lse = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    return ids.astype(np.int32), np.take_along_axis(logits, ids, 1), lse.astype(np.float32)


def model_file(golden: Golden, folder: Path) -> Path:
    """The GGUF file of a golden model: a tiny one is unpacked into `folder`, a real one fetched
    into the user's cache (glass with F32 tensors, as the reference had them)."""
    if golden.source is not None:
        path = folder / f"{golden.name}.gguf"
        path.write_bytes(lzma.decompress(golden.source.read_bytes()))
        return path
    from wggml.hub.catalogue import KNOWN_MODELS
    from wggml.hub.resolve import fetch_model

    model = KNOWN_MODELS[REAL_MODELS[golden.name][0]]
    if model.kind == "glass":
        model = dataclasses.replace(model, filename=f"{golden.name}-f32.gguf")
    return fetch_model(model, progress=True)
