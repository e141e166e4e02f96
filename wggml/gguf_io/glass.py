"""GlassLM checkpoints (PyPI `glassllm`) -> GGUF of architecture `llama`.

A 0.85M-parameter model: matrices stored (in, out), rotary pairs adjacent (as ggml's llama has
them, so nothing is permuted), the embedding doubling as output matrix, and a character BPE whose
merges, ranked, are exactly what a SentencePiece-style vocabulary with scores expresses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wggml.errors import GGUFError
from wggml.gguf_io.constants import ValueType
from wggml.gguf_io.writer import write_gguf

_SPECIALS = ("<pad>", "<unk>", "<bos>", "<eos>")
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # `tokenizer.ggml.token_type`

# Checkpoint name within a block -> (GGUF name, whether it is a matrix to transpose).
_BLOCK_TENSORS: dict[str, tuple[str, bool]] = {
    "norm1.gamma": ("attn_norm", False),
    "attn.W_Q": ("attn_q", True),
    "attn.W_K": ("attn_k", True),
    "attn.W_V": ("attn_v", True),
    "attn.W_O": ("attn_output", True),
    "norm2.gamma": ("ffn_norm", False),
    "ffn.W1": ("ffn_gate", True),
    "ffn.W3": ("ffn_up", True),
    "ffn.W2": ("ffn_down", True),
}
_FILE_TYPES = {"f32": 0, "f16": 1}  # `general.file_type`


def convert_glass(
    npz_path: str | Path,
    tokenizer_json_path: str | Path,
    out_path: str | Path,
    dtype: Literal["f16", "f32"] = "f16",
) -> None:
    """Convert `weights/{en,pt}.npz` with its tokenizer file; matrices become `dtype`, norms f32.

    Raises `GGUFError` when the inputs are not a GlassLM checkpoint.
    """
    if dtype not in _FILE_TYPES:
        raise GGUFError(f"convert_glass: dtype {dtype!r} is not known; choose 'f16' or 'f32'")
    weights, config = _load(Path(npz_path))
    tokens, n_base = _tokens(Path(tokenizer_json_path))
    if len(tokens) != config["vocab_size"]:
        raise GGUFError(
            f"{tokenizer_json_path} has {len(tokens)} tokens, {npz_path} was trained with "
            f"{config['vocab_size']}: these two do not belong together"
        )
    n_ff = _take(weights, "blocks.0.ffn.W1").shape[1]
    kv = {
        **_model_kv(config, n_ff, Path(npz_path).stem, _FILE_TYPES[dtype]),
        **_vocab_kv(tokens, n_base),
    }
    write_gguf(out_path, kv, _tensors(weights, config["n_layers"], dtype))


def _load(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    try:
        with np.load(path) as file:
            weights = {name: file[name] for name in file.files if name != "__config__"}
            config = json.loads(str(file["__config__"]))
    except (OSError, ValueError, KeyError) as e:
        raise GGUFError(f"{path} is no GlassLM checkpoint (.npz with __config__): {e}") from e
    return weights, config


def _tokens(path: Path) -> tuple[list[str], int]:
    """All tokens in id order, and how many of them are specials and single characters."""
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
        base = [*_SPECIALS, *file["alphabet"]]
        return base + [left + right for left, right in file["merges"]], len(base)
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise GGUFError(f"{path} is no GlassLM tokenizer (JSON with alphabet, merges): {e}") from e


def _model_kv(config: dict[str, Any], n_ff: int, name: str, file_type: int) -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "general.name": f"glassllm-{name}",
        "general.license": "mit",
        "llama.block_count": config["n_layers"],
        "llama.context_length": config["max_len"],
        "llama.embedding_length": config["d_model"],
        "llama.feed_forward_length": n_ff,
        "llama.attention.head_count": config["n_heads"],
        "llama.attention.head_count_kv": config["n_kv_heads"],
        "llama.rope.freq_base": float(config["rope_base"]),
        "llama.rope.dimension_count": config["d_model"] // config["n_heads"],
        "llama.attention.layer_norm_rms_epsilon": float(config["eps"]),
        "llama.vocab_size": config["vocab_size"],
        "general.file_type": file_type,
    }


def _vocab_kv(tokens: list[str], n_base: int) -> dict[str, Any]:
    # a merge's rank becomes a falling score: the earlier learnt pair is joined first
    scores = np.zeros(len(tokens), np.float32)
    scores[n_base:] = -np.arange(1, len(tokens) - n_base + 1, dtype=np.float32)
    types = np.full(len(tokens), _NORMAL, np.int32)
    types[: len(_SPECIALS)] = (_CONTROL, _UNKNOWN, _CONTROL, _CONTROL)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": (ValueType.ARRAY, tokens),
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": _SPECIALS.index("<bos>"),
        "tokenizer.ggml.eos_token_id": _SPECIALS.index("<eos>"),
        "tokenizer.ggml.unknown_token_id": _SPECIALS.index("<unk>"),
        "tokenizer.ggml.padding_token_id": _SPECIALS.index("<pad>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


def _tensors(
    weights: dict[str, npt.NDArray[Any]], n_layers: int, dtype: str
) -> dict[str, npt.NDArray[Any]]:
    matrix_type = np.float16 if dtype == "f16" else np.float32
    out = {"token_embd.weight": _take(weights, "E").astype(matrix_type)}
    for i in range(n_layers):
        for name, (gguf_name, is_matrix) in _BLOCK_TENSORS.items():
            w = _take(weights, f"blocks.{i}.{name}")
            out[f"blk.{i}.{gguf_name}.weight"] = (
                w.T.astype(matrix_type) if is_matrix else w.astype(np.float32)
            )
    out["output_norm.weight"] = _take(weights, "norm_f.gamma").astype(np.float32)
    return out


def _take(weights: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if name not in weights:
        raise GGUFError(f"the checkpoint has no array {name!r}; it has {', '.join(weights)[:200]}")
    return weights[name]
