"""Keys to hyper-parameters: what is read, what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from wggml.errors import ModelError
from wggml.models.architecture import architecture_class
from wggml.models.hparams import read_hparams

LLAMA: dict[str, Any] = {
    "llama.block_count": 2, "llama.embedding_length": 64, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.feed_forward_length": 96,
    "llama.context_length": 128, "llama.attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
GEMMA: dict[str, Any] = {
    **{k.replace("llama", "gemma3"): v for k, v in LLAMA.items()},
    "gemma3.block_count": 7, "gemma3.attention.sliding_window": 16,
}  # fmt: skip


def test_defaults():
    hp = read_hparams(LLAMA, "llama", 100)
    assert (hp.n_embd_head_k, hp.n_rot, hp.n_head_kv) == (16, 16, (2, 2))
    assert hp.rope_freq_base == 10000.0
    assert hp.rope.freq_scale == 1.0
    assert hp.kq_scale == 0.25


@pytest.mark.parametrize(
    "missing", [k for k in LLAMA if "head_count_kv" not in k], ids=lambda k: k.split(".")[-1]
)
def test_a_missing_key_is_named(missing: str):
    kv = {k: v for k, v in LLAMA.items() if k != missing}
    with pytest.raises(ModelError, match=missing):
        read_hparams(kv, "llama", 100)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("llama.block_count", "two", "block_count"),
        ("llama.block_count", 0, "at least 1"),
        ("llama.attention.head_count", 0, "head_count"),
        ("llama.attention.head_count_kv", 3, "cannot share"),
        ("llama.attention.head_count", [4, 4, 4], "3 entries for 2 layers"),
        ("llama.rope.scaling.type", "spiral", "spiral"),
        ("llama.rope.dimension_count", 8, "dimension_count"),
        ("llama.expert_count", 4, "experts"),
    ],
)
def test_values_that_cannot_be_are_refused(key: str, value: Any, text: str):
    with pytest.raises(ModelError, match=text):
        architecture_class("llama")({**LLAMA, key: value}, 100)


def test_rope_scaling():
    yarn = {
        "llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 32,
    }  # fmt: skip
    rope = read_hparams({**LLAMA, **yarn}, "llama", 100).rope
    assert (rope.freq_scale, rope.ext_factor, rope.n_ctx_orig) == (0.25, 1.0, 32)
    off = {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}
    assert read_hparams({**LLAMA, **off}, "llama", 100).rope.freq_scale == 1.0


def test_gemma3_windows():
    hp = architecture_class("gemma3")(GEMMA, 100).hp
    assert hp.is_swa == (True, True, True, True, True, False, True)
    flags = [True, False] * 3 + [False]
    kv = {**GEMMA, "gemma3.attention.sliding_window_pattern": flags}
    assert architecture_class("gemma3")(kv, 100).hp.is_swa == tuple(flags)
    kv = {k: v for k, v in GEMMA.items() if "sliding" not in k}
    assert not any(architecture_class("gemma3")(kv, 100).hp.is_swa)


def test_unknown_architecture_lists_what_there_is():
    with pytest.raises(ModelError, match=r"'llama2' is not supported \(did you mean 'llama'\?\)"):
        architecture_class("llama2")
