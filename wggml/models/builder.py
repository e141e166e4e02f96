"""`GraphBuilder`: the blocks that model graphs are put together from."""

from __future__ import annotations

from dataclasses import dataclass

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import GluOp
from wggml.core.tensor import Tensor
from wggml.core.types import row_size
from wggml.models.hparams import HParams
from wggml.runtime.graph_inputs import (
    AttentionInput,
    GraphInput,
    OutputIdsInput,
    PositionInput,
    TokenInput,
)
from wggml.runtime.kv_cache import KVCache, KVPart


@dataclass(frozen=True, slots=True)
class GraphShape:
    """The parameters that alone determine a graph's topology, besides what its inputs check."""

    n_tokens: int
    n_outputs: int
    flash_attn: bool


class GraphBuilder:
    """Builds one graph. Tensors of a layer are named `<name>-<layer>`.

    Attributes: `ctx`, `graph`, `hp`, `kv`, `shape`, and `inputs` collected while building.
    """

    def __init__(
        self, ctx: Context, graph: Graph, hp: HParams, kv: KVCache, shape: GraphShape
    ) -> None:
        self.ctx = ctx
        self.graph = graph
        self.hp = hp
        self.kv = kv
        self.shape = shape
        self.inputs: list[GraphInput] = []
        self._attention: dict[str, AttentionInput] = {}
        self._positions: Tensor | None = None
        self._out_ids: Tensor | None = None

    # ---- inputs -----------------------------------------------------------------------------

    def embed_tokens(self, tok_embd: Tensor) -> Tensor:
        """Embedding rows of the input tokens: F32 [n_embd, n_tokens]."""
        inp = TokenInput(self.ctx, self.shape.n_tokens)
        self.inputs.append(inp)
        return ops.get_rows(self.ctx, tok_embd, inp.tensor).set_name("inp_embd")

    def positions(self) -> Tensor:
        """I32 [n_tokens]; made once a graph."""
        if self._positions is None:
            inp = PositionInput(self.ctx, self.shape.n_tokens)
            self.inputs.append(inp)
            self._positions = inp.tensor
        return self._positions

    def select_outputs(self, *xs: Tensor) -> list[Tensor]:
        """Only the columns of tokens whose logits are wanted (all of them: unchanged)."""
        if self.shape.n_outputs in (0, self.shape.n_tokens):
            return list(xs)
        if self._out_ids is None:
            inp = OutputIdsInput(self.ctx, self.shape.n_outputs)
            self.inputs.append(inp)
            self._out_ids = inp.tensor
        ids = self._out_ids
        return [ops.get_rows(self.ctx, x, ids) for x in xs]

    def _attention_input(self, il: int) -> tuple[KVPart, AttentionInput]:
        part = self.kv.part_of(il)
        if part.name not in self._attention:
            inp = AttentionInput(
                self.ctx, part, self.shape.n_tokens,
                flash_attn=self.shape.flash_attn, n_embd_v=self.hp.n_embd_v_gqa(il),
            )  # fmt: skip
            self.inputs.append(inp)
            self._attention[part.name] = inp
        return part, self._attention[part.name]

    # ---- blocks -----------------------------------------------------------------------------

    def rms_norm(self, x: Tensor, weight: Tensor | None, name: str, il: int = -1) -> Tensor:
        """RMS norm over ne[0], times `weight` if given."""
        y = ops.rms_norm(self.ctx, x, self.hp.rms_eps)
        if weight is not None:
            y = ops.mul(self.ctx, y, weight)
        return self.named(y, name, il)

    def linear(self, weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """weight @ x (+ bias): [n_in, n_tokens] -> [n_out, n_tokens]."""
        y = ops.mul_mat(self.ctx, weight, x)
        return y if bias is None else ops.add(self.ctx, y, bias)

    def heads(self, x: Tensor, n_embd_head: int, n_head: int) -> Tensor:
        """[n_embd_head * n_head, n_tokens] -> [n_embd_head, n_head, n_tokens]."""
        return ops.reshape(self.ctx, x, [n_embd_head, n_head, x.ne[1]])

    def rope(
        self,
        x: Tensor,
        *,
        mode: int,
        freq_base: float,
        freq_scale: float,
        freq_factors: Tensor | None = None,
    ) -> Tensor:
        """Rotary positions with the model's scaling constants."""
        r = self.hp.rope
        params = ops.RopeParams(
            n_dims=self.hp.n_rot, mode=mode, n_ctx_orig=r.n_ctx_orig, freq_base=freq_base,
            freq_scale=freq_scale, ext_factor=r.ext_factor, attn_factor=r.attn_factor,
            beta_fast=r.beta_fast, beta_slow=r.beta_slow,
        )  # fmt: skip
        return ops.rope(self.ctx, x, self.positions(), params, freq_factors=freq_factors)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, il: int, *, scale: float) -> Tensor:
        """Store K and V in the cache, then attend over it.

        q: [head_k, n_head, n_tokens]; k, v: [head, n_head_kv, n_tokens].
        Result: [head_v * n_head, n_tokens].
        """
        self.store_kv(k, v, il)
        if self.shape.flash_attn:
            return self._attention_fused(q, il, scale)
        return self._attention_unfused(q, il, scale)

    def store_kv(self, k: Tensor, v: Tensor, il: int) -> None:
        """Write the rows of this ubatch into their cells; part of the graph from here on."""
        ctx = self.ctx
        part, inp = self._attention_input(il)
        cache = part.layers[il]
        n_tokens = self.shape.n_tokens
        k_rows = ops.reshape(ctx, k, [k.ne[0] * k.ne[1], n_tokens])
        self.graph.build_forward_expand(ops.set_rows(ctx, cache.k, k_rows, inp.k_idxs))
        n_v = v.ne[0] * v.ne[1]
        if inp.v_trans:
            values = ops.reshape(ctx, cache.v, [1, cache.v.n_elements])
            v_rows = ops.reshape(ctx, v, [1, n_v * n_tokens])
        else:
            values = cache.v
            v_rows = ops.reshape(ctx, v, [n_v, n_tokens])
        self.graph.build_forward_expand(ops.set_rows(ctx, values, v_rows, inp.v_idxs))

    def _cached_k(self, il: int) -> tuple[Tensor, AttentionInput]:
        part, inp = self._attention_input(il)
        k = part.layers[il].k
        d, n_head_kv = self.hp.n_embd_head_k, self.hp.n_head_kv[il]
        return (
            ops.view(self.ctx, k, [d, inp.n_kv, n_head_kv], (k.nb[1], row_size(k.type, d))),
            inp,
        )

    def _attention_fused(self, q: Tensor, il: int, scale: float) -> Tensor:
        ctx = self.ctx
        k, inp = self._cached_k(il)
        v = inp.part.layers[il].v
        d, n_head_kv = self.hp.n_embd_head_v, self.hp.n_head_kv[il]
        v = ops.view(ctx, v, [d, inp.n_kv, n_head_kv], (v.nb[1], row_size(v.type, d)))
        q = ops.permute(ctx, q, 0, 2, 1, 3)
        out = ops.flash_attn_ext(ctx, q, k, v, inp.mask, scale)
        self.named(out, "fattn", il)
        return ops.reshape(ctx, out, [out.ne[0] * out.ne[1], out.ne[2]])

    def _attention_unfused(self, q: Tensor, il: int, scale: float) -> Tensor:
        ctx = self.ctx
        k, inp = self._cached_k(il)
        v = inp.part.layers[il].v
        d, n_head_kv = self.hp.n_embd_head_v, self.hp.n_head_kv[il]
        v = ops.view(ctx, v, [inp.n_kv, d, n_head_kv], (v.nb[1], v.nb[1] * d))
        kq = self.named(ops.mul_mat(ctx, k, ops.permute(ctx, q, 0, 2, 1, 3)), "kq", il)
        kq = self.named(ops.soft_max(ctx, kq, inp.mask, scale), "kq_soft_max", il)
        kqv = self.named(ops.mul_mat(ctx, v, kq), "kqv", il)
        n_tokens = q.ne[2]
        return ops.cont(ctx, ops.permute(ctx, kqv, 0, 2, 1, 3), [d * q.ne[1], n_tokens])

    def gated_ffn(
        self,
        x: Tensor,
        gate: Tensor,
        up: Tensor,
        down: Tensor,
        act: GluOp,
        biases: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None),
    ) -> Tensor:
        """down(act(gate x) * (up x)), biases in the order gate, up, down."""
        g = self.linear(gate, x, biases[0])
        u = self.linear(up, x, biases[1])
        return self.linear(down, ops.glu_split(self.ctx, g, u, act), biases[2])

    def add(self, a: Tensor, b: Tensor, name: str = "", il: int = -1) -> Tensor:
        """a + b, named if asked."""
        y = ops.add(self.ctx, a, b)
        return self.named(y, name, il) if name else y

    def named(self, t: Tensor, name: str, il: int = -1) -> Tensor:
        """Name a tensor `<name>-<layer>`."""
        return t.set_name(f"{name}-{il}" if il >= 0 else name)
