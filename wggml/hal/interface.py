"""The backend interface: registry -> device -> buffer type -> buffer; a backend is a stream.

Everything above this layer (allocator, scheduler, runtime) works on these classes only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wggml.errors import UnsupportedOpError

if TYPE_CHECKING:
    from wggml.core.graph import Graph
    from wggml.core.tensor import Tensor

Bytes = npt.NDArray[np.uint8]
UNLIMITED = 2**64 - 1


class BufferUsage(IntEnum):
    """What a buffer holds: a WEIGHTS buffer decides where the ops that read it run."""

    ANY = 0
    WEIGHTS = 1
    COMPUTE = 2


class DeviceType(Enum):
    """Kinds of devices, best first when a default is chosen."""

    GPU = "gpu"
    IGPU = "igpu"
    ACCEL = "accel"
    SOFTWARE = "software"  # a GPU API computed on the host's cores
    CPU = "cpu"


class BufferType(ABC):
    """A kind of memory.

    Attributes: `name`; `device` (None for types made for planning only); `alignment` of tensor
    offsets in bytes; `max_size` of one buffer in bytes; `is_host` when the bytes are directly
    readable by the CPU backend.
    """

    name: str
    device: Device | None = None
    alignment: int = 32
    max_size: int = UNLIMITED
    is_host: bool = False

    def alloc_size(self, t: Tensor) -> int:
        """Bytes `t` needs in a buffer of this type; at least `t.nbytes`."""
        return t.nbytes

    @abstractmethod
    def alloc_buffer(self, size: int) -> Buffer:
        """A buffer of exactly `size` bytes; `AllocationError` when it cannot be had."""

    def __repr__(self) -> str:
        return f"<BufferType {self.name}>"


class Buffer(ABC):
    """Memory on a device. Tensors lie in it at `t.data`, a byte offset."""

    buft: BufferType
    size: int
    usage: BufferUsage = BufferUsage.ANY
    freed: bool = False

    @abstractmethod
    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        """Write bytes into `t`, starting `offset` bytes after its first."""

    @abstractmethod
    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        """A copy of `nbytes` (default: all) bytes of `t` from `offset` on."""

    @abstractmethod
    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        """Fill a byte range of `t` with one byte value."""

    @abstractmethod
    def clear(self, value: int = 0) -> None:
        """Fill the whole buffer with one byte value."""

    def host_bytes(self, t: Tensor) -> Bytes | None:
        """The bytes of `t` in place, not a copy, when this is host memory; else None. To be read
        only (`set_tensor` writes); they show later writes and go when the buffer is freed."""
        return None

    def copy_from(self, src: Tensor, dst: Tensor) -> bool:
        """Copy `src` (in any buffer) into `dst`, which lies here, without the host in between;
        False when this buffer cannot."""
        return False

    def init_tensor(self, t: Tensor) -> None:  # noqa: B027 (optional hook)
        """Called once when `t` gets its place here."""

    def reset(self) -> None:  # noqa: B027 (optional hook)
        """Forget what `init_tensor` prepared."""

    @abstractmethod
    def free(self) -> None:
        """Give the memory back; sets `freed`. Calling it twice is allowed."""


class Event(ABC):
    """A point in a backend's stream. `recorded` is False until the first record."""

    recorded: bool = False

    @abstractmethod
    def synchronize(self) -> None:
        """Block until the stream has reached the recorded point."""


class Device(ABC):
    """A piece of hardware (or software) that can compute.

    Attributes: `name` (short, unique in a registry, e.g. `WGPU0`, `CPU`), `description` (what a
    person calls it), `type`.
    """

    name: str
    description: str
    type: DeviceType

    @abstractmethod
    def props(self) -> dict[str, Any]:
        """Facts for people and tools: backend API, driver, limits, features, what is missing."""

    def probe(self) -> dict[str, Any]:
        """Facts that are only learnt by opening the device, such as `subgroup_size`."""
        return {}

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes as far as known, else zeros."""
        return (0, 0)

    @abstractmethod
    def buffer_type(self) -> BufferType:
        """The type its backend computes in."""

    def host_buffer_type(self) -> BufferType | None:
        """Host memory this device can read quickly, if there is such a kind."""
        return None

    @abstractmethod
    def why_not(self, t: Tensor) -> str | None:
        """None when the device runs this op with these operands, else the reason in words."""

    def supports_op(self, t: Tensor) -> bool:
        """True when the device runs this op with these operands."""
        return self.why_not(t) is None

    @abstractmethod
    def supports_buft(self, buft: BufferType) -> bool:
        """True when ops on this device can read operands in buffers of that type."""

    def offload_op(self, t: Tensor) -> bool:
        """True when the op is worth copying host weights to this device for."""
        return False

    @abstractmethod
    def init_backend(self, **options: Any) -> Backend:
        """A new stream on this device."""

    def __repr__(self) -> str:
        return f"<Device {self.name}: {self.description}>"


@dataclass(slots=True)
class Counters:
    """What a backend did since it was made; a test may assert that a field stands still.

    `ahead_seconds` is processor time spent on a later run while the device computed this one.
    """

    graphs: int = 0
    plans_built: int = 0
    plans_replayed: int = 0
    nodes: int = 0
    dispatches: int = 0
    submits: int = 0
    buffers_created: int = 0
    bind_groups_created: int = 0
    pipelines_created: int = 0
    layouts_created: int = 0
    bytes_uploaded: int = 0
    bytes_downloaded: int = 0
    host_seconds: float = 0.0
    ahead_seconds: float = 0.0

    def copy(self) -> Counters:
        """A snapshot."""
        return Counters(*(getattr(self, f) for f in self.__slots__))


KeepAlive = Callable[["Tensor", "Tensor"], None]


class Backend(ABC):
    """A stream on a device: what is handed to it runs in order.

    Attributes: `name` (the device's), `device`, `counters`.
    """

    name: str
    device: Device
    counters: Counters

    # ---- capability, delegated to the device --------------------------------------------------

    def supports_op(self, t: Tensor) -> bool:
        return self.device.supports_op(t)

    def supports_buft(self, buft: BufferType) -> bool:
        return self.device.supports_buft(buft)

    def offload_op(self, t: Tensor) -> bool:
        return self.device.offload_op(t)

    def buffer_type(self) -> BufferType:
        return self.device.buffer_type()

    # ---- data -------------------------------------------------------------------------------

    def set_tensor_async(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        """Like `Buffer.set_tensor`, ordered after what the stream already holds. `data` has been
        taken when this returns, so the caller may overwrite it."""
        self.synchronize()
        _home(t).set_tensor(t, data, offset)

    def get_tensor_async(self, t: Tensor, out: Bytes, offset: int = 0) -> None:
        """Read `out.nbytes` bytes into `out`; valid after `synchronize`."""
        self.synchronize()
        out[:] = _home(t).get_tensor(t, offset, out.nbytes)

    def copy_tensor_async(self, src_backend: Backend, src: Tensor, dst: Tensor) -> bool:
        """Copy `src` (last written by `src_backend`) to `dst` on this stream; False when it has
        no way to do so without waiting, and the caller must synchronise and copy. A backend that
        answers True also sees to it that what `src_backend` runs later cannot overwrite `src`
        before it has been read."""
        return False

    # ---- computing --------------------------------------------------------------------------

    @abstractmethod
    def graph_compute(self, graph: Graph) -> None:
        """Run the graph's nodes in order; may return before they are done (`synchronize`).

        Nodes without the COMPUTE flag are skipped. A non-zero `graph.uid` that was seen before
        means: same nodes, same places; the backend may replay what it compiled for it. The
        records (`src` above all) are to be read before this returns: a scheduler rewires sources
        only for the duration of the call.
        """

    def knows(self, graph: Graph) -> bool:
        """True when `graph_compute` would replay what it compiled for this graph, without a look at
        its records: then a scheduler need not rewire their sources."""
        return False

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all that was handed to the stream is done; errors surface here."""

    def graph_optimize(self, graph: Graph, keep: KeepAlive) -> None:  # noqa: B027 (optional hook)
        """Reorder or annotate `graph` before it is allocated. `keep(t, u)` asks that the memory
        of `t` stays untouched until node `u` has run."""

    # ---- events -----------------------------------------------------------------------------

    def event_new(self) -> Event | None:
        """A fresh event, or None when the backend has none."""
        return None

    def event_record(self, event: Event) -> None:
        raise UnsupportedOpError(f"backend {self.name} has no events")

    def event_wait(self, event: Event) -> None:
        """Make this stream wait for an event of another one."""
        event.synchronize()

    # ---- extensions -------------------------------------------------------------------------

    def extension(self, name: str) -> Callable[..., Any] | None:
        """An optional entry point such as `set_n_threads`, or None."""
        return None

    def close(self) -> None:  # noqa: B027 (optional hook)
        """Release what the stream holds."""

    def __repr__(self) -> str:
        return f"<Backend {self.name}>"


def _home(t: Tensor) -> Buffer:
    return t._buffer_or_raise("access")
