"""Nodes of a computed graph as cases that run again elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wggml.alloc.ctx_alloc import alloc_ctx_tensors
from wggml.backends.cpu.backend import CpuBackend
from wggml.backends.cpu.device import CpuDevice
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import AllocationError, ShapeError
from wggml.hal.interface import BufferUsage
from wggml.testing.capture import capture_case, capture_inputs, write_cases
from wggml.testing.opcases import iter_cases, run_case
from wggml.testing.opdata import OpCase, is_real, read_values


@pytest.fixture
def backend() -> CpuBackend:
    return CpuDevice().init_backend()


def fill(ctx: Context) -> None:
    rng = np.random.default_rng(3)
    for t in ctx.tensors:
        if not t.src and t.view_src is None:
            ids = t.type in (Type.I32, Type.I64)
            t.set(rng.integers(0, 3, t.ne[::-1]) if ids else rng.standard_normal(t.ne[::-1]))


def captured(build: Callable[[Context], Tensor], backend: CpuBackend) -> tuple[OpCase, Tensor]:
    """The case of the last node, its inputs taken before it ran and its result after."""
    ctx = Context(32)
    graph = Graph(32)
    graph.build_forward_expand(build(ctx))
    alloc_ctx_tensors(ctx, backend.buffer_type(), BufferUsage.COMPUTE)
    fill(ctx)
    node = [n for n in graph.nodes if is_real(n)][-1]
    at = graph.nodes.index(node)
    backend.graph_compute(graph.view(0, at))
    inputs = capture_inputs(node)
    backend.graph_compute(graph.view(at, at + 1))
    return capture_case(node, inputs=inputs), node


def _product_of_a_window(ctx: Context) -> Tensor:
    w, x = ctx.new_tensor(Type.Q4_0, (64, 6)), ctx.new_tensor(Type.F32, (96, 5, 2))
    return ops.mul_mat(ctx, w, ops.view(ctx, x, (64, 4, 2), (x.nb[1], x.nb[2]), 32))


def _in_place(ctx: Context) -> Tensor:
    return ops.add(ctx, ctx.new_tensor(Type.F32, (7, 3)), ctx.new_tensor(Type.F32, (7,)),
                   inplace=True)  # fmt: skip


def _rows_into_a_window(ctx: Context) -> Tensor:
    cache = ctx.new_tensor(Type.F16, (8, 10))
    part = ops.view(ctx, cache, (8, 4), (cache.nb[1],), 3 * cache.nb[1])
    rows, ids = ctx.new_tensor(Type.F32, (8, 2)), ctx.new_tensor(Type.I64, (2,))
    return ops.set_rows(ctx, part, rows, ids)


def _two_windows_of_one_root(ctx: Context) -> Tensor:
    x = ctx.new_tensor(Type.F32, (8, 6))
    top, bottom = (ops.view(ctx, x, (8, 3), (x.nb[1],), i * 3 * x.nb[1]) for i in (0, 1))
    return ops.mul(ctx, top, bottom)


def _cast(ctx: Context) -> Tensor:
    return ops.cast(ctx, ops.sqr(ctx, ctx.new_tensor(Type.F32, (8, 6))), Type.F16)


BUILDS = [_product_of_a_window, _in_place, _rows_into_a_window, _two_windows_of_one_root, _cast]


@pytest.mark.parametrize("build", BUILDS)
def test_a_captured_case_repeats_what_the_node_did(
    build: Callable[[Context], Tensor], backend: CpuBackend, tmp_path: Path
) -> None:
    case, node = captured(build, backend)
    assert run_case(case, backend).status == "pass"
    [o] = case.outputs
    ref = read_values(case.bytes_at(o.data), case.tensors[o.id])
    assert node.placed_in is not None
    np.testing.assert_array_equal(ref, read_values(node.placed_in.get_tensor(node), node))
    write_cases(tmp_path, [case])
    [again] = iter_cases(tmp_path)
    assert (again.id, again.op, again.vars) == (case.id, case.op, case.vars)
    assert run_case(again, backend).status == "pass"


def test_a_window_is_stored_without_the_rest_of_its_root(backend: CpuBackend) -> None:
    case, _ = captured(_rows_into_a_window, backend)
    assert [t.ne for t in case.tensors if t.data is not None].count((8, 4, 1, 1)) == 1


def test_a_wrong_reference_shows(backend: CpuBackend) -> None:
    case, node = captured(_in_place, backend)
    wrong = capture_case(node, reference=np.zeros(node.nbytes, np.uint8))
    assert run_case(case, backend).status == "pass"
    assert run_case(wrong, backend).status == "fail"


def test_what_cannot_be_captured(backend: CpuBackend) -> None:
    ctx = Context(8)
    a = ctx.new_tensor(Type.F32, (4,))
    with pytest.raises(ShapeError, match="computes nothing"):
        capture_case(ops.reshape(ctx, a, (2, 2)))
    with pytest.raises(AllocationError, match="has no memory"):
        capture_case(ops.sqr(ctx, a))


def test_files_need_cases_of_their_own_ids(backend: CpuBackend, tmp_path: Path) -> None:
    case, _ = captured(_in_place, backend)
    with pytest.raises(ShapeError, match="two cases have the id"):
        write_cases(tmp_path, [case, case])
    with pytest.raises(ShapeError, match="no case to write"):
        write_cases(tmp_path, [])
