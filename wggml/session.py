"""`Session`: tensors from NumPy arrays, operators, results back as arrays.

A session owns what a short script needs: a context, a device with the CPU behind it, and a
scheduler. It adds nothing that core, alloc and sched do not offer by themselves.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.core.arrays import shape_of, type_of
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import UsageError
from wggml.hal.interface import Buffer, BufferUsage, Device, DeviceType
from wggml.hal.registry import Registry, default_registry
from wggml.sched import Sched


class Session:
    """A place to compute in.

    Args:
        device: index or part of a name as `wggml devices` lists them, several separated by commas;
            None takes the best real GPU, else NumPy.
        max_tensors: tensors (arrays and results of operators) it can make.

    Raises `DeviceError` for a device that does not exist.

        with Session() as s:
            a = s.tensor(np.ones((2, 3)))
            print(s.compute(a @ a.T + 1.0))
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        max_tensors: int = 4096,
        registry: Registry | None = None,
    ) -> None:
        reg = registry or default_registry()
        names = [None] if device is None else device.split(",")
        chosen = [reg.best() if n is None else reg.find(n) for n in names]
        self.devices: list[Device] = []
        for d in [*chosen, reg.cpu()]:
            if d not in self.devices and (d.type is not DeviceType.CPU or d is reg.cpu()):
                self.devices.append(d)
        self.devices.sort(key=lambda d: d.type is DeviceType.CPU)
        self.context = Context(max_tensors, name="session")
        self.backends = [d.init_backend() for d in self.devices]
        self.sched = Sched(self.backends, graph_size=4 * max_tensors)
        self._buffers: list[Buffer] = []
        self._current: tuple[tuple[Tensor, ...], Graph] | None = None

    def tensor(
        self, array: npt.ArrayLike, type: Type | None = None, *, device: int = 0, name: str = ""
    ) -> Tensor:
        """A tensor that holds `array` on `devices[device]`; ops that read it are drawn there.

        Shape: `ne` is the array's shape reversed. `type` converts (quantised types included);
        None keeps the array's (float64 becomes F32). Raises `ShapeError` for a shape or dtype that
        cannot be stored.
        """
        import numpy as np

        a = np.asarray(array)
        if type is None:
            type = type_of(a)
        t = self.context.new_tensor(type, shape_of(a), name=name)
        buft = self.devices[device].buffer_type()
        self._buffers += alloc_ctx_tensors([t], buft, usage=BufferUsage.WEIGHTS)
        return t.set(a)

    def compute(self, *results: Tensor) -> Any:
        """Run what `results` depend on; returns an array for one tensor, else a tuple of arrays.

        The same results again reuse the plan. Raises `UsageError` without a tensor.
        """
        if not results:
            raise UsageError("compute needs at least one tensor")
        if self._current is None or self._current[0] != results:
            graph = Graph(2 * self.context.max_tensors)
            for t in results:
                graph.build_forward_expand(t.set_output())
            self.sched.reset()
            self.sched.alloc_graph(graph)
            self._current = (results, graph)
        self.sched.graph_compute(self._current[1])
        arrays = tuple(t.numpy() for t in results)
        return arrays[0] if len(arrays) == 1 else arrays

    def describe(self) -> str:
        """Splits and node assignments of the last computation, as text."""
        return str(self.sched.describe(2))

    def close(self) -> None:
        """Free all memory; tensors of the session cannot be used afterwards."""
        self._current = None
        self.sched.close()
        for b in self._buffers:
            b.free()
        self._buffers.clear()
        for backend in self.backends:
            backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
