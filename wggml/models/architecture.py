"""What an architecture must provide, and the table of those that exist."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from wggml.core.tensor import Tensor
from wggml.errors import ModelError
from wggml.models.builder import GraphBuilder
from wggml.models.hparams import HParams, read_hparams
from wggml.models.weights import WeightLoader

# general.architecture -> module:class
ARCHITECTURES: dict[str, str] = {
    "llama": "wggml.models.llama:LlamaArchitecture",
    "gemma3": "wggml.models.gemma3:Gemma3Architecture",
}


class Architecture(ABC):
    """One model family: reads its keys, asks for its weights, builds its graph."""

    name: ClassVar[str]
    tok_embd: Tensor
    output_norm: Tensor
    output: Tensor

    def __init__(self, kv: Mapping[str, Any], n_vocab: int) -> None:
        self.hp: HParams = self.read_keys(kv, n_vocab)

    def read_keys(self, kv: Mapping[str, Any], n_vocab: int) -> HParams:
        """Hyper-parameters from the file's keys; `ModelError` when they make no sense."""
        return read_hparams(kv, self.name, n_vocab)

    def request_ends(self, w: WeightLoader) -> None:
        """Ask for the embedding, the last norm and the head; a file without a head ties it to the
        embedding."""
        hp = self.hp
        matrix, out = [hp.n_embd, hp.n_vocab], hp.n_layer
        self.tok_embd = w.need("token_embd.weight", matrix, layer=-1)
        self.output_norm = w.need("output_norm.weight", [hp.n_embd], layer=out)
        head = w.get("output.weight", matrix, layer=out, required=False)
        self.output = head or w.need("token_embd.weight", matrix, layer=out)

    @abstractmethod
    def request_weights(self, w: WeightLoader) -> None:
        """Ask for every weight the graph uses; keep the tensors."""

    @abstractmethod
    def build(self, g: GraphBuilder) -> Tensor:
        """Build the graph up to the logits, F32 [n_vocab, n_outputs]."""


def architecture_class(name: str) -> type[Architecture]:
    """The class for a `general.architecture`; `ModelError` lists what there is."""
    target = ARCHITECTURES.get(name)
    if target is None:
        near = difflib.get_close_matches(name, ARCHITECTURES, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ModelError(
            f"architecture {name!r} is not supported{hint}; supported: "
            f"{', '.join(sorted(ARCHITECTURES))}"
        )
    module, cls = target.split(":")
    found: type[Architecture] = getattr(import_module(module), cls)
    return found
