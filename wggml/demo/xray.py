"""Looking into a model while it runs: attention rows, residual norms, the logit lens.

A second context computes attention without the fused op, so that its weights exist as tensors, and
keeps the memory of what is looked at until it was read: one wait a token rather than one a node.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.models.model import Model
from wggml.runtime.context import ContextParams, LlamaContext
from wggml.runtime.graph_inputs import GraphInput
from wggml.sched import Sched

F32 = npt.NDArray[np.float32]

MAX_ROWS = 768
"""Tokens whose attention is kept; beyond it only lens and norms are shown. SmolLM2 takes 160 MB."""

PIECE = 32
"""Tokens of a graph: the weights of all heads and layers are kept until they were read."""

_WANTED = re.compile(r"(kq_soft_max|l_out)-(\d+)$")


class Lens:
    """What each layer would say if it were the last: norm and head applied to its output."""

    def __init__(self, context: LlamaContext) -> None:
        model = context.model
        hp, arch = model.hp, model.arch
        ctx, self._graph = Context(16, name="logit lens"), Graph(16)
        self._x = ctx.new_tensor(Type.F32, [hp.n_embd, hp.n_layer], name="layers").set_input()
        y = ops.mul(ctx, ops.rms_norm(ctx, self._x, hp.rms_eps), arch.output_norm)
        self._logits = ops.mul_mat(ctx, arch.output, y).set_output()
        self._graph.build_forward_expand(self._logits)
        self._sched = Sched(context.backends)
        self._sched.alloc_graph(self._graph)

    def logits(self, residuals: F32) -> F32:
        """[n_layer, n_embd] -> [n_layer, n_vocab]."""
        self._x.set(residuals)
        self._sched.graph_compute(self._graph)
        return self._logits.numpy().reshape(len(residuals), -1)

    def close(self) -> None:
        self._sched.close()


class WatchedContext(LlamaContext):
    """A context whose attention weights and layer outputs outlive the run that made them.

    `watched` are those of the active graph: name -> tensor.
    """

    watched: dict[str, Tensor]

    def _build(self, n_tokens: int, n_outputs: int) -> tuple[Graph, list[GraphInput], Tensor]:
        built = super()._build(n_tokens, n_outputs)
        self.watched = {t.name: t.set_output() for t in built[0].nodes if _WANTED.match(t.name)}
        return built

    def read(self, names: list[str]) -> list[F32]:
        """Values of watched tensors, shape `ne` reversed; waits once for all of them."""
        tensors = [self.watched[name] for name in names]
        out = [np.empty(t.ne[::-1], np.float32) for t in tensors]
        for t, array in zip(tensors, out, strict=True):
            backend = self.sched.get_tensor_backend(t)
            assert backend is not None
            backend.get_tensor_async(t, array.reshape(-1).view(np.uint8))
        self.sched.synchronize()
        return out


class XRay:
    """What a watched context held: rows of attention weights by position, residuals of the newest
    token.

    Attributes: `rows[position][layer]` is F16 [n_head, n_keys]; `residuals` F32 [n_layer, n_embd].
    """

    def __init__(self, model: Model, params: ContextParams) -> None:
        self.context = WatchedContext(model, replace(params, flash_attn=False, n_ubatch=PIECE))
        hp = model.hp
        self.n_layer = hp.n_layer
        self.rows: list[list[npt.NDArray[np.float16]]] = []
        self.residuals: F32 = np.zeros((hp.n_layer, hp.n_embd), np.float32)
        self.lens = Lens(self.context)

    def forget(self, position: int) -> None:
        """Drop what was kept of tokens from this position on."""
        del self.rows[position:]

    def take(self, position: int, n_tokens: int) -> None:
        """Read what the decode of `n_tokens` tokens from `position` on, just done, left behind."""
        layers = range(self.n_layer)
        n_rows = min(n_tokens, MAX_ROWS - position)
        names = [f"l_out-{il}" for il in layers]
        if n_rows > 0:
            names += [f"kq_soft_max-{il}" for il in layers]
        values = self.context.read(names)
        for il in layers:
            self.residuals[il] = values[il].reshape(-1, self.residuals.shape[1])[-1]
        for i in range(n_rows):
            self.rows.append(
                [self._row(il, values[self.n_layer + il], position, i) for il in layers]
            )

    def _row(self, layer: int, values: F32, position: int, i: int) -> npt.NDArray[np.float16]:
        """Token `i`'s weights of one layer [n_head, keys], in order of the keys' positions."""
        weights = values[0, :, i]
        cells = self.context.kv.part_of(layer).cells.pos[: weights.shape[1]]
        seen = np.flatnonzero((cells >= 0) & (cells <= position + i))
        row = np.zeros((len(weights), position + i + 1), np.float16)
        row[:, cells[seen]] = weights[:, seen]
        return row

    def attention(self, layer: int, head: int) -> npt.NDArray[np.float16]:
        """[n, n] for the positions kept so far."""
        n = len(self.rows)
        out = np.zeros((n, n), np.float16)
        for i, layers in enumerate(self.rows):
            row = layers[layer]
            out[i, : row.shape[1]] = row[min(head, len(row) - 1)]
        return out

    def close(self) -> None:
        self.lens.close()
        self.context.close()
