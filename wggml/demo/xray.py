"""Looking into a model while it runs: attention rows, residual norms, the logit lens.

A second context computes attention without the fused op, so that its weights exist as tensors; the
scheduler's evaluation callback hands them over as they are computed.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.runtime.context import LlamaContext
from wggml.sched import Sched

F32 = npt.NDArray[np.float32]

MAX_ROWS = 768
"""Tokens whose attention is kept; beyond it only lens and norms are shown. SmolLM2 takes 160 MB."""

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


class XRay:
    """Watches a context: rows of attention weights by position, residuals of the newest token.

    Attributes: `rows[position][layer]` is F16 [n_head, n_keys]; `residuals` F32 [n_layer, n_embd].
    """

    def __init__(self, context: LlamaContext) -> None:
        self.context = context
        hp = context.model.hp
        self.n_layer = hp.n_layer
        self.rows: list[list[npt.NDArray[np.float16] | None]] = []
        self.residuals: F32 = np.zeros((hp.n_layer, hp.n_embd), np.float32)
        self.lens = Lens(context)
        self._first = 0  # position of the first token of the batch under way
        context.sched.set_eval_callback(self._observe)

    def begin(self, position: int) -> None:
        """The next batch starts at this position; what was kept from there on is dropped."""
        self._first = position
        del self.rows[position:]

    def _observe(self, t: Tensor, ask: bool) -> bool:
        match = _WANTED.match(t.name)
        if ask or match is None:
            return match is not None and not (match[1][0] == "k" and self._first >= MAX_ROWS)
        layer = int(match[2])
        if match[1] == "l_out":
            self.residuals[layer] = t.numpy().reshape(-1, t.ne[0])[-1]
        else:
            self._keep_rows(layer, t)
        return True

    def _keep_rows(self, layer: int, t: Tensor) -> None:
        n_keys, n_tokens, n_head = t.ne[:3]
        weights = t.numpy().reshape(n_head, n_tokens, n_keys)
        cells = self.context.kv.part_of(layer).cells.pos[:n_keys]
        used = np.flatnonzero(cells >= 0)
        for i in range(min(n_tokens, MAX_ROWS - self._first)):
            position = self._first + i
            while len(self.rows) <= position:
                self.rows.append([None] * self.n_layer)
            row = np.zeros((n_head, position + 1), np.float16)
            seen = used[cells[used] <= position]
            row[:, cells[seen]] = weights[:, i, seen]
            self.rows[position][layer] = row

    def attention(self, layer: int, head: int) -> npt.NDArray[np.float16]:
        """[n, n] for the positions kept so far."""
        n = len(self.rows)
        out = np.zeros((n, n), np.float16)
        for i, layers in enumerate(self.rows):
            row = layers[layer]
            if row is not None:
                out[i, : row.shape[1]] = row[head]
        return out

    def close(self) -> None:
        self.context.sched.set_eval_callback(None)
        self.lens.close()
