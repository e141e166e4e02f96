"""Static memory planning: where each tensor of a graph lies, decided before it runs."""

from wggml.alloc.ctx_alloc import alloc_ctx_tensors, alloc_ctx_tensors_size
from wggml.alloc.dyn_tallocr import DynTallocr
from wggml.alloc.gallocr import Gallocr
from wggml.alloc.plan import Place, Plan
from wggml.alloc.tallocr import Tallocr

__all__ = [
    "DynTallocr", "Gallocr", "Place", "Plan", "Tallocr", "alloc_ctx_tensors",
    "alloc_ctx_tensors_size",
]  # fmt: skip
