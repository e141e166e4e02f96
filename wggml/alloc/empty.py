"""`EmptyBuffer`: stands for a chunk that only holds tensors of no bytes; nothing is requested."""

from __future__ import annotations

import numpy as np

from wggml.core.tensor import Tensor
from wggml.hal.interface import Buffer, BufferType, BufferUsage, Bytes


class EmptyBuffer(Buffer):
    """A buffer of zero bytes of type `buft`, made without asking the device."""

    def __init__(self, buft: BufferType, usage: BufferUsage) -> None:
        self.buft = buft
        self.size = 0
        self.usage = usage
        self.freed = False

    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        pass

    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        return np.zeros(0, np.uint8)

    def host_bytes(self, t: Tensor) -> Bytes | None:
        return np.zeros(0, np.uint8) if self.buft.is_host else None

    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        pass

    def clear(self, value: int = 0) -> None:
        pass

    def free(self) -> None:
        self.freed = True
