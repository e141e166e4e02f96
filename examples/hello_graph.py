"""Build a small graph, plan its memory, run it on every device, and print what was decided.

python examples/hello_graph.py
"""

from __future__ import annotations

import sys

import numpy as np

from wggml import Context, Gallocr, Graph, Type, alloc_ctx_tensors, default_registry, ops
from wggml.errors import WggmlError
from wggml.hal.interface import Device


def main() -> int:
    for device in default_registry().devices():
        try:
            run_on(device)
        except WggmlError as e:
            print(f"{device.name} ({device.description}): {e}", file=sys.stderr)
            return 1
    return 0


def run_on(device: Device) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 64), dtype=np.float32) / 8
    inputs = rng.standard_normal((3, 64), dtype=np.float32)

    # Records only: no memory yet. Sizes are innermost first, so (3, 64) is ne [64, 3].
    ctx = Context(16)
    w = ctx.new_tensor(Type.F32, [64, 8], name="w")
    graph_ctx = Context(16)
    x = graph_ctx.new_tensor(Type.F32, [64, 3], name="x").set_input()
    y = ops.rms_norm(graph_ctx, x, 1e-5)
    y = ops.silu(graph_ctx, ops.mul_mat(graph_ctx, w, y))
    y = ops.soft_max(graph_ctx, y).set_output().set_name("y")
    graph = Graph(16)
    graph.build_forward_expand(y)

    # Weights get a buffer of their own, the rest is planned with reuse and placed in one go.
    buft = device.buffer_type()
    (weight_buffer,) = alloc_ctx_tensors(ctx, buft)
    planner = Gallocr([buft])
    planner.reserve(graph)
    planner.alloc_graph(graph)
    w.set(weights)
    x.set(inputs)

    backend = device.init_backend()
    backend.graph_compute(graph)
    backend.synchronize()
    print(f"\n{device.name}: {device.description}")
    for t in graph.nodes:
        print(f"  {t.name:12} {t.op.name:9} ne {t.ne[:2]!s:10} at byte {t.data}")
    alone = x.nbytes + sum(t.nbytes for t in graph.nodes)
    print(f"  compute buffer: {planner.buffer_size(0)} bytes; without reuse it would be {alone}")
    print("  result", np.round(y.numpy()[0], 4))
    np.testing.assert_allclose(y.numpy(), expected(weights, inputs), rtol=1e-4, atol=1e-6)

    planner.free()
    weight_buffer.free()
    backend.close()


def expected(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    y = x @ w.T
    e = np.exp(y / (1 + np.exp(-y)))
    return e / e.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    raise SystemExit(main())
