"""wggml: ggml's design in Python, on any GPU.

The public names; each loads its module when first used, so that `import wggml` opens no device and
costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from wggml.alloc.ctx_alloc import alloc_ctx_tensors
    from wggml.alloc.gallocr import Gallocr
    from wggml.core import ops
    from wggml.core.context import Context
    from wggml.core.graph import Graph
    from wggml.core.opcodes import Op
    from wggml.core.tensor import Tensor
    from wggml.core.types import Type
    from wggml.custom import register_op
    from wggml.errors import WggmlError
    from wggml.gguf_io import open_gguf
    from wggml.hal.registry import default_registry
    from wggml.llama import GenerationParams, Llama
    from wggml.sched import Sched
    from wggml.session import Session

_PUBLIC = {
    "Context": "wggml.core.context",
    "Gallocr": "wggml.alloc.gallocr",
    "GenerationParams": "wggml.llama",
    "Graph": "wggml.core.graph",
    "Llama": "wggml.llama",
    "Op": "wggml.core.opcodes",
    "Sched": "wggml.sched",
    "Session": "wggml.session",
    "Tensor": "wggml.core.tensor",
    "Type": "wggml.core.types",
    "WggmlError": "wggml.errors",
    "alloc_ctx_tensors": "wggml.alloc.ctx_alloc",
    "default_registry": "wggml.hal.registry",
    "open_gguf": "wggml.gguf_io",
    "register_op": "wggml.custom",
}

__all__ = [
    "Context", "Gallocr", "GenerationParams", "Graph", "Llama", "Op", "Sched", "Session",
    "Tensor", "Type", "WggmlError", "__version__", "alloc_ctx_tensors", "default_registry",
    "open_gguf", "ops", "register_op",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "ops":
        return import_module("wggml.core.ops")
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'wggml' has no attribute {name!r}")
    return getattr(import_module(module), name)
