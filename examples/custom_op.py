"""An op of your own: WGSL for GPUs, NumPy for the CPU and as the reference of its tests.

python examples/custom_op.py                                      runs it on every device
wggml test-ops -o SNAKE --module examples/custom_op.py -b all     tests it on every device
"""

from __future__ import annotations

import numpy as np

from wggml import Context, Gallocr, Graph, Type, default_registry, ops, register_op
from wggml.hal.interface import Device

WGSL = """
{{ decls }}
{$ include "include/grid.wgsl" $}
alias V = f32;
{$ include "include/math.wgsl" $}

@compute @workgroup_size({{ workgroup_size }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(wg) * {{ workgroup_size }}u + lane;
    if (i >= P.n) { return; }
    let x = {{ src0 }}[P.off_src0 + i];
    let s = sin_of(P.alpha * x);
    {{ dst }}[P.off_dst + i] = x + s * s / P.alpha;
}
"""


def reference(x: np.ndarray, *, alpha: float) -> np.ndarray:
    return x + np.sin(alpha * x) ** 2 / alpha


snake = register_op(
    "SNAKE", wgsl=WGSL, reference=reference, params={"alpha": 1.0}, values=(-3.0, 3.0)
)


def run_on(device: Device, x: np.ndarray) -> np.ndarray:
    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, x.shape[::-1], name="x").set_input()
    y = ops.scale(ctx, snake(ctx, a, alpha=0.5), 2.0).set_output()
    graph = Graph(8)
    graph.build_forward_expand(y)
    planner = Gallocr([device.buffer_type()])
    planner.reserve(graph)
    planner.alloc_graph(graph)
    a.set(x)
    backend = device.init_backend()
    backend.graph_compute(graph)
    backend.synchronize()
    found = y.numpy()
    planner.free()
    backend.close()
    return found


def main() -> None:
    x = np.random.default_rng(0).uniform(-3, 3, (5, 67)).astype(np.float32)
    for device in default_registry().devices():
        found = run_on(device, x)
        error = np.abs(found - 2 * reference(x, alpha=0.5)).max()
        print(f"{device.name:6} {device.description}: largest difference {error:.1e}")


if __name__ == "__main__":
    main()
