"""Sizes at the edge, on every adapter: more workgroups than one dimension holds, and places near
and past the largest offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from wgpu_lab import Lab, values

from wggml.backends.wgpu.backend import WgpuBackend
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import AllocationError
from wggml.hal.interface import BufferUsage

# ---- grids --------------------------------------------------------------------------------------

# Just what one dimension holds, one more, and a million.
GRIDS = [65535, 65536, 1 << 20]
Made = tuple[Tensor, Callable[[np.ndarray], np.ndarray]]  # of rows [n, 2], and what it should be

ONE_WORKGROUP_A_ROW: dict[str, Callable[[Lab, Tensor], Made]] = {
    "sum_rows": lambda lab, x: (ops.sum_rows(lab.ctx, x), lambda a: a.sum(axis=1)),
    "argmax": lambda lab, x: (ops.argmax(lab.ctx, x), lambda a: a.argmax(axis=1)),
    "soft_max": lambda lab, x: (
        ops.soft_max(lab.ctx, x),
        lambda a: np.exp(a) / np.exp(a).sum(axis=1, keepdims=True),
    ),
    "rms_norm": lambda lab, x: (
        ops.rms_norm(lab.ctx, x, 1e-6),
        lambda a: a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-6),
    ),
    "cumsum": lambda lab, x: (ops.cumsum(lab.ctx, x), lambda a: a.cumsum(axis=1)),
}


@pytest.mark.parametrize("op", ONE_WORKGROUP_A_ROW)
@pytest.mark.parametrize("n", GRIDS)
def test_workgroups(lab: Lab, op: str, n: int) -> None:
    """One workgroup a row, so n rows take n workgroups: a dimension of a grid has 65535."""
    if n > 65536 and op != "sum_rows":
        pytest.skip("a million workgroups take software adapters seconds; one op shows them")
    x = values((n, 2), n)
    t, expect = ONE_WORKGROUP_A_ROW[op](lab, lab.tensor(x))
    want = expect(x.astype(np.float64))
    np.testing.assert_allclose(lab.run(t).reshape(want.shape), want, rtol=2e-5, atol=1e-6)
    assert max(g for d in last_dispatches(lab) for g in d.groups) <= 65535


def last_dispatches(lab: Lab) -> Any:
    return lab.backend.plans[-1].dispatches


@pytest.mark.parametrize("n", GRIDS[:2])
def test_workgroups_of_a_matrix_product(one_lab: Lab, n: int) -> None:
    """Batches of 1 x 1 products, each a workgroup of its own."""
    w, x = values((n, 1, 4), 1), values((n, 1, 4), 2)
    got = one_lab.run(ops.mul_mat(one_lab.ctx, one_lab.tensor(w), one_lab.tensor(x)))
    want = (w.astype(np.float64) * x).sum(axis=-1).reshape(-1)
    np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-5, atol=1e-5)


# ---- offsets ------------------------------------------------------------------------------------

MIB = 1 << 20


def test_the_end_of_the_largest_buffer(backend: WgpuBackend) -> None:
    """Operands at both ends of the largest buffer there may be (2 GiB here, 1 on SwiftShader)."""
    if backend.device.profile.backend_type == "OpenGL":
        pytest.skip("its driver writes all of the buffer first: 12 seconds")
    lab = Lab(backend)
    buft = backend.buffer_type()
    try:
        buffer = lab.buffer(buft.max_size // buft.alignment * buft.alignment)
    except AllocationError as e:
        lab.free()
        pytest.skip(f"not enough memory: {e}")
    shape = (512, 513)
    tensors = [lab.ctx.new_tensor(Type.F32, shape) for _ in range(2)]
    last = (buffer.size - tensors[0].nbytes) // buft.alignment * buft.alignment
    for t, at in zip(tensors, (last, 0), strict=True):
        t.buffer, t.data = buffer, at
    x, y = values(shape[::-1], 1), values(shape[::-1], 2)
    tensors[0].set(x)
    tensors[1].set(y)
    total = ops.add(lab.ctx, tensors[0], tensors[1])
    total.buffer, total.data = buffer, 16 * MIB
    lab.backend.graph_compute(lab.graph(total))
    np.testing.assert_array_equal(total.numpy(), x + y)
    np.testing.assert_array_equal(tensors[0].numpy(), x)
    product = lab.run(ops.mul_mat(lab.ctx, tensors[0], tensors[1]))
    np.testing.assert_allclose(product, y.astype(np.float64) @ x.T, rtol=1e-4, atol=1e-3)
    lab.free()


def test_tensors_past_the_largest_buffer_are_refused(backend: WgpuBackend) -> None:
    """3 GiB in one tensor: no device here has such a buffer, and the error says so."""
    from wggml.alloc.ctx_alloc import alloc_ctx_tensors

    ctx = Context(4)
    ctx.new_tensor(Type.F32, (1024, 768 * 1024), name="huge")
    limit = backend.buffer_type().max_size
    with pytest.raises(AllocationError, match=f"'huge' with {3 << 30} bytes") as e:
        alloc_ctx_tensors(ctx, backend.buffer_type(), BufferUsage.COMPUTE)
    assert str(limit) in str(e.value)


@pytest.mark.parametrize("past", [1 << 31, 1 << 32])
def test_offsets_past_2_31_on_numpy(past: int) -> None:
    """Views, look-ups and products at byte offsets that 31 and 32 bits do not hold. The pages in
    between are never touched, so this costs address space only."""
    from wggml.hal.registry import default_registry

    backend = default_registry().cpu().init_backend()
    ctx = Context(64)
    rows = past // 4096 + 64
    table = ctx.new_tensor(Type.F32, (1024, rows), name="table")
    buffer = backend.buffer_type().alloc_buffer(table.nbytes)
    table.buffer, table.data = buffer, 0
    end = ops.view(ctx, table, (1024, 8), (4096,), (rows - 8) * 4096)
    w, x = values((8, 1024), 1), values((3, 1024), 2)
    small = Lab(backend)  # type: ignore[arg-type]
    small.ctx = ctx
    end.set(w)
    assert end.data is not None and end.data > past
    ids = small.tensor(np.array([rows - 1, rows - 8], np.int32), Type.I32)
    np.testing.assert_array_equal(small.run(ops.get_rows(ctx, table, ids)), w[[7, 0]])
    got = small.run(ops.mul_mat(ctx, end, small.tensor(x)))
    np.testing.assert_allclose(got, x.astype(np.float64) @ w.T, rtol=1e-4, atol=1e-4)
    small.run(ops.cpy(ctx, small.tensor(2 * w), end))
    np.testing.assert_array_equal(end.numpy(), 2 * w)
    small.free()
    buffer.free()
    backend.close()
