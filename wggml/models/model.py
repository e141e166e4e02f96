"""`Model`: a GGUF file opened, its architecture chosen and its weights placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wggml.core.opcodes import Op
from wggml.errors import ModelError
from wggml.gguf_io import GGUFFile, open_gguf
from wggml.hal.interface import Device
from wggml.hal.registry import Registry, default_registry
from wggml.models.architecture import Architecture, architecture_class
from wggml.models.hparams import HParams
from wggml.models.placement import Placement
from wggml.models.weights import Progress, WeightLoader
from wggml.vocab import Vocab


@dataclass(slots=True)
class Model:
    """Everything that does not change while text is made. Make it with `load_model`."""

    path: Path
    file: GGUFFile
    vocab: Vocab
    arch: Architecture
    placement: Placement
    weights: WeightLoader
    notes: list[str] = field(default_factory=list)

    @property
    def hp(self) -> HParams:
        return self.arch.hp

    @property
    def devices(self) -> list[Device]:
        """Devices in priority order, the CPU last."""
        return [*self.placement.devices, self.placement.cpu]

    def close(self) -> None:
        """Free the weights and the file's map."""
        self.weights.free()
        self.file.close()


def load_model(
    path: str | Path,
    *,
    devices: Sequence[Device] = (),
    n_gpu_layers: int = -1,
    progress: Progress | None = None,
    registry: Registry | None = None,
    fill: bool = True,
) -> Model:
    """Open a GGUF file and place its weights.

    Args:
        devices: devices for layers, best first, without the CPU; empty keeps all on the CPU.
        n_gpu_layers: layers from the end that go there, the output layer being one; -1 for all.
        progress: called with (share done, tensor name) while weights are placed.
        fill: False leaves weights on devices without contents, for plans that are never computed.

    Raises `GGUFError` for a bad file, `ModelError` for one that cannot be run.
    """
    if n_gpu_layers < -1:
        raise ModelError(f"n_gpu_layers must be -1 (all) or a count, got {n_gpu_layers}")
    cpu = (registry or default_registry()).cpu()
    gpus = tuple(d for d in devices if d is not cpu)
    file = open_gguf(path)
    try:
        cls = architecture_class(file.architecture)
        vocab = Vocab.from_kv(file.kv)
        embd = file.require_tensor("token_embd.weight")
        arch = cls(file.kv, embd.ne[1])
        if vocab.n_tokens > arch.hp.n_vocab:
            raise ModelError(
                f"{file.path}: the vocabulary has {vocab.n_tokens} tokens, token_embd.weight only "
                f"{arch.hp.n_vocab} rows"
            )
        placement = Placement(arch.hp.n_layer, n_gpu_layers, gpus if n_gpu_layers else (), cpu)
        weights = WeightLoader(file, placement)
        arch.request_weights(weights)
        weights.load(progress, fill=fill)
    except BaseException:
        file.close()
        raise
    model = Model(Path(path), file, vocab, arch, placement, weights)
    if weights.moved:
        model.notes.append(
            f"{len(weights.moved)} weight(s) stay on the CPU: {weights.moved[0]}"
            + (" ..." if len(weights.moved) > 1 else "")
        )
    unused = weights.unused()
    if unused:
        model.notes.append(f"{len(unused)} tensor(s) of the file are not used: {unused[0]} ...")
    return model


# Ops that each layer runs: one that leaves its layer's device costs a copy per layer.
PER_LAYER_OPS = frozenset({Op.MUL_MAT, Op.ROPE, Op.RMS_NORM, Op.FLASH_ATTN_EXT, Op.SOFT_MAX})
