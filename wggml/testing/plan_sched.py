"""Replays recorded scheduler scenarios (kind `sched`, graphs of real models included)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wggml.alloc import Gallocr
from wggml.core.graph import Graph
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.errors import AllocationError, SchedulerError, UnsupportedOpError
from wggml.hal.interface import Backend, BufferType, Counters, Device, DeviceType, KeepAlive
from wggml.sched.sched import Sched
from wggml.testing.plan_galloc import galloc_fields, locations
from wggml.testing.plan_graphs import BuiltGraph, GraphBuilder, Spec, StepResult


class MockDevice(Device):
    """What a scenario says about a backend's abilities."""

    def __init__(self, spec: Spec, bufts: list[BufferType]) -> None:
        self.name = spec["name"]
        self.description = "imaginary device"
        self.type = DeviceType[spec["type"]]
        self._buft = bufts[spec["buft"]]
        self._reads = [bufts[i] for i in spec["supports_buft"]]
        ops = spec["supports_op"]
        self._all_but = "all_except" in ops
        self._ops = {Op[o] for o in ops["all_except" if self._all_but else "only"]}
        self._offload = {Op[o] for o in spec.get("offload_op") or ()}
        self._offload_min_ne1: int = spec.get("offload_min_ne1") or 0

    def props(self) -> dict[str, Any]:
        return {}

    def buffer_type(self) -> BufferType:
        return self._buft

    def why_not(self, t: Tensor) -> str | None:
        if (t.op in self._ops) != self._all_but:
            return None
        return f"{t.op.name} is not among its operations"

    def supports_buft(self, buft: BufferType) -> bool:
        return any(buft is b for b in self._reads)

    def offload_op(self, t: Tensor) -> bool:
        return t.op in self._offload and t.ne[1] >= self._offload_min_ne1

    def init_backend(self, **options: Any) -> Backend:
        return MockBackend(self)


class MockBackend(Backend):
    """Runs nothing. `alloc_deps` is what it asks for in `graph_optimize`."""

    def __init__(self, device: MockDevice) -> None:
        self.name = device.name
        self.device = device
        self.counters = Counters()
        self.alloc_deps: list[tuple[Tensor, Tensor]] = []

    def graph_compute(self, graph: Graph) -> None:
        raise UnsupportedOpError(f"{self.name} is imaginary and computes nothing")

    def synchronize(self) -> None:
        pass

    def graph_optimize(self, graph: Graph, keep: KeepAlive) -> None:
        nodes = set(graph.nodes)
        for t, until in self.alloc_deps:
            if until in nodes:
                keep(t, until)


class LoggedGallocr(Gallocr):
    """Writes the outermost calls and their results to `calls`."""

    def __init__(self, bufts: list[BufferType]) -> None:
        super().__init__(bufts, key="positional")
        self.calls: list[list[Any]] = []
        self._inside = False

    def alloc_graph(self, *args: Any, **kwargs: Any) -> bool:
        return self._logged("alloc", super().alloc_graph, *args, **kwargs)

    def reserve_n(self, *args: Any, **kwargs: Any) -> bool:
        return self._logged("reserve", super().reserve_n, *args, **kwargs)

    def reserve_n_size(self, *args: Any, **kwargs: Any) -> list[int]:
        self.calls.append(["reserve_size", True])
        return super().reserve_n_size(*args, **kwargs)

    def _logged(self, name: str, call: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
        if self._inside:
            return call(*args, **kwargs)
        entry = [name, False]
        self.calls.append(entry)
        self._inside = True
        try:
            entry[1] = call(*args, **kwargs)
        finally:
            self._inside = False
        return bool(entry[1])


class Replay:
    """One scheduler, the graphs of a scenario, and what each step does to them."""

    def __init__(self, scenario: Spec, build: GraphBuilder) -> None:
        bufts: list[BufferType] = list(build.bufts)
        self.build = build
        self.graphs = build.build_graphs()
        self.backends = [MockBackend(MockDevice(b, bufts)) for b in scenario["backends"]]
        options = scenario["options"]
        self.sched = Sched(
            self.backends,
            parallel=options["parallel"],
            op_offload=options["op_offload"],
            key="positional",
        )
        self.galloc = LoggedGallocr(list(self.sched.bufts))
        self.sched._galloc = self.galloc

    def step(self, step: Spec) -> StepResult:
        """Run one step: the fields recorded for it."""
        if step["do"] in _SILENT:
            _SILENT[step["do"]](self.sched)
            return {"ret": True}
        built = self.graphs[step["graph"]]
        for t, b in step.get("assign") or ():
            self.sched.set_tensor_backend(built.tensors[t], self.backends[b])
        for backend in self.backends:
            backend.alloc_deps = built.alloc_deps
        self.build.take_log()
        self.galloc.calls.clear()
        result: StepResult = {"ret": True}
        try:
            result |= _STEPS[step["do"]](self.sched, built.graph)
        except AllocationError:
            result["ret"] = False
        result |= split_fields(self.sched, built)
        result["calls"] = [list(c) for c in self.galloc.calls]
        if step["do"] != "split":
            result |= galloc_fields(self.galloc)
            result["log"] = self.build.take_log()
        if step["do"] == "alloc":
            assert self.sched.plan is not None
            for name, ts in (("loc", built.tensors), ("new_loc", list(self.sched.plan.made))):
                result[name] = locations(ts, self.galloc, self.build.buffers)
        return result


def run_sched_scenario(scenario: Spec, build: GraphBuilder) -> list[StepResult]:
    """Run all steps on one scheduler with ggml's own rules; ends after an error."""
    replay = Replay(scenario, build)
    results: list[StepResult] = []
    for step in scenario["steps"]:
        try:
            results.append(replay.step(step))
        except (SchedulerError, UnsupportedOpError) as e:
            results.append({"abort": str(e)})
            break
    return results


def _alloc(sched: Sched, graph: Graph) -> StepResult:
    sched.alloc_graph(graph)
    return {}


def _reserve(sched: Sched, graph: Graph) -> StepResult:
    sched.reserve(graph)
    return {}


def _reserve_size(sched: Sched, graph: Graph) -> StepResult:
    return {"size_out": sched.reserve_size(graph)}


def _split(sched: Sched, graph: Graph) -> StepResult:
    sched.split_graph(graph)
    return {}


_STEPS: dict[str, Callable[[Sched, Graph], StepResult]] = {
    "alloc": _alloc,
    "reserve": _reserve,
    "reserve_size": _reserve_size,
    "split": _split,
}
_SILENT: dict[str, Callable[[Sched], None]] = {"reset": Sched.reset, "sync": Sched.synchronize}


def split_fields(sched: Sched, built: BuiltGraph) -> StepResult:
    """What is recorded after splitting. Rewired sources and added flags are those of the plan: the
    graph itself has neither any more."""
    plan, g = sched.plan, sched.alloc_graph_copy
    assert plan is not None and g is not None
    ids = {t: i for i, t in enumerate([*built.tensors, *plan.made])}
    index = {t: i for i, t in enumerate(built.graph.nodes)}
    added = dict(plan.flag_changes)
    flags = [(i, int(t.flags) | added.get(t, 0)) for i, t in enumerate(built.tensors)]
    return {
        "n_copies": sched.n_copies,
        "cur_copy": sched.cur_copy,
        "splits": [
            [s.backend_id, s.i_start, s.i_end, [ids[t] for t in s.inputs]] for s in sched.splits
        ],
        "tensor_backend": [plan.assignment.id_of(t) for t in built.tensors],
        "new_tensors": _made(sched, ids),
        "src_changes": [[index[r.node], r.i, ids[r.new]] for r in plan.rewires],
        "flags_after": [[i, f] for i, f in flags if f],
        "gnodes": [ids[t] for t in g.graph.nodes],
        "gnode_backend": g.node_ids,
        "gleafs": [ids[t] for t in g.graph.leafs],
        "gleaf_backend": g.leaf_ids,
    }


def _made(sched: Sched, ids: dict[Tensor, int]) -> list[dict[str, Any]]:
    plan = sched.plan
    assert plan is not None
    copy_of = {c: (t, b, k) for (t, b), cs in plan.copies.items() for k, c in enumerate(cs)}
    out: list[dict[str, Any]] = []
    for t in plan.made:
        entry: dict[str, Any] = {"name": t.name, "nbytes": t.nbytes}
        if t in copy_of:
            original, b, k = copy_of[t]
            entry |= {"copy_of": ids[original], "backend": b, "copy": k}
            if t.flags:
                entry["flags"] = int(t.flags)
        else:
            assert t.view_src is not None
            entry |= {"dep_view_of": ids[t.view_src], "view_offs": t.view_offs}
            entry["src"] = [ids[s] for s in t.src if s is not None]
        out.append(entry)
    return out
