"""One token's timeline: device times add up, all host phases are there, nothing stays wrapped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wggml.backends.wgpu.timing import TimedRun, time_plan
from wggml.errors import DeviceError, UsageError
from wggml.inspect.chrome import chrome_trace
from wggml.inspect.families import FAMILIES
from wggml.inspect.spans import HOST, Span, Spans
from wggml.inspect.trace import PHASES, Trace, trace_token
from wggml.inspect.trace_text import trace_text
from wggml.llama import Llama

Open = Callable[..., Llama]


def check_chrome_schema(data: Any) -> None:
    """The parts of Chrome's trace event format that viewers rely on."""
    assert set(data) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert data["displayTimeUnit"] in ("ms", "ns")
    named = set()
    open_until: dict[int, list[float]] = {}
    last: dict[int, float] = {}
    for e in data["traceEvents"]:
        assert isinstance(e["name"], str) and e["name"]
        assert isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert e["ph"] in ("X", "M")
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "thread_sort_index")
            named.add(e["tid"])
            continue
        assert isinstance(e["cat"], str)
        assert isinstance(e["ts"], float) and isinstance(e["dur"], float) and e["dur"] >= 0
        tid, begin, end = e["tid"], e["ts"], e["ts"] + e["dur"]
        assert tid in named
        assert begin >= last.get(tid, begin) - 1e-3, "events of a thread are not in order"
        last[tid] = begin
        stack = open_until.setdefault(tid, [])
        while stack and stack[-1] <= begin + 2e-3:
            stack.pop()
        assert not stack or end <= stack[-1] + 2e-3, f"{e} is neither inside nor outside"
        stack.append(end)


def test_gpu_times_sum_to_the_tokens_own_interval(open_tiny: Open, gpu: str):
    with open_tiny(gpu) as llama:
        trace = trace_token(llama, "abc", 4)
        (device,) = trace.devices
        plan = llama.context.backends[0].plans[-1]  # type: ignore[attr-defined]
    spans = [s for s in trace.spans if s.track == device.name]
    assert len(spans) == device.dispatches == len(plan.dispatches) > 10
    assert sum(s.duration for s in spans) == pytest.approx(device.sum_us)
    assert device.sum_us == pytest.approx(device.interval_us, rel=0.1)
    assert device.interval_us <= trace.total_us
    assert trace.reused and trace.plain_us > 0
    rows = [r for r in trace.families() if r.track == device.name]
    assert sum(r.us for r in rows) == pytest.approx(device.sum_us)
    assert sum(r.share for r in rows) == pytest.approx(1.0)
    assert {r.family for r in rows} >= {"matmul", "attention"} <= set(FAMILIES)


def test_phases_of_the_host(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2) as llama:
        first, later = trace_token(llama, "abc", 1), trace_token(llama, "abc", 3)
    for trace in (first, later):
        phases = trace.phases()
        assert list(phases) == list(PHASES)
        assert all(us >= 0 for us in phases.values())
        assert sum(phases.values()) <= trace.total_us * 1.001
        always = ("build", "inputs", "copy", "record", "submit", "compute", "wait", "readback")
        assert all(phases[name] > 0 for name in (*always, "sample")), phases
    assert not first.reused and first.phases()["split"] > 0 and first.phases()["alloc"] > 0
    assert later.reused and later.phases()["split"] == later.phases()["alloc"] == 0
    assert later.phases()["compile"] == 0  # what tracing itself needs was made the token before


def test_cpu_nodes_are_timed_one_by_one(open_tiny: Open):
    with open_tiny("cpu") as llama:
        trace = trace_token(llama, "abc", 3)
    nodes = [s for s in trace.spans if s.track == "CPU"]
    assert any(s.name.startswith("MUL_MAT result_output") for s in nodes)
    assert sum(s.duration for s in nodes) <= trace.phases()["compute"] * 1.01 + 1
    assert trace.devices == []


def test_a_traced_token_is_the_same_and_nothing_stays_wrapped(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2) as llama:
        tokens = llama.tokenize("abc")
        token = int(np.argmax(llama.eval(tokens)[-1]))
        expected = llama.eval([token], position=len(tokens))
        own = [dict(vars(x)) for x in (llama.context.sched, *llama.context.backends)]
        trace_token(llama, "abc", 2)
        for before, x in zip(own, (llama.context.sched, *llama.context.backends), strict=True):
            assert set(vars(x)) == set(before)
        assert not [k for k, v in vars(llama.context).items() if callable(v) and k[1:] == "read"]
        llama.context.kv.clear()
        llama.eval(tokens)
        assert np.array_equal(llama.eval([token], position=len(tokens)), expected)


def test_chrome_trace(open_tiny: Open, gpu: str):
    with open_tiny(gpu, n_gpu_layers=2) as llama:
        trace = trace_token(llama, "abc", 3)
    data = json.loads(json.dumps(chrome_trace(trace)))
    check_chrome_schema(data)
    events = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(trace.spans)
    assert len({e["tid"] for e in events}) == 3  # host, GPU, CPU
    assert json.dumps(trace.to_json())


def test_without_timestamps_the_host_is_still_traced(open_tiny: Open, gpu: str, monkeypatch):
    def refuse(*_args: object) -> None:
        raise DeviceError("device has no timestamps")

    monkeypatch.setattr(TimedRun, "__init__", refuse)
    with open_tiny(gpu) as llama:
        trace = trace_token(llama, "abc", 3)
    assert trace.notes == ["device has no timestamps"] and trace.devices == []
    assert trace.phases()["submit"] > 0 and trace.phases()["wait"] > 0
    assert "no timestamps" in trace_text(trace)


def test_one_pass_each_where_there_are_no_timestamps_inside(open_tiny: Open, gpu: str):
    with open_tiny(gpu) as llama:
        llama.eval([3, 5])
        backend: Any = llama.context.backends[0]
        device, plan = backend.device, backend.plans[-1]
        inside = TimedRun(device, plan).read()
        device.profile = replace(device.profile, timestamps=False)
        if "timestamp-query" not in device.gpu.features:
            pytest.skip("no timestamps at all")
        TimedRun.warm_up(device)
        apart = TimedRun(device, plan).read()
        del device.profile
        least = time_plan(device, plan, runs=2)
    for run in (inside, apart):
        assert [t.node for t in run.timings] == [d.node for d in plan.dispatches]
        starts = [t.start for t in run.timings]
        assert starts == sorted(starts) and all(t.ns >= 0 for t in run.timings)
        assert sum(t.ns for t in run.timings) <= run.interval * 1.001
    assert [t.label for t in least] == [d.label for d in plan.dispatches]


def test_self_time_of_nested_phases():
    spans = [
        Span(HOST, "build", 0, 100, "build"), Span(HOST, "split", 10, 30, "split"),
        Span(HOST, "alloc", 50, 20, "alloc"), Span(HOST, "compile", 52, 5, "compile"),
        Span(HOST, "wait", 100, 50, "wait"),
    ]  # fmt: skip
    phases = Trace("t", "", 160, 0, False, spans, []).phases()
    used = {k: v for k, v in phases.items() if v}
    assert used == {"build": 50, "split": 30, "alloc": 15, "compile": 5, "wait": 50}


def test_spans_unwrap_what_they_wrapped():
    class Thing:
        def work(self) -> int:
            return 7

    thing = Thing()
    with Spans() as spans:
        spans.wrap(thing, "work", "compute")
        assert thing.work() == 7
    assert [s.family for s in spans.spans] == ["compute"] and "work" not in vars(thing)
    assert thing.work() == 7 and len(spans.spans) == 1


def test_a_token_that_does_not_exist_is_refused(open_tiny: Open):
    with open_tiny("cpu") as llama:
        for token in (0, 513):
            with pytest.raises(UsageError, match="cannot be traced"):
                trace_token(llama, "abc", token)
