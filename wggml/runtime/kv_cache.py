"""The KV cache: K and V tensors of every layer, and the cells they are organised in.

Layers with a sliding window have a cache of their own, just large enough for the window and one
ubatch, so that a long context costs memory only on the layers that look at all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ModelError
from wggml.hal.interface import Buffer, BufferUsage, Device
from wggml.models.hparams import HParams
from wggml.runtime.batch import Ubatch
from wggml.runtime.kv_cells import Index, KVCells

# n_kv grows in steps of this many cells, so that a graph lives for as many tokens.
KV_PAD = 256


def _pad(n: int, to: int) -> int:
    return -(-n // to) * to


@dataclass(frozen=True, slots=True, kw_only=True)
class KVParams:
    """Sizes and types: `n_ctx` cells; `v_trans` stores V transposed, as attention without the
    fused op wants it."""

    n_ctx: int
    n_ubatch: int
    n_seq_max: int = 1
    type_k: Type = Type.F16
    type_v: Type = Type.F16
    v_trans: bool = False


@dataclass(slots=True)
class LayerKV:
    """K: ne [n_embd_k, n_cells]. V: the same, or ne [n_cells, n_embd_v] when transposed."""

    k: Tensor
    v: Tensor


class KVPart:
    """The cache of one group of layers (all, or those with a window)."""

    __slots__ = ("cells", "layers", "name")

    def __init__(self, name: str, cells: KVCells) -> None:
        self.name = name
        self.cells = cells
        self.layers: dict[int, LayerKV] = {}

    def n_kv(self) -> int:
        """Cells a graph looks at now: what is in use, padded."""
        n = self.cells.n_cells
        return min(n, max(KV_PAD, _pad(self.cells.used_max_p1, KV_PAD)))


class KVCache:
    """All parts, placed in buffers of the layers' devices and filled with zeros."""

    def __init__(self, hp: HParams, params: KVParams, device_of: Callable[[int], Device]) -> None:
        self.params = params
        self.parts: dict[str, KVPart] = {}
        self.buffers: list[Buffer] = []
        self._contexts: dict[str, Context] = {}
        devices: dict[str, Device] = {}
        swa_cells = min(
            params.n_ctx,
            _pad(min(params.n_ctx, hp.n_swa * params.n_seq_max + params.n_ubatch), 256),
        )
        for il in range(hp.n_layer):
            name = "swa" if hp.is_swa[il] else "base"
            if name not in self.parts:
                cells = KVCells(swa_cells, hp.n_swa) if hp.is_swa[il] else KVCells(params.n_ctx)
                self.parts[name] = KVPart(name, cells)
            device = device_of(il)
            devices[device.name] = device
            ctx = self._contexts.setdefault(device.name, Context(2 * hp.n_layer, name="KV cache"))
            self.parts[name].layers[il] = self._layer(ctx, hp, il, self.parts[name])
        for dev_name, ctx in self._contexts.items():
            made = alloc_ctx_tensors(ctx, devices[dev_name].buffer_type(), usage=BufferUsage.ANY)
            for b in made:
                b.clear(0)  # masked cells are still multiplied: they must not be NaN
            self.buffers += made

    def _layer(self, ctx: Context, hp: HParams, il: int, part: KVPart) -> LayerKV:
        n, p = part.cells.n_cells, self.params
        n_k, n_v = hp.n_embd_k_gqa(il), hp.n_embd_v_gqa(il)
        k = ctx.new_tensor(p.type_k, [n_k, n], name=f"cache_k_l{il}")
        v = ctx.new_tensor(p.type_v, [n, n_v] if p.v_trans else [n_v, n], name=f"cache_v_l{il}")
        return LayerKV(k, v)

    def part_of(self, il: int) -> KVPart:
        """The part that layer `il` belongs to."""
        return next(p for p in self.parts.values() if il in p.layers)

    @property
    def nbytes(self) -> int:
        return sum(b.size for b in self.buffers)

    def prepare(self, ubatch: Ubatch) -> dict[str, Index]:
        """Reserve and write cells for the tokens of `ubatch`; returns the slot per part.

        Raises `ModelError` when there is no room; nothing has changed then.
        """
        slots: dict[str, Index] = {}
        for name, part in self.parts.items():
            slot = part.cells.find_slot(ubatch.n_tokens)
            if slot is None:
                raise ModelError(
                    f"the context is full: {part.cells.n_used} of {part.cells.n_cells} cells in "
                    f"use, no room for {ubatch.n_tokens} more token(s); raise the context size "
                    "(-c) or generate less (-n)"
                )
            slots[name] = slot
        for name, slot in slots.items():
            self.parts[name].cells.apply(slot, ubatch)
        return slots

    def undo(self, slots: dict[str, Index]) -> None:
        """Empty the cells of a ubatch whose computation failed."""
        for name, slot in slots.items():
            self.parts[name].cells.clear_cells(slot)

    # ---- sequences ----------------------------------------------------------------------------

    def seq_rm(self, seq: int, p0: int = -1, p1: int = -1) -> None:
        """Remove positions [p0, p1) of a sequence (-1: open end, or all sequences)."""
        for part in self.parts.values():
            part.cells.seq_rm(seq, p0, p1)

    def seq_cp(self, src: int, dst: int, p0: int = -1, p1: int = -1) -> None:
        """Let sequence `dst` share positions [p0, p1) of `src`."""
        for part in self.parts.values():
            part.cells.seq_cp(src, dst, p0, p1)

    def seq_keep(self, seq: int) -> None:
        """Remove all sequences but one."""
        for part in self.parts.values():
            part.cells.seq_keep(seq)

    def seq_pos_max(self, seq: int) -> int:
        """Highest position of a sequence, -1 when it has none."""
        return max((p.cells.seq_pos_max(seq) for p in self.parts.values()), default=-1)

    def clear(self) -> None:
        """Forget everything that was read."""
        for part in self.parts.values():
            part.cells.clear()

    def free(self) -> None:
        """Give the buffers back."""
        for b in self.buffers:
            b.free()
        self.buffers.clear()
