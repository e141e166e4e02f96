"""The `llama` architecture: Llama 1-3, Mistral, SmolLM2, TinyLlama and their kin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wggml.core.opcodes import GluOp, RopeMode
from wggml.core.tensor import Tensor
from wggml.errors import ModelError
from wggml.models.architecture import Architecture
from wggml.models.builder import GraphBuilder
from wggml.models.hparams import HParams, read_hparams
from wggml.models.weights import WeightLoader


@dataclass(slots=True)
class _Layer:
    attn_norm: Tensor
    wq: Tensor
    wk: Tensor
    wv: Tensor
    wo: Tensor
    bq: Tensor | None
    bk: Tensor | None
    bv: Tensor | None
    bo: Tensor | None
    rope_freqs: Tensor | None
    ffn_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    ffn_biases: tuple[Tensor | None, Tensor | None, Tensor | None]


class LlamaArchitecture(Architecture):
    """RMS norm, rotary positions in adjacent pairs, grouped heads, SwiGLU; optional biases."""

    name = "llama"
    layers: list[_Layer]

    def read_keys(self, kv: Mapping[str, Any], n_vocab: int) -> HParams:
        hp = read_hparams(kv, self.name, n_vocab)
        if hp.n_expert:
            raise ModelError(f"llama with {hp.n_expert} experts is not supported yet")
        if hp.n_rot != hp.n_embd_head_k:
            raise ModelError(
                f"key 'llama.rope.dimension_count' is {hp.n_rot}, the architecture needs the head "
                f"size {hp.n_embd_head_k}"
            )
        if hp.rope.type == "longrope":
            raise ModelError("llama with longrope scaling is not supported yet")
        return hp

    def request_weights(self, w: WeightLoader) -> None:
        self.request_ends(w)
        self.layers = [self._layer(w, il) for il in range(self.hp.n_layer)]

    def _layer(self, w: WeightLoader, il: int) -> _Layer:
        hp, p = self.hp, f"blk.{il}."
        n_q = hp.n_embd_head_k * hp.n_head[il]
        n_k, n_v, n_ff = hp.n_embd_k_gqa(il), hp.n_embd_v_gqa(il), hp.n_ff[il]
        n_o = hp.n_embd_head_v * hp.n_head[il]

        def bias(name: str, n: int) -> Tensor | None:
            return w.get(f"{p}{name}.bias", [n], layer=il, required=False)

        return _Layer(
            attn_norm=w.need(p + "attn_norm.weight", [hp.n_embd], layer=il),
            wq=w.need(p + "attn_q.weight", [hp.n_embd, n_q], layer=il),
            wk=w.need(p + "attn_k.weight", [hp.n_embd, n_k], layer=il),
            wv=w.need(p + "attn_v.weight", [hp.n_embd, n_v], layer=il),
            wo=w.need(p + "attn_output.weight", [n_o, hp.n_embd], layer=il),
            bq=bias("attn_q", n_q),
            bk=bias("attn_k", n_k),
            bv=bias("attn_v", n_v),
            bo=bias("attn_output", hp.n_embd),
            rope_freqs=w.get("rope_freqs.weight", [hp.n_rot // 2], layer=il, required=False),
            ffn_norm=w.need(p + "ffn_norm.weight", [hp.n_embd], layer=il),
            gate=w.need(p + "ffn_gate.weight", [hp.n_embd, n_ff], layer=il),
            up=w.need(p + "ffn_up.weight", [hp.n_embd, n_ff], layer=il),
            down=w.need(p + "ffn_down.weight", [n_ff, hp.n_embd], layer=il),
            ffn_biases=(
                bias("ffn_gate", n_ff), bias("ffn_up", n_ff), bias("ffn_down", hp.n_embd),
            ),
        )  # fmt: skip

    def build(self, g: GraphBuilder) -> Tensor:
        x = g.embed_tokens(self.tok_embd)
        last = len(self.layers) - 1
        for il, layer in enumerate(self.layers):
            attn = self._attention(g, layer, g.rms_norm(x, layer.attn_norm, "attn_norm", il), il)
            if il == last:
                attn, x = g.select_outputs(attn, x)
            x = g.add(attn, x, "ffn_inp", il)
            y = g.rms_norm(x, layer.ffn_norm, "ffn_norm", il)
            y = g.gated_ffn(y, layer.gate, layer.up, layer.down, GluOp.SWIGLU, layer.ffn_biases)
            x = g.add(y, x, "l_out", il)
        x = g.rms_norm(x, self.output_norm, "result_norm")
        return g.named(g.linear(self.output, x), "result_output")

    def _attention(self, g: GraphBuilder, layer: _Layer, x: Tensor, il: int) -> Tensor:
        hp = self.hp
        q = g.heads(g.linear(layer.wq, x, layer.bq), hp.n_embd_head_k, hp.n_head[il])
        k = g.heads(g.linear(layer.wk, x, layer.bk), hp.n_embd_head_k, hp.n_head_kv[il])
        v = g.heads(g.linear(layer.wv, x, layer.bv), hp.n_embd_head_v, hp.n_head_kv[il])
        q, k = (
            g.rope(
                t, mode=RopeMode.NORMAL, freq_base=hp.rope_freq_base,
                freq_scale=hp.rope.freq_scale, freq_factors=layer.rope_freqs,
            )
            for t in (q, k)
        )  # fmt: skip
        attn = g.attention(q, k, v, il, scale=hp.kq_scale)
        return g.named(g.linear(layer.wo, attn, layer.bo), "attn_out", il)
