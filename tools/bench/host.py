"""What Python costs: processor time of the host for each token, and for each graph built anew.

On a GPU a token's host time is all but the waiting. On the CPU backend the kernels run in the host
itself, so the figure there is the difference to the same token's BLAS calls alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from _common import Figure, Report, device_facts, main, samples_of
from _models import device_of, open_model

from wggml.core.context import Context
from wggml.core.tensor import Tensor, contiguous_nb
from wggml.core.types import Type
from wggml.llama import Llama
from wggml.runtime.batch import Batch, split_simple
from wggml.runtime.graph_inputs import Step

DESCRIPTION = __doc__
TOKEN = 17


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--context", type=int, default=64, help="tokens in the cache")
    p.add_argument("-n", type=int, default=48, help="tokens to measure")


def run(args: argparse.Namespace) -> Report:
    n = 4 if args.quick else args.n
    with open_model(args, n_ctx=max(512, args.context + n + 8)) as llama:
        report = Report("host", f"Host time, {args.model}", {"n": n, "context": args.context})
        report.settings["device"] = device_facts(device_of(llama))
        _tokens(report, llama, args.context, n)
        _rebuilds(report, llama, args.context, 3 if args.quick else 15)
        return report


def _tokens(report: Report, llama: Llama, context: int, n: int) -> None:
    """Floor: as many calls of an empty Python function as there are dispatches."""
    llama.context.kv.clear()
    llama.eval([TOKEN] * context)
    llama.eval([TOKEN], position=context)
    stats, counters = llama.context.stats, [b.counters for b in llama.context.backends]
    before = sum(c.dispatches for c in counters)
    us = []
    for i in range(1, n + 1):
        spent = stats.reuse_cpu_seconds + stats.rebuild_cpu_seconds
        llama.eval([TOKEN], position=context + i)
        us.append((stats.reuse_cpu_seconds + stats.rebuild_cpu_seconds - spent) * 1e6)
    dispatches = (sum(c.dispatches for c in counters) - before) / n
    floor = dispatches * _empty_call() * 1e6
    name = f"{dispatches:.0f} empty calls"
    report.add("token replayed", "us", us, floor=floor, floor_name=name)


def _empty_call() -> float:
    steps: list[Callable[[], None]] = [lambda: None] * 1000

    def walk() -> None:
        for step in steps:
            step()

    return min(samples_of(walk, seconds=0.05)) / len(steps)


def _rebuilds(report: Report, llama: Llama, context: int, n: int) -> None:
    """One token's graph: built, split and allocated, then compiled by the backend (with all its
    caches warm). Floor: making as many tensors."""
    ctx = llama.context
    ubatch = next(iter(split_simple(Batch.of([TOKEN], context + 200), 1)))
    slots = ctx.kv.prepare(ubatch)
    step = Step(ubatch, ctx.kv, slots)
    names = ("build", "split and allocate", "compile and first run", "later run")
    samples: dict[str, list[float]] = {name: [] for name in names}
    for i in range(n + 1):
        marks = [time.perf_counter()]
        ctx._active = None
        ctx.sched.reset()
        graph, inputs, _ = ctx._build(1, 1)
        marks.append(time.perf_counter())
        ctx.sched.alloc_graph(graph)
        marks.append(time.perf_counter())
        for _ in range(2):
            for inp in inputs:
                inp.set(step)
            ctx.sched.graph_compute(graph)
            marks.append(time.perf_counter())
        if i:  # the first one fills caches
            for name, begin, end in zip(names, marks, marks[1:], strict=False):
                samples[name].append((end - begin) * 1e3)
    ctx.kv.undo(slots)
    floor = _tensor_seconds() * len(ctx._ctx.tensors) * 1e3
    name = f"making {len(ctx._ctx.tensors)} tensors"
    whole = zip(*(samples[k] for k in names), strict=True)
    total = [a + b + max(c - d, 0.0) for a, b, c, d in whole]
    report.add("graph rebuilt", "ms", total, floor=floor, floor_name=name)
    report.add("  build", "ms", samples["build"])
    report.add("  split and allocate", "ms", samples["split and allocate"])
    compiled = zip(samples[names[2]], samples[names[3]], strict=True)
    report.add("  compile", "ms", [max(c - d, 0.0) for c, d in compiled])


def _tensor_seconds() -> float:
    ctx, ne = Context(4000), (64, 1, 1, 1)
    nb = contiguous_nb(Type.F32, ne)

    def make() -> None:
        for _ in range(1000):
            Tensor(Type.F32, ne, nb, ctx=ctx)

    return min(samples_of(make, seconds=0.1)) / 1000


def headline(report: Report) -> Figure:
    """Host time of a token."""
    return report.figures[0]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
