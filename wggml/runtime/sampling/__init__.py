"""Choosing the next token from logits."""

from wggml.runtime.sampling.chain import Sampler, SamplingParams

__all__ = ["Sampler", "SamplingParams"]
