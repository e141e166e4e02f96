"""The `gemma3` architecture: sliding-window layers, q/k norms, norms after attention and FFN."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wggml.core import ops
from wggml.core.opcodes import GluOp, RopeMode
from wggml.core.tensor import Tensor
from wggml.models.architecture import Architecture
from wggml.models.builder import GraphBuilder
from wggml.models.hparams import HParams, Keys, read_hparams
from wggml.models.weights import WeightLoader

# The 27B model (62 layers) scales queries by the embedding share of a head, not by the head size.
N_LAYER_27B = 62


@dataclass(slots=True)
class _Layer:
    attn_norm: Tensor
    wq: Tensor
    wk: Tensor
    wv: Tensor
    wo: Tensor
    q_norm: Tensor
    k_norm: Tensor
    attn_post_norm: Tensor
    ffn_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    ffn_post_norm: Tensor


class Gemma3Architecture(Architecture):
    """Every `sliding_window_pattern`-th layer (6th by default) looks at the whole context with the
    file's rope base; the others at the last `sliding_window` tokens with a local base."""

    name = "gemma3"
    layers: list[_Layer]

    def read_keys(self, kv: Mapping[str, Any], n_vocab: int) -> HParams:
        hp = read_hparams(kv, self.name, n_vocab)
        k = Keys(kv, self.name)
        n_swa = k.integer("attention.sliding_window", 0)
        scale = 0.0
        if hp.n_layer == N_LAYER_27B:
            scale = 1.0 / math.sqrt(hp.n_embd / hp.n_head[0])
        return dataclasses.replace(
            hp,
            n_swa=n_swa,
            is_swa=_swa_layers(kv, hp.n_layer) if n_swa else (False,) * hp.n_layer,
            rope_freq_base_swa=k.real("rope.freq_base_swa", 10000.0),
            final_logit_softcap=k.real("final_logit_softcapping", 0.0),
            attention_scale=scale,
        )

    def request_weights(self, w: WeightLoader) -> None:
        self.request_ends(w)
        self.layers = [self._layer(w, il) for il in range(self.hp.n_layer)]

    def _layer(self, w: WeightLoader, il: int) -> _Layer:
        hp, p = self.hp, f"blk.{il}."
        d, n_ff = hp.n_embd, hp.n_ff[il]
        n_q, n_o = hp.n_embd_head_k * hp.n_head[il], hp.n_embd_head_v * hp.n_head[il]

        def need(name: str, *ne: int) -> Tensor:
            return w.need(f"{p}{name}.weight", ne, layer=il)

        return _Layer(
            attn_norm=need("attn_norm", d),
            wq=need("attn_q", d, n_q),
            wk=need("attn_k", d, hp.n_embd_k_gqa(il)),
            wv=need("attn_v", d, hp.n_embd_v_gqa(il)),
            wo=need("attn_output", n_o, d),
            q_norm=need("attn_q_norm", hp.n_embd_head_k),
            k_norm=need("attn_k_norm", hp.n_embd_head_k),
            attn_post_norm=need("post_attention_norm", d),
            ffn_norm=need("ffn_norm", d),
            gate=need("ffn_gate", d, n_ff),
            up=need("ffn_up", d, n_ff),
            down=need("ffn_down", n_ff, d),
            ffn_post_norm=need("post_ffw_norm", d),
        )

    def build(self, g: GraphBuilder) -> Tensor:
        x = g.embed_tokens(self.tok_embd)
        x = g.named(ops.scale(g.ctx, x, math.sqrt(self.hp.n_embd)), "inp_scaled")
        last = len(self.layers) - 1
        for il, layer in enumerate(self.layers):
            attn = self._attention(g, layer, g.rms_norm(x, layer.attn_norm, "attn_norm", il), il)
            if il == last:
                attn, x = g.select_outputs(attn, x)
            attn = g.rms_norm(attn, layer.attn_post_norm, "attn_post_norm", il)
            x = g.add(attn, x, "sa_out", il)
            y = g.rms_norm(x, layer.ffn_norm, "ffn_norm", il)
            y = g.gated_ffn(y, layer.gate, layer.up, layer.down, GluOp.GEGLU)
            y = g.rms_norm(y, layer.ffn_post_norm, "ffn_post_norm", il)
            x = g.add(y, x, "l_out", il)
        x = g.rms_norm(x, self.output_norm, "result_norm")
        logits = g.linear(self.output, x)
        cap = self.hp.final_logit_softcap
        if cap:
            logits = ops.tanh(g.ctx, ops.scale(g.ctx, logits, 1.0 / cap))
            logits = ops.scale(g.ctx, logits, cap)
        return g.named(logits, "result_output")

    def _attention(self, g: GraphBuilder, layer: _Layer, x: Tensor, il: int) -> Tensor:
        hp = self.hp
        swa = hp.is_swa[il]
        base = hp.rope_freq_base_swa if swa else hp.rope_freq_base
        scale = 1.0 if swa else hp.rope.freq_scale
        q = g.heads(g.linear(layer.wq, x), hp.n_embd_head_k, hp.n_head[il])
        k = g.heads(g.linear(layer.wk, x), hp.n_embd_head_k, hp.n_head_kv[il])
        v = g.heads(g.linear(layer.wv, x), hp.n_embd_head_v, hp.n_head_kv[il])
        q = g.rms_norm(q, layer.q_norm, "Qcur_normed", il)
        k = g.rms_norm(k, layer.k_norm, "Kcur_normed", il)
        q = g.rope(q, mode=RopeMode.NEOX, freq_base=base, freq_scale=scale)
        k = g.rope(k, mode=RopeMode.NEOX, freq_base=base, freq_scale=scale)
        attn = g.attention(q, k, v, il, scale=hp.kq_scale)
        return g.named(g.linear(layer.wo, attn), "attn_out", il)


def _swa_layers(kv: Mapping[str, Any], n_layer: int) -> tuple[bool, ...]:
    """Which layers slide: a flag for each layer, or a period whose last layer does not."""
    pattern = kv.get("gemma3.attention.sliding_window_pattern", 6)
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        return tuple(pattern == 0 or il % pattern < pattern - 1 for il in range(n_layer))
    return tuple(bool(v) for v in pattern)[:n_layer]
