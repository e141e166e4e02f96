"""`Tallocr`: places tensors one after the other in a buffer that exists."""

from __future__ import annotations

from wggml.alloc.dyn_tallocr import pad
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError
from wggml.hal.interface import Buffer


def place(t: Tensor, buffer: Buffer, offset: int) -> None:
    """Put `t` at byte `offset` of `buffer`."""
    t.buffer = buffer
    t.data = offset
    buffer.init_tensor(t)


def view_init(t: Tensor) -> None:
    """Put a view where its root lies; the root must have a place."""
    root = t.view_src
    assert root is not None and root.buffer is not None and root.data is not None
    place(t, root.buffer, root.data + t.view_offs)


def unplace(t: Tensor) -> None:
    """Take the tensor's place away; its record stays."""
    t.buffer = None
    t.data = None


class Tallocr:
    """Linear placement in `buffer`; nothing is ever freed.

    Attributes: `offset` is the first free byte.
    """

    __slots__ = ("buffer", "offset")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.offset = 0

    def alloc(self, t: Tensor) -> None:
        """Give `t` the next place. Raises `AllocationError` when the buffer is too small."""
        buft = self.buffer.buft
        size = pad(buft.alloc_size(t), buft.alignment)
        if self.offset + size > self.buffer.size:
            raise AllocationError(
                f"tensor {t.name!r} needs {size} bytes but only {self.buffer.size - self.offset} "
                f"of {self.buffer.size} are left in a {buft.name} buffer; make a larger buffer "
                "(alloc_ctx_tensors_size tells how large)"
            )
        place(t, self.buffer, self.offset)
        self.offset += size
