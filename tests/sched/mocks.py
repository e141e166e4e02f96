"""Backends on NumPy memory whose streams run late, so that a missing wait shows as wrong numbers.

Work is queued and runs when someone waits for it, or a little earlier at random. Memory is poisoned
with NaN when it is made. What happens is written to a log that backends share.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import (
    Backend,
    Buffer,
    BufferType,
    BufferUsage,
    Bytes,
    Counters,
    Device,
    DeviceType,
    Event,
    KeepAlive,
)

Array = npt.NDArray[Any]
DTYPES = {Type.F32: np.float32, Type.I32: np.int32}


# ---- memory --------------------------------------------------------------------------------------


class MemoryType(BufferType):
    def __init__(self, name: str, *, host: bool, alignment: int = 32) -> None:
        self.name = name
        self.is_host = host
        self.alignment = alignment

    def alloc_buffer(self, size: int) -> Memory:
        return Memory(self, size)


class Memory(Buffer):
    def __init__(self, buft: BufferType, size: int) -> None:
        self.buft = buft
        self.size = size
        self.usage = BufferUsage.ANY
        self.freed = False
        self.bytes = np.full(size, 0xFF, np.uint8)  # NaN as f32, -1 as i32

    def _window(self, t: Tensor, offset: int, n: int) -> Bytes:
        assert not self.freed and t.data is not None
        begin = t.data + offset
        assert begin >= 0 and begin + n <= self.size
        return self.bytes[begin : begin + n]

    def set_tensor(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        self._window(t, offset, data.size)[:] = data

    def get_tensor(self, t: Tensor, offset: int = 0, nbytes: int | None = None) -> Bytes:
        return self._window(t, offset, t.nbytes - offset if nbytes is None else nbytes).copy()

    def host_bytes(self, t: Tensor) -> Bytes | None:
        return self._window(t, 0, t.nbytes) if self.buft.is_host else None

    def memset_tensor(self, t: Tensor, value: int, offset: int, nbytes: int) -> None:
        self._window(t, offset, nbytes)[:] = value

    def clear(self, value: int = 0) -> None:
        self.bytes[:] = value

    def free(self) -> None:
        self.freed = True


def window(t: Tensor) -> Array:
    """The tensor's elements [i3, i2, i1, i0] in place."""
    home = t.placed_in
    if not t.n_elements:
        return np.empty(t.ne[::-1], DTYPES[t.type])
    assert isinstance(home, Memory) and t.data is not None, f"{t.name} is nowhere"
    assert not home.freed, f"{t.name} lies in freed memory"
    shape, strides = t.ne[::-1], t.nb[::-1]
    return np.ndarray(shape, DTYPES[t.type], buffer=home.bytes, offset=t.data, strides=strides)


# ---- a tiny interpreter ------------------------------------------------------------------------


def _mul_mat(out: Array, a: Array, b: Array) -> None:
    r2, r3 = b.shape[1] // a.shape[1], b.shape[0] // a.shape[0]
    a = a.repeat(r2, axis=1).repeat(r3, axis=0)
    out[:] = np.einsum("...nk,...mk->...mn", a, b)


def _mul_mat_id(out: Array, experts: Array, b: Array, ids: Array) -> None:
    for t in range(out.shape[1]):
        for u in range(out.shape[2]):
            out[0, t, u] = experts[0, ids[0, 0, t, u]] @ b[0, t, u % b.shape[2]]


def _get_rows(out: Array, a: Array, ids: Array) -> None:
    out[:] = a[:, :, ids[0, 0, 0]]


def _tile(b: Array, like: Array) -> Array:
    return np.tile(b, [n // m for n, m in zip(like.shape, b.shape, strict=True)])


def _scale(t: Tensor) -> Callable[..., None]:
    s, bias = np.float32(t.param_f32(0)), np.float32(t.param_f32(1))

    def run(out: Array, a: Array) -> None:
        out[:] = a * s + bias

    return run


def _copy(out: Array, a: Array, *_: Array) -> None:
    out[:] = a.copy().reshape(out.shape)


def _add(out: Array, a: Array, b: Array) -> None:
    out[:] = a + _tile(b, a)


def _sub(out: Array, a: Array, b: Array) -> None:
    out[:] = a - _tile(b, a)


def _mul(out: Array, a: Array, b: Array) -> None:
    out[:] = a * _tile(b, a)


def _sqr(out: Array, a: Array) -> None:
    out[:] = a * a


def _soft_max(out: Array, a: Array) -> None:
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    out[:] = e / e.sum(axis=-1, keepdims=True)


KERNELS: dict[Op, Callable[..., None]] = {
    Op.ADD: _add,
    Op.SUB: _sub,
    Op.MUL: _mul,
    Op.SQR: _sqr,
    Op.SOFT_MAX: _soft_max,
    Op.MUL_MAT: _mul_mat,
    Op.MUL_MAT_ID: _mul_mat_id,
    Op.GET_ROWS: _get_rows,
    Op.CONT: _copy,
    Op.DUP: _copy,
    Op.CPY: _copy,
}


def compiled(t: Tensor) -> Callable[[], None]:
    """What computes `t`, with all places looked up now."""
    kernel = _scale(t) if t.op == Op.SCALE else KERNELS[t.op]
    out, sources = window(t), [window(s) for s in t.src if s is not None]
    return lambda: kernel(out, *sources)


# ---- streams ------------------------------------------------------------------------------------


class MockEvent(Event):
    def __init__(self) -> None:
        self.recorded = False
        self.stream: Stream | None = None
        self.mark = 0

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.log.append(f"event_sync {self.stream.name}")
            self.stream.run_to(self.mark)


class MockDevice(Device):
    """`ops`: what it runs (None: everything but `all_but`); `reads`: memory besides its own."""

    def __init__(
        self,
        name: str,
        type_: DeviceType,
        buft: BufferType,
        *,
        reads: tuple[BufferType, ...] = (),
        ops: set[Op] | None = None,
        all_but: frozenset[Op] = frozenset(),
        offload: frozenset[Op] = frozenset(),
    ) -> None:
        self.name = name
        self.description = name
        self.type = type_
        self.buft = buft
        self.reads = (buft, *reads)
        self.ops = ops
        self.all_but = all_but
        self.offload = offload

    def props(self) -> dict[str, Any]:
        return {}

    def buffer_type(self) -> BufferType:
        return self.buft

    def why_not(self, t: Tensor) -> str | None:
        if t.op in self.all_but or (self.ops is not None and t.op not in self.ops):
            return f"has no {t.op.name} kernel"
        return None

    def supports_buft(self, buft: BufferType) -> bool:
        return any(buft is b for b in self.reads)

    def offload_op(self, t: Tensor) -> bool:
        return t.op in self.offload

    def init_backend(self, **options: Any) -> Stream:
        return Stream(self, **options)


class Stream(Backend):
    """A backend that runs its queue late.

    Args:
        log: shared list of what happened, in order.
        eager: run everything at once, as a CPU does.
        peers: streams it can copy from without the host.
        rng: when given, now and then runs some of the queue early.
        events: whether it has events.
    """

    def __init__(
        self,
        device: MockDevice,
        *,
        log: list[str] | None = None,
        eager: bool = False,
        events: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        self.device: MockDevice = device
        self.name = device.name
        self.counters = Counters()
        self.log: list[str] = [] if log is None else log
        self.eager = eager
        self.has_events = events
        self.rng = rng
        self.peers: list[Stream] = []
        self.keep: list[tuple[Tensor, Tensor]] = []
        self.plans: dict[int, list[Callable[[], None]]] = {}
        self._queue: list[Callable[[], None]] = []
        self._done = 0

    # ---- the queue

    def submit(self, work: Callable[[], None]) -> int:
        self._queue.append(work)
        if self.eager:
            self.run_to(len(self._queue))
        elif self.rng is not None and self.rng.random() < 0.3:
            self.run_to(self.rng.randint(self._done, len(self._queue)))
        return len(self._queue)

    def run_to(self, mark: int) -> None:
        while self._done < mark:
            self._done += 1
            self._queue[self._done - 1]()

    @property
    def submitted(self) -> int:
        return len(self._queue)

    @property
    def idle(self) -> bool:
        return self._done == len(self._queue)

    # ---- data

    def set_tensor_async(self, t: Tensor, data: Bytes, offset: int = 0) -> None:
        self.log.append(f"set {self.name} {t.name} {offset}+{data.size}")
        home, taken, at = t.placed_in, data.copy(), t.data
        assert isinstance(home, Memory) and at is not None
        target = home.bytes[at + offset : at + offset + data.size]
        self.submit(lambda: target.__setitem__(slice(None), taken))

    def get_tensor_async(self, t: Tensor, out: Bytes, offset: int = 0) -> None:
        self.log.append(f"get {self.name} {t.name}")
        home, at = t.placed_in, t.data
        assert isinstance(home, Memory) and at is not None
        source = home.bytes[at + offset : at + offset + out.size]
        self.submit(lambda: out.__setitem__(slice(None), source))

    def copy_tensor_async(self, src_backend: Backend, src: Tensor, dst: Tensor) -> bool:
        if not any(src_backend is p for p in self.peers):
            return False
        assert isinstance(src_backend, Stream)
        self.log.append(f"copy {self.name} {src.name} -> {dst.name}")
        peer, mark = src_backend, src_backend.submitted
        source, target = window(src), window(dst)

        def copy() -> None:
            peer.run_to(mark)
            target[:] = source

        mine = self.submit(copy)
        peer.submit(lambda: self.run_to(mine))  # nothing may overwrite `src` before it is read
        return True

    # ---- computing

    def graph_compute(self, graph: Graph) -> None:
        self.log.append(f"compute {self.name} {len(graph.nodes)}")
        self.counters.graphs += 1
        plan = self.plans.get(graph.uid) if graph.uid else None
        if plan is None:
            nodes = [t for t in graph.nodes if t.op not in EMPTY_OPS and t.flags & Flag.COMPUTE]
            for t in nodes:
                assert self.supports_op(t), f"{self.name} was given {t.name} ({t.op.name})"
                for s in (t, *(s for s in t.src if s is not None)):
                    home = s.placed_in
                    assert home is not None, f"{s.name} of {t.name} is nowhere"
                    assert self.supports_buft(home.buft), f"{self.name} cannot read {s.name}"
            plan = [compiled(t) for t in nodes]
            self.counters.nodes += len(nodes)
            self.counters.plans_built += 1
            if graph.uid:
                self.plans[graph.uid] = plan
        else:
            self.counters.plans_replayed += 1
        for work in plan:
            self.submit(work)

    def knows(self, graph: Graph) -> bool:
        return graph.uid in self.plans

    def synchronize(self) -> None:
        self.log.append(f"sync {self.name}")
        self.run_to(len(self._queue))

    def graph_optimize(self, graph: Graph, keep: KeepAlive) -> None:
        nodes = set(graph.nodes)
        for t, until in self.keep:
            if until in nodes:
                keep(t, until)

    # ---- events

    def event_new(self) -> Event | None:
        return MockEvent() if self.has_events else None

    def event_record(self, event: Event) -> None:
        assert isinstance(event, MockEvent)
        self.log.append(f"record {self.name}")
        event.recorded, event.stream, event.mark = True, self, self.submitted

    def event_wait(self, event: Event) -> None:
        assert isinstance(event, MockEvent) and event.stream is not None
        stream, mark = event.stream, event.mark
        self.log.append(f"wait {self.name} for {stream.name}")
        self.submit(lambda: stream.run_to(mark))


# ---- machines ------------------------------------------------------------------------------------


class Machine:
    """GPU0 (and GPU1), and a CPU last; `streams` share one log."""

    def __init__(
        self,
        n_gpus: int = 1,
        *,
        gpu: dict[str, Any] | None = None,
        cpu: dict[str, Any] | None = None,
        events: bool = False,
        lazy_cpu: bool = False,
        integrated: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        self.log: list[str] = []
        self.host = MemoryType("CPU", host=True)
        self.vram = [MemoryType(f"GPU{i}", host=False, alignment=64) for i in range(n_gpus)]
        if integrated:  # GPU0 has no memory of its own
            self.vram[0] = self.host
        self.gpus = [
            MockDevice(f"GPU{i}", DeviceType.GPU, v, **(gpu or {})).init_backend(
                log=self.log, events=events, rng=rng
            )
            for i, v in enumerate(self.vram)
        ]
        self.cpu = MockDevice("CPU", DeviceType.CPU, self.host, **(cpu or {})).init_backend(
            log=self.log, eager=not lazy_cpu, events=events, rng=rng
        )
        self.streams = [*self.gpus, self.cpu]

    def take_log(self) -> list[str]:
        taken = list(self.log)
        self.log.clear()
        return taken


def place(
    t: Tensor,
    buft: MemoryType,
    values: Array | None = None,
    usage: BufferUsage = BufferUsage.WEIGHTS,
) -> Tensor:
    """Put `t` in a buffer of its own and fill it."""
    buffer = buft.alloc_buffer(t.nbytes)
    buffer.usage = usage
    t.buffer, t.data = buffer, 0
    if values is not None:
        buffer.set_tensor(
            t, np.ascontiguousarray(values, DTYPES[t.type]).reshape(-1).view(np.uint8)
        )
    return t


def new_input(ctx: Context, name: str, *ne: int, type_: Type = Type.F32) -> Tensor:
    return ctx.new_tensor(type_, ne, name=name).set_input()


def new_weight(ctx: Context, name: str, buft: MemoryType, *ne: int, seed: int = 0) -> Tensor:
    t = ctx.new_tensor(Type.F32, ne, name=name)
    rng = np.random.default_rng([seed, *name.encode()])
    return place(t, buft, rng.standard_normal(t.n_elements).astype(np.float32))


def graph_of(*heads: Tensor, size: int = 4096) -> Graph:
    g = Graph(size)
    for h in heads:
        g.build_forward_expand(h)
    return g


def write(t: Tensor, values: Array) -> None:
    """What a user does to set an input."""
    assert t.buffer is not None
    t.buffer.set_tensor(t, np.ascontiguousarray(values, DTYPES[t.type]).reshape(-1).view(np.uint8))


def read(t: Tensor) -> Array:
    """The values of a tensor whose backend is idle."""
    return window(t).copy()
