"""Peak memory of a fresh process that loads a model and generates, for some CPU cache budgets."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from _common import Figure, Report, main

DESCRIPTION = __doc__

CHILD = """
import json, sys
from wggml.cli.run import choose_device
from wggml.hub import resolve_model
from wggml.llama import GenerationParams, Llama, peak_rss
model, device, cache, n_ctx, n = sys.argv[1:]
before = peak_rss()
path = resolve_model(model, progress=False)
llama = Llama(path, device=choose_device(device or None, -1, show=False), n_ctx=int(n_ctx),
              cpu_cache_mb=float(cache) if cache else None)
params = GenerationParams(max_tokens=int(n), temperature=0.0, ignore_eos=True)
tokens = [17] * (int(n_ctx) // 4)
for _ in llama.generate(tokens, params): pass
s = llama.stats()
known = {"weights": sum(s.weights.values()), "kv": s.kv_cache_bytes,
         "compute": sum(s.compute_buffers.values()), "python": before, "peak": s.peak_rss}
cpu = llama.context.backends[-1]
known["f32 cache"] = cpu.weights.budget - cpu.weights.free
print(json.dumps(known))
"""


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cpu-cache-mb", type=float, nargs="+", help="budgets (default: its own, 0)")
    p.add_argument("--ctx-size", type=int, default=1024)
    p.add_argument("-n", type=int, default=16)


def run(args: argparse.Namespace) -> Report:
    """Floor: the bytes that must be there, weights as stored, caches, and Python with NumPy."""
    n_ctx, n = (64, 2) if args.quick else (args.ctx_size, args.n)
    report = Report("memory", f"Memory, {args.model}", {"n_ctx": n_ctx})
    for budget in [None, 0.0] if args.cpu_cache_mb is None else args.cpu_cache_mb:
        known = _child(args.model, args.device, budget, n_ctx, n)
        what = "default cache" if budget is None else f"cache {budget:g} MiB"
        parts = ("weights", "kv", "compute", "python", "f32 cache")
        floor = sum(known[k] for k in parts) / 2**20
        name = "weights + KV + compute + f32 cache + Python"
        report.add(what, "MiB", [known["peak"] / 2**20], floor=floor, floor_name=name)
        report.notes.append(
            f"{what}: " + ", ".join(f"{k} {known[k] / 2**20:.0f} MiB" for k in parts)
        )
    return report


def _child(
    model: str, device: str | None, budget: float | None, n_ctx: int, n: int
) -> dict[str, int]:
    from wggml.errors import UsageError

    cache = "" if budget is None else str(budget)
    command = [sys.executable, "-c", CHILD, model, device or "", cache, str(n_ctx), str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"the fresh process failed: {done.stderr[-500:]}")
    known: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return known


def headline(report: Report) -> Figure:
    """Peak with the first budget."""
    return report.figures[0]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
