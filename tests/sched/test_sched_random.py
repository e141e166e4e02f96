"""A graph gives the same numbers on several late-running backends as on one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.sched.mocks import (
    Array,
    Machine,
    MemoryType,
    Stream,
    graph_of,
    new_input,
    place,
    read,
    window,
    write,
)
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.hal.interface import BufferUsage
from wggml.sched import Sched

COMPUTE_OPS = (Op.ADD, Op.SUB, Op.MUL, Op.SQR, Op.SCALE, Op.SOFT_MAX, Op.MUL_MAT, Op.CONT, Op.CPY)
ROWS, COLS = 4, 8


class RandomGraph:
    """The same tensors for the same seed, whatever memory the weights lie in."""

    def __init__(self, seed: int, bufts: list[MemoryType]) -> None:
        rng = random.Random(seed)
        self.ctx = Context(1000)
        self.inputs = [new_input(self.ctx, f"in{i}", COLS, ROWS) for i in range(rng.randint(1, 4))]
        self.weights = [self._weight(rng, i, bufts) for i in range(rng.randint(1, 5))]
        self.pool: list[Tensor] = [*self.inputs, *self.weights[: rng.randint(0, 2)]]
        for _ in range(rng.randint(5, 40)):
            self.pool.append(self._node(rng))
        nodes = [t for t in self.pool if t.op != Op.NONE]
        self.heads = [*rng.sample(nodes, min(3, len(nodes))), nodes[-1]]
        for h in self.heads:
            h.set_output()
        self.graph = graph_of(*self.heads)

    def _weight(self, rng: random.Random, i: int, bufts: list[MemoryType]) -> Tensor:
        t = self.ctx.new_tensor(Type.F32, (COLS, ROWS), name=f"w{i}")
        values = np.random.default_rng([i, 7]).standard_normal((ROWS, COLS))
        usage = rng.choice([BufferUsage.WEIGHTS, BufferUsage.WEIGHTS, BufferUsage.ANY])
        # drawn before it is looked up, so that other memory does not change what follows
        return place(t, bufts[int(rng.random() * len(bufts))], values / 3, usage)

    def _node(self, rng: random.Random) -> Tensor:
        ctx, a, b = self.ctx, self._pick(rng), self._pick(rng)
        kind = rng.choice(["binary", "binary", "unary", "view", "mul_mat", "reshape", "cpy"])
        if kind == "binary":
            return rng.choice([ops.add, ops.sub, ops.mul])(ctx, a, b)
        if kind == "unary":
            return self._unary(rng, a)
        if kind == "view":  # the upper rows twice, as two views
            half = ops.view(ctx, a, (COLS, ROWS // 2), offset=a.nb[1] * (ROWS // 2))
            low = ops.view(ctx, a, (COLS, ROWS // 2))
            return ops.reshape(ctx, ops.add(ctx, self._twice(half), self._twice(low)), (COLS, ROWS))
        if kind == "mul_mat":
            square = ops.mul_mat(ctx, rng.choice(self.weights), a)  # [ROWS, ROWS]
            return ops.mul_mat(ctx, ops.cont(ctx, ops.transpose(ctx, b)), square)
        if kind == "reshape":
            flat = ops.reshape(ctx, a, (COLS * ROWS,))
            return ops.reshape(ctx, ops.scale(ctx, flat, 0.5), (COLS, ROWS))
        return ops.cpy(ctx, a, ops.scale(ctx, b, 0.5))  # overwrites what was just computed

    def _twice(self, half: Tensor) -> Tensor:
        stacked = ops.cont(self.ctx, half)
        return ops.mul(self.ctx, self.inputs[0], stacked)  # the second operand repeats

    def _unary(self, rng: random.Random, a: Tensor) -> Tensor:
        pick = rng.choice(["sqr", "scale", "soft_max", "cont"])
        if pick == "sqr":
            return ops.sqr(self.ctx, ops.scale(self.ctx, a, 0.3))
        if pick == "scale":
            return ops.scale_bias(self.ctx, a, 0.7, 0.1)
        if pick == "soft_max":
            return ops.soft_max(self.ctx, a)
        return ops.cont(
            self.ctx, ops.transpose(self.ctx, ops.cont(self.ctx, ops.transpose(self.ctx, a)))
        )

    def _pick(self, rng: random.Random) -> Tensor:
        """Mostly something recent."""
        return self.pool[-rng.randint(1, min(6, len(self.pool)))]

    def set_inputs(self, run: int) -> None:
        for i, t in enumerate(self.inputs):
            if t.buffer is not None:
                write(t, np.random.default_rng([run, i]).standard_normal((ROWS, COLS)) / 2)


def one_backend(seed: int, runs: int) -> list[list[Array]]:
    machine = Machine(0)
    g = RandomGraph(seed, [machine.host])
    with Sched([machine.cpu]) as sched:
        sched.alloc_graph(g.graph)
        out = []
        for run in range(runs):
            g.set_inputs(run)
            sched.graph_compute(g.graph)
            out.append([read(h) for h in g.heads])
        return out


def random_machine(rng: random.Random, events: bool) -> Machine:
    gpu: dict[str, Any] = {"all_but": frozenset(rng.sample(COMPUTE_OPS, rng.randint(0, 4)))}
    gpu["offload"] = frozenset(rng.sample(COMPUTE_OPS, 2))
    machine = Machine(
        rng.randint(1, 2),
        gpu=gpu,
        events=events,
        lazy_cpu=rng.random() < 0.5,
        integrated=rng.random() < 0.3,
        rng=rng,
    )
    for a in machine.gpus:
        if rng.random() < 0.4:
            a.device.reads += (machine.host,)  # works on host memory in place
        if rng.random() < 0.5:
            a.peers = [b for b in machine.gpus if b is not a]
    return machine


def snapshot(graph: Graph) -> list[Any]:
    return [
        (t, t.op, t.flags, tuple(t.src), t.view_src, t.name) for t in (*graph.leafs, *graph.nodes)
    ]


def assert_close(got: list[Array], want: list[Array]) -> None:
    for a, b in zip(got, want, strict=True):
        assert np.isfinite(b).all()
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_same_numbers_as_one_backend(seed: int) -> None:
    rng = random.Random(seed + 1000)
    machine = random_machine(rng, events=False)
    g = RandomGraph(seed, [machine.host, *machine.vram])
    before = snapshot(g.graph)
    with Sched(machine.streams, n_copies=rng.choice([1, 1, 2])) as sched:
        if rng.random() < 0.5:
            sched.reserve(g.graph)
            assert snapshot(g.graph) == before
        sched.alloc_graph(g.graph)
        for run, want in enumerate(one_backend(seed, 3)):
            g.set_inputs(run)
            sched.graph_compute(g.graph)
            assert snapshot(g.graph) == before
            assert_close([read(h) for h in g.heads], want)
        assert all(s.counters.plans_built <= sched.n_splits for s in machine.streams)


@pytest.mark.parametrize("events", [True, False], ids=["events", "no events"])
@pytest.mark.parametrize("seed", range(40))
def test_runs_in_flight(seed: int, events: bool) -> None:
    """A new graph for every batch and no wait in between, as with pipeline parallelism."""
    rng = random.Random(seed + 2000)
    machine = random_machine(rng, events)
    runs = 7
    pending: list[list[Array]] = []
    with Sched(machine.streams, parallel=True) as sched:
        sched.reserve(RandomGraph(seed, [machine.host, *machine.vram]).graph)
        indices = []
        for run in range(runs):
            sched.reset()
            g = RandomGraph(seed, [machine.host, *machine.vram])
            sched.alloc_graph(g.graph)
            indices.append(sched.cur_copy)
            g.set_inputs(run)
            sched.graph_compute_async(g.graph)
            pending.append([begin_reading(sched, h) for h in g.heads])
        sched.synchronize()
        assert indices == [0, 1, 2, 3, 0, 1, 2]
        for got, want in zip(pending, one_backend(seed, runs), strict=True):
            assert_close(got, [w.reshape(a.shape) for a, w in zip(got, want, strict=True)])


def begin_reading(sched: Sched, t: Tensor) -> Array:
    backend = sched.get_tensor_backend(t)
    assert isinstance(backend, Stream)
    out = np.empty(t.nbytes, np.uint8)
    backend.get_tensor_async(t, out)
    return out.view(np.float32).reshape(window(t).shape)


def test_the_mock_notices_a_missing_wait() -> None:
    """The tests above mean something only if late streams give wrong numbers without waits."""
    machine = Machine(1)
    t = place(Context().new_tensor(Type.F32, (4,)), machine.vram[0], np.zeros(4))
    machine.gpus[0].set_tensor_async(t, np.ones(4, np.float32).view(np.uint8))
    assert (read(t) == 0).all()
    machine.gpus[0].synchronize()
    assert (read(t) == 1).all()


def test_outputs_are_flagged() -> None:
    g = RandomGraph(0, [Machine(0).host])
    assert all(h.flags & Flag.OUTPUT for h in g.heads)


def test_one_memory_plan_serves_every_copy_index() -> None:
    machine = Machine()
    with Sched(machine.streams, parallel=True) as sched:
        plans, places = [], []
        for _ in range(5):
            sched.reset()
            g = RandomGraph(3, [machine.host, *machine.vram])
            sched.alloc_graph(g.graph)
            plans.append(sched._galloc.n_plans)
            places.append([t.data for t in g.inputs if t.buffer is not None])
        assert plans == [1] * 5
        assert places[0] != places[1]
        assert places[0] == places[4]
