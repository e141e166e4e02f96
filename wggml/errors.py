"""The exception tree. Every message says what failed, where, the value, what is allowed, and the
next step; a caller may catch `WggmlError` and show `str(error)` to a person as it is."""

from __future__ import annotations


class WggmlError(Exception):
    """Base of every error that wggml raises on purpose."""


class ContextFullError(WggmlError):
    """A context or graph reached the fixed capacity it was made with."""


class ShapeError(WggmlError, ValueError):
    """Operands whose shapes, types or strides an op's rule does not admit."""


class GGUFError(WggmlError):
    """A file that is no GGUF, is damaged or truncated, or lacks what its architecture needs."""


class UnsupportedOpError(WggmlError):
    """An op, tensor type or parameter that the named backend (or no backend) can run."""


class AllocationError(WggmlError, MemoryError):
    """A buffer that could not be created, or that is larger than the device allows."""


class PlanError(AllocationError):
    """A graph whose memory plan exceeds a fixed limit of the allocator, whatever the memory."""


class SchedulerError(WggmlError):
    """A graph that cannot be placed, or a scheduler used out of order."""


class DeviceError(WggmlError):
    """A device that does not exist or could not be opened."""


class DeviceLostError(DeviceError):
    """The device went away while it was computing."""


class ComputeAbortedError(WggmlError):
    """A graph left unfinished because the caller's abort callback said so."""


class ShaderError(WggmlError):
    """A WGSL template that does not render, or a shader that does not compile."""


class ModelError(WggmlError):
    """A model whose architecture, tensors or settings cannot be run."""


class FetchError(WggmlError):
    """A model file that could not be downloaded, or that arrived damaged."""


class TokenizerError(WggmlError):
    """Text or ids that a vocabulary cannot encode or decode."""


class TemplateError(WggmlError):
    """A chat template that is broken, forbidden things, or refuses the messages."""


class UsageError(WggmlError, ValueError):
    """A flag or argument with a value that is not allowed."""
