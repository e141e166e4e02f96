"""NumPy quantisation and dequantisation of every ggml tensor type."""

from wggml.quants.api import (
    can_dequantize,
    can_quantize,
    dequantize,
    dequantize_rows,
    quantize,
)

__all__ = ["can_dequantize", "can_quantize", "dequantize", "dequantize_rows", "quantize"]
