"""Hyper-parameters of a decoder, read from the file's keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wggml.errors import ModelError

ROPE_SCALING_TYPES = ("none", "linear", "yarn", "longrope")


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How positions are stretched: `freq_scale` multiplies them, `ext_factor` blends YaRN in."""

    type: str = "linear"
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    n_ctx_orig: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HParams:
    """What the graph of an architecture depends on; per-layer values are tuples of `n_layer`.

    `n_swa` is the sliding window in tokens, 0 without one; `is_swa[il]` tells which layers use it.
    """

    arch: str
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_ff: tuple[int, ...]
    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    n_embd_head_k: int
    n_embd_head_v: int
    n_rot: int
    rms_eps: float
    rope_freq_base: float
    rope: RopeScaling
    rope_freq_base_swa: float
    n_swa: int = 0
    is_swa: tuple[bool, ...] = ()
    n_expert: int = 0
    final_logit_softcap: float = 0.0
    attention_scale: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def n_embd_k_gqa(self, il: int) -> int:
        """Values of one K row of layer `il`."""
        return self.n_embd_head_k * self.n_head_kv[il]

    def n_embd_v_gqa(self, il: int) -> int:
        """Values of one V row of layer `il`."""
        return self.n_embd_head_v * self.n_head_kv[il]

    @property
    def kq_scale(self) -> float:
        """Factor of q.k before the softmax."""
        return self.attention_scale or 1.0 / math.sqrt(self.n_embd_head_k)


class Keys:
    """Typed access to `<arch>.*` keys; a missing or odd value raises `ModelError` by name."""

    def __init__(self, kv: Mapping[str, Any], arch: str) -> None:
        self.kv = kv
        self.arch = arch

    def _get(self, key: str, kind: type, default: Any) -> Any:
        name = f"{self.arch}.{key}"
        if name not in self.kv:
            if default is None:
                raise ModelError(f"key {name!r} is missing from the file; {self.arch} needs it")
            return default
        value = self.kv[name]
        if isinstance(value, bool) != (kind is bool) or not isinstance(
            value, (int, float) if kind is float else kind
        ):
            raise ModelError(f"key {name!r} must be {kind.__name__}, the file has {value!r:.80}")
        return kind(value)

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._get(key, int, default))

    def positive(self, key: str, default: int | None = None) -> int:
        """An int of at least 1."""
        value = self.integer(key, default)
        if value < 1:
            raise ModelError(f"key '{self.arch}.{key}' must be at least 1, the file has {value}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        return float(self._get(key, float, default))

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._get(key, str, default))

    def per_layer(self, key: str, n_layer: int, default: Any = None) -> tuple[int, ...]:
        """An int for each layer: one number for all, or an array with `n_layer` entries."""
        name = f"{self.arch}.{key}"
        value = self.kv.get(name, default)
        if value is None:
            raise ModelError(f"key {name!r} is missing from the file; {self.arch} needs it")
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,) * n_layer
        values = tuple(int(v) for v in value)
        if len(values) != n_layer:
            raise ModelError(f"key {name!r} has {len(values)} entries for {n_layer} layers")
        return values


def read_hparams(kv: Mapping[str, Any], arch: str, n_vocab: int) -> HParams:
    """The keys that all decoders share; architectures refine the result (`dataclasses.replace`).

    Raises `ModelError` for missing keys or values that cannot be.
    """
    k = Keys(kv, arch)
    n_layer = k.positive("block_count")
    n_embd = k.positive("embedding_length")
    n_head = k.per_layer("attention.head_count", n_layer)
    if min(n_head) < 1:
        raise ModelError(f"key '{arch}.attention.head_count' must be at least 1, got {n_head}")
    n_head_kv = k.per_layer("attention.head_count_kv", n_layer, n_head)
    if any(kvh < 1 or h % kvh for h, kvh in zip(n_head, n_head_kv, strict=True)):
        raise ModelError(f"{arch}: {n_head} heads cannot share {n_head_kv} key/value heads")
    head_k = k.positive("attention.key_length", n_embd // n_head[0])
    n_ctx_train = k.positive("context_length")
    return HParams(
        arch=arch,
        n_vocab=n_vocab,
        n_ctx_train=n_ctx_train,
        n_embd=n_embd,
        n_layer=n_layer,
        n_ff=k.per_layer("feed_forward_length", n_layer),
        n_head=n_head,
        n_head_kv=n_head_kv,
        n_embd_head_k=head_k,
        n_embd_head_v=k.positive("attention.value_length", n_embd // n_head[0]),
        n_rot=k.positive("rope.dimension_count", head_k),
        rms_eps=k.real("attention.layer_norm_rms_epsilon"),
        rope_freq_base=k.real("rope.freq_base", 10000.0),
        rope_freq_base_swa=k.real("rope.freq_base", 10000.0),
        rope=_rope_scaling(k, n_ctx_train),
        is_swa=(False,) * n_layer,
        n_expert=k.integer("expert_count", 0),
    )


def _rope_scaling(k: Keys, n_ctx_train: int) -> RopeScaling:
    """Scaling type, factor and YaRN constants. With YaRN, ggml's rope multiplies sine and cosine
    by 1 + 0.1 ln(factor) itself, so `attn_factor` only carries what the file adds to that."""
    kind = k.text("rope.scaling.type", "linear")
    if kind not in ROPE_SCALING_TYPES:
        raise ModelError(
            f"key '{k.arch}.rope.scaling.type' is {kind!r}; known: {', '.join(ROPE_SCALING_TYPES)}"
        )
    factor = k.real("rope.scaling.factor", k.real("rope.scale_linear", 0.0))
    return RopeScaling(
        type=kind,
        freq_scale=1.0 if factor == 0.0 or kind == "none" else 1.0 / factor,
        ext_factor=1.0 if kind == "yarn" else 0.0,
        attn_factor=k.real("rope.scaling.attn_factor", 1.0),
        beta_fast=k.real("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=k.real("rope.scaling.yarn_beta_slow", 1.0),
        n_ctx_orig=k.integer("rope.scaling.original_context_length", n_ctx_train),
    )
