"""The GlassLM converter: a made-up checkpoint by structure, the real one by its logits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wggml.core.types import Type
from wggml.errors import GGUFError
from wggml.gguf_io import GGUFFile, open_gguf
from wggml.gguf_io.glass import convert_glass
from wggml.hub import KNOWN_MODELS, cache_dir

D, FF, HEADS, KV_HEADS, LAYERS, VOCAB = 8, 21, 2, 1, 2, 9


@pytest.fixture
def checkpoint(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    kv_width = D // HEADS * KV_HEADS
    shapes = {
        "norm1.gamma": (D,), "attn.W_Q": (D, D), "attn.W_K": (D, kv_width),
        "attn.W_V": (D, kv_width), "attn.W_O": (D, D), "norm2.gamma": (D,),
        "ffn.W1": (D, FF), "ffn.W3": (D, FF), "ffn.W2": (FF, D),
    }  # fmt: skip
    arrays = {"E": (VOCAB, D), "norm_f.gamma": (D,)}
    for i in range(LAYERS):
        arrays |= {f"blocks.{i}.{name}": shape for name, shape in shapes.items()}
    config = {
        "vocab_size": VOCAB, "d_model": D, "n_layers": LAYERS, "n_heads": HEADS,
        "n_kv_heads": KV_HEADS, "max_len": 16, "rope_base": 10000.0, "eps": 1e-6,
    }  # fmt: skip
    np.savez(
        tmp_path / "xx.npz",
        __config__=np.array(json.dumps(config)),
        **{name: rng.standard_normal(shape).astype(np.float16) for name, shape in arrays.items()},
    )
    tokenizer = {"alphabet": ["a", "b", "▁"], "merges": [["a", "b"], ["▁", "ab"]]}
    (tmp_path / "xx.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return tmp_path / "xx.npz", tmp_path / "xx.json"


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_structure(tmp_path: Path, checkpoint: tuple[Path, Path], dtype: str) -> None:
    out = tmp_path / "m.gguf"
    convert_glass(*checkpoint, out, dtype)
    with np.load(checkpoint[0]) as weights, open_gguf(out) as f:
        assert f.architecture == "llama"
        assert f.arch_get("feed_forward_length") == FF
        assert f.arch_get("rope.dimension_count") == D // HEADS
        assert f.kv["tokenizer.ggml.tokens"][-2:] == ["ab", "▁ab"]
        assert f.kv["tokenizer.ggml.scores"].tolist() == [0] * 7 + [-1, -2]
        assert f.kv["tokenizer.ggml.token_type"].tolist() == [3, 2, 3, 3] + [1] * 5
        assert f.n_tensors == 2 + 9 * LAYERS
        down = f.tensors["blk.1.ffn_down.weight"]
        assert down.type == Type[dtype.upper()]
        assert down.ne[:2] == (FF, D)
        np.testing.assert_array_equal(f.read_f32(down), weights["blocks.1.ffn.W2"].T)
        assert f.tensors["output_norm.weight"].type == Type.F32
        np.testing.assert_array_equal(f.read_f32("token_embd.weight"), weights["E"])


def test_refusals(tmp_path: Path, checkpoint: tuple[Path, Path]) -> None:
    npz, tokenizer = checkpoint
    out = tmp_path / "m.gguf"
    with pytest.raises(GGUFError, match="no GlassLM checkpoint"):
        convert_glass(tokenizer, tokenizer, out)
    with pytest.raises(GGUFError, match="no GlassLM tokenizer"):
        convert_glass(npz, npz, out)
    with pytest.raises(GGUFError, match="'f16' or 'f32'"):
        convert_glass(npz, tokenizer, out, "q4_0")  # type: ignore[arg-type]
    tokenizer.write_text(json.dumps({"alphabet": ["a"], "merges": []}), encoding="utf-8")
    with pytest.raises(GGUFError, match=r"has 5 tokens.*do not belong together"):
        convert_glass(npz, tokenizer, out)
    assert not out.exists()


def _norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def _rope(x: np.ndarray, base: float) -> np.ndarray:
    """Rotate neighbouring pairs of x [heads, T, d]."""
    t, d = x.shape[1:]
    angle = np.arange(t)[:, None] * base ** (-np.arange(0, d, 2) / d)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def _llama(f: GGUFFile, ids: list[int]) -> np.ndarray:
    """Logits [T, vocabulary] of a small llama, in f64."""
    heads, kv_heads = f.arch_get("attention.head_count"), f.arch_get("attention.head_count_kv")
    eps = f.arch_get("attention.layer_norm_rms_epsilon")
    w = {name: f.read_f32(name).astype(np.float64) for name in f.tensors}
    x = w["token_embd.weight"][ids]
    t = len(ids)
    masked = np.triu(np.full((t, t), -np.inf), 1)
    for i in range(f.arch_get("block_count")):
        b = {n.split(".")[2]: v for n, v in w.items() if n.startswith(f"blk.{i}.")}
        h = _norm(x, b["attn_norm"], eps)
        q, k, v = (
            (h @ b[n].T).reshape(t, count, -1).transpose(1, 0, 2)
            for n, count in (("attn_q", heads), ("attn_k", kv_heads), ("attn_v", kv_heads))
        )
        base = f.arch_get("rope.freq_base")
        q, k = _rope(q, base), np.repeat(_rope(k, base), heads // kv_heads, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + masked
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        mixed = p @ np.repeat(v, heads // kv_heads, axis=0)
        x = x + mixed.transpose(1, 0, 2).reshape(t, -1) @ b["attn_output"].T
        h = _norm(x, b["ffn_norm"], eps)
        gate = h @ b["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ b["ffn_up"].T)) @ b["ffn_down"].T
    return _norm(x, w["output_norm.weight"], eps) @ w["token_embd.weight"].T


@pytest.mark.parametrize(("model", "folder"), [("glass", "glass-en"), ("glass-pt", "glass-pt")])
def test_converted_model_gives_the_recorded_logits(
    shared_dir: Path, model: str, folder: str
) -> None:
    """The route `f32` of the record: the weights are f16 numbers, so an F16 file loses nothing."""
    path = cache_dir() / KNOWN_MODELS[model].filename
    if not path.is_file():
        pytest.skip(f"{path} is not there; `tools/get_models.py {model}` brings it")
    recorded = shared_dir / "oracle" / "llm" / folder
    prompts = json.loads((recorded / "prompts.json").read_text(encoding="utf-8"))
    with open_gguf(path) as f, np.load(recorded / "f32.npz") as want:
        assert len(f.kv["tokenizer.ggml.tokens"]) == prompts["n_vocab"]
        for prompt in prompts["prompts"]:
            logits = _llama(f, prompt["tf_ids"])
            top = want[f"{prompt['name']}/top_ids"]
            got = np.take_along_axis(logits, top, axis=1)
            np.testing.assert_allclose(got, want[f"{prompt['name']}/top_logits"], atol=1e-3)
            np.testing.assert_array_equal(logits.argmax(1), top[:, 0])
