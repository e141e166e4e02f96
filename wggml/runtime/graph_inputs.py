"""Inputs of a model graph: tensors the user side fills before each run.

Whatever differs from token to token is an input; a graph can be reused as long as every input
still has the right shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.runtime.batch import Ubatch
from wggml.runtime.kv_cache import KVCache, KVPart
from wggml.runtime.kv_cells import Index


@dataclass(slots=True)
class Step:
    """What one run of a graph is fed from."""

    ubatch: Ubatch
    kv: KVCache
    slots: dict[str, Index]


class GraphInput(ABC):
    """One or more input tensors with a common source."""

    @abstractmethod
    def set(self, step: Step) -> None:
        """Write the values of this step into the tensors."""

    def can_reuse(self, step: Step) -> bool:
        """True when the tensors fit this step as they are."""
        return True


def _input(ctx: Context, type_: Type, ne: list[int], name: str) -> Tensor:
    return ctx.new_tensor(type_, ne, name=name).set_input()


def _write(t: Tensor, values: npt.NDArray[Any]) -> None:
    """Write an array that already has the tensor's element type."""
    buffer = t.placed_in
    if buffer is not None:  # an input nobody uses is not placed
        buffer.set_tensor(t, np.ascontiguousarray(values).reshape(-1).view(np.uint8))


class TokenInput(GraphInput):
    """Token ids, I32 [n_tokens]."""

    def __init__(self, ctx: Context, n_tokens: int) -> None:
        self.tensor = _input(ctx, Type.I32, [n_tokens], "inp_tokens")

    def set(self, step: Step) -> None:
        _write(self.tensor, step.ubatch.tokens)


class PositionInput(GraphInput):
    """Positions, I32 [n_tokens]."""

    def __init__(self, ctx: Context, n_tokens: int) -> None:
        self.tensor = _input(ctx, Type.I32, [n_tokens], "inp_pos")

    def set(self, step: Step) -> None:
        _write(self.tensor, step.ubatch.positions)


class OutputIdsInput(GraphInput):
    """Indices of the tokens whose logits are wanted, I32 [n_outputs]."""

    def __init__(self, ctx: Context, n_outputs: int) -> None:
        self.tensor = _input(ctx, Type.I32, [n_outputs], "inp_out_ids")

    def set(self, step: Step) -> None:
        _write(self.tensor, step.ubatch.outputs)


class AttentionInput(GraphInput):
    """Mask and cell indices of one part of the KV cache.

    mask: [n_kv, n_tokens], F16 for the fused op, else F32. k_idxs: I64 [n_tokens]. v_idxs: the
    same tensor, or with V transposed one index for each value, I64 [n_tokens * n_embd_v].
    """

    def __init__(
        self, ctx: Context, part: KVPart, n_tokens: int, *, flash_attn: bool, n_embd_v: int
    ) -> None:
        self.part = part
        self.n_kv = part.n_kv()
        self.n_embd_v = n_embd_v
        self.v_trans = not flash_attn
        kind = Type.F16 if flash_attn else Type.F32
        self.dtype = np.float16 if flash_attn else np.float32
        self.mask = _input(ctx, kind, [self.n_kv, n_tokens], f"kq_mask_{part.name}")
        self.k_idxs = _input(ctx, Type.I64, [n_tokens], f"k_idxs_{part.name}")
        self.v_idxs = self.k_idxs
        if self.v_trans:
            self.v_idxs = _input(ctx, Type.I64, [n_tokens * n_embd_v], f"v_idxs_{part.name}")

    def can_reuse(self, step: Step) -> bool:
        return self.n_kv == self.part.n_kv()

    def set(self, step: Step) -> None:
        slot = step.slots[self.part.name]
        _write(self.mask, self.part.cells.mask(step.ubatch, self.n_kv, self.dtype))
        _write(self.k_idxs, slot)
        if self.v_trans:
            columns = np.arange(self.n_embd_v, dtype=np.int64) * self.part.cells.n_cells
            _write(self.v_idxs, slot[:, None] + columns)
