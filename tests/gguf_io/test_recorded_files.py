"""Real files: tiny models and vocabularies of the recorded data, the known models if present."""

from __future__ import annotations

import collections
import hashlib
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from wggml.gguf_io import open_gguf
from wggml.hub import KNOWN_MODELS, cache_dir


def test_tiny_models_hold_what_their_index_says(shared_dir: Path, tmp_path: Path) -> None:
    folder = shared_dir / "oracle" / "llm" / "tiny"
    for model in json.loads((folder / "index.json").read_text(encoding="utf-8")):
        content = lzma.decompress((folder / f"{model['name']}.gguf.xz").read_bytes())
        assert hashlib.sha256(content).hexdigest() == model["sha256"]
        path = tmp_path / "m.gguf"
        path.write_bytes(content)
        with open_gguf(path) as f:
            assert f.architecture == model["arch"]
            types = collections.Counter(t.type.name for t in f.tensors.values())
            assert types == model["types"], model["name"]
            for key, want in model["kv"].items():
                got = f.kv[key]
                assert (got.tolist() if isinstance(got, np.ndarray) else got) == want, key
            assert all(np.isfinite(f.read_f32(name)).all() for name in f.tensors)


@pytest.mark.parametrize("name", ["ggml-vocab-llama-spm", "ggml-vocab-bert-bge"])
def test_vocabularies_read_as_the_gguf_package_reads_them(shared_dir: Path, name: str) -> None:
    from gguf import GGUFReader

    path = shared_dir / "oracle" / "vocab" / f"{name}.gguf"
    theirs = GGUFReader(path)
    with open_gguf(path) as f:
        ours = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in f.kv.items()}
    expected = {k: v.contents() for k, v in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours == expected


@pytest.mark.parametrize(
    ("model", "n_tensors", "n_tokens"), [("smollm2", 272, 49152), ("gemma3-270m", 236, 262144)]
)
def test_known_models_open_without_decoding(model: str, n_tensors: int, n_tokens: int) -> None:
    path = cache_dir() / KNOWN_MODELS[model].filename
    if not path.is_file():
        pytest.skip(f"{path} is not there; `tools/get_models.py {model}` brings it")
    with open_gguf(path) as f:
        assert f.kv._cache == {}
        assert f.n_tensors == n_tensors
        assert f.kv.entry("tokenizer.ggml.tokens").count == n_tokens
        assert len(f.kv["tokenizer.ggml.tokens"]) == n_tokens
        last = max(f.tensors.values(), key=lambda t: t.offset)
        assert last.offset + last.nbytes <= path.stat().st_size
