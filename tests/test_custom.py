"""Ops of one's own: in graphs, on every device, in the harness, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.conftest import REPO, find_adapter
from wggml import Context, Graph, Type, custom, ops, register_op
from wggml.cli.test_ops import test_ops as command
from wggml.custom import CustomOp
from wggml.errors import ShapeError, UsageError
from wggml.hal.registry import default_registry
from wggml.sched import Sched
from wggml.testing.builtin.custom import recipes_of
from wggml.testing.pytest_plugin import run_examples

HEAD = """{{ decls }}
{$ include "include/grid.wgsl" $}
@compute @workgroup_size({{ workgroup_size }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(wg) * {{ workgroup_size }}u + lane;
    if (i >= P.n) { return; }
"""
AXPY = HEAD + """    {{ dst }}[P.off_dst + i] =
        P.a * {{ src0 }}[P.off_src0 + i] + {{ src1 }}[P.off_src1 + i] + f32(P.k);
}
"""
# the sum of each row, of operands with any strides; the index of its largest value
ROWS = HEAD + """    let i1 = i % P.dst_ne1;
    let i2 = i / P.dst_ne1 % P.dst_ne2;
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i / (P.dst_ne1 * P.dst_ne2) * P.src0_s3;
    var sum = 0.0;
    for (var i0 = 0u; i0 < P.src0_ne0; i0++) {
        sum += f32({{ src0 }}[x + i0 * P.src0_s0]);
    }
    {{ dst }}[P.off_dst + i] = {{ result }};
}
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = dict(custom._registered)
    modules = os.environ.pop(custom.ENV_MODULES, None)
    yield
    custom._registered.clear()
    custom._registered.update(before)
    os.environ.pop(custom.ENV_MODULES, None)
    if modules is not None:
        os.environ[custom.ENV_MODULES] = modules


def axpy(**changes: Any) -> CustomOp:
    given: dict[str, Any] = {
        "wgsl": AXPY, "operands": 2, "params": {"a": 2.0, "k": 0},
        "reference": lambda x, y, *, a, k: a * x + y + k,
        "examples": [([(67, 3), (67, 3)], {"a": -1.5, "k": 3}), ([(1,), (1,)], {})],
    }  # fmt: skip
    return register_op("AXPY", **{**given, **changes})


def row_sum(**changes: Any) -> CustomOp:
    given: dict[str, Any] = {
        "wgsl": ROWS.replace("{{ result }}", "sum"), "strided": True,
        "shape": lambda ne: (1, *ne[1:]), "reference": lambda x: x.sum(-1, keepdims=True),
        "examples": [([(33, 5, 2, 3)], {}), ([(1, 70)], {})],
    }  # fmt: skip
    return register_op("ROW_SUM", **{**given, **changes})


def backend_of(name: str) -> Any:
    return default_registry().find(name).init_backend()


# ---- running -----------------------------------------------------------------------------------


def test_examples_pass_on_every_device(device_name: str) -> None:
    device = default_registry().find(device_name)
    run_examples(axpy(), device)
    run_examples(row_sum(), device)


def test_types_other_than_f32(device_name: str) -> None:
    device = default_registry().find(device_name)
    counts = row_sum(
        wgsl=ROWS.replace("{{ result }}", "i32(sum)"), operands=[Type.I32], result=Type.I32,
        values=(-9, 9), reference=lambda x: x.sum(-1, keepdims=True, dtype=np.int32),
    )  # fmt: skip
    run_examples(counts, device)
    half = row_sum(operands=[Type.F16])
    has_f16 = device_name == "cpu" or device.profile.f16  # type: ignore[attr-defined]
    run_examples(half, device, allow_unsupported=not has_f16)


def test_in_a_graph_with_other_ops_over_two_devices() -> None:
    """The scheduler places it where its operands are, with other ops around it."""
    names = [n for n in ("lavapipe", "swiftshader", "opengl") if find_adapter(n)]
    if not names:
        pytest.skip("no wgpu adapter here")
    op, sched = axpy(), Sched([backend_of(names[0]), backend_of("cpu")])
    ctx = Context(16)
    x, y = (ctx.new_tensor(Type.F32, (64, 3), name=n).set_input() for n in "xy")
    z = op(ctx, ops.scale(ctx, x, 2.0), y, a=0.5, k=1)
    z = ops.soft_max(ctx, op(ctx, z, z, k=-1)).set_output()
    graph = Graph(16)
    graph.build_forward_expand(z)
    sched.alloc_graph(graph)
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, 3, 64)).astype(np.float32)
    x.set(a)
    y.set(b)
    sched.graph_compute(graph)
    want = np.exp(3 * (a + b + 1) - 1)
    np.testing.assert_allclose(z.numpy(), want / want.sum(-1, keepdims=True), rtol=1e-4)


def test_operands_that_are_not_contiguous() -> None:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    device = default_registry().find("lavapipe")
    ctx = Context(8)
    turned = ops.transpose(ctx, ctx.new_tensor(Type.F32, (5, 7)))
    why = device.why_not(axpy()(ctx, turned, turned))
    assert why is not None and "not contiguous" in why
    assert device.supports_op(row_sum()(ctx, turned))
    cpu = default_registry().cpu()
    assert cpu.supports_op(axpy()(ctx, turned, turned))


def test_a_file_and_its_own_include(tmp_path: Path, device_name: str) -> None:
    (tmp_path / "axpy.wgsl").write_text(AXPY.replace("P.a * ", "factor() * "))
    (tmp_path / "axpy.wgsl").write_text(
        (tmp_path / "axpy.wgsl").read_text().replace(
            "@compute", '{$ include "my_part.wgsl" $}\n@compute', 1)
    )  # fmt: skip
    (tmp_path / "my_part.wgsl").write_text("fn factor() -> f32 { return P.a; }\n")
    run_examples(axpy(wgsl=tmp_path / "axpy.wgsl"), default_registry().find(device_name))


def test_wrong_shaders_fail_and_say_where(tmp_path: Path) -> None:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    device = default_registry().find("lavapipe")
    for old, new, message in (
        ("P.a * ", "P.a + ", "nmse"),
        ("P.off_src1 + i]", "P.off_src1 + i + 1u]", "nmse"),
        ("f32(P.k)", "f32(P.gone)", r"axpy\.wgsl:11"),
    ):
        path = tmp_path / "axpy.wgsl"
        path.write_text(AXPY.replace(old, new))
        with pytest.raises(AssertionError, match=message):
            run_examples(axpy(wgsl=path), device)
    with pytest.raises(AssertionError, match=r"custom/AXPY\.wgsl:11"):
        run_examples(axpy(wgsl=AXPY.replace("f32(P.k)", "f32(P.gone)")), device)


def test_a_wrong_reference_is_told_of() -> None:
    op = axpy(reference=lambda x, y, *, a, k: x[0])
    with pytest.raises(ShapeError, match=r"AXPY gave shape \(67,\).*\(3, 67\)"):
        run_examples(op, default_registry().cpu())


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wgsl": Path("/nowhere.wgsl")}, "no file"),
        ({"operands": 7}, "1 to 6 operands"),
        ({"operands": [Type.Q4_0]}, "none of F32, F16, I32"),
        ({"params": {"n": 1}}, "'n' cannot name"),
        ({"params": {"dst_ne0": 1}}, "cannot name"),
        ({"params": {f"p{i}": 0 for i in range(16)}}, "at most 15"),
    ],
)
def test_bad_registrations(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        axpy(**changes)


@pytest.mark.parametrize("name", ["axpy", "MUL_MAT", "A B", ""])
def test_bad_names(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name an op"):
        register_op(name, wgsl="", reference=lambda x: x)


def test_bad_calls() -> None:
    op, ctx = axpy(), Context(8)
    x = ctx.new_tensor(Type.F32, (8,))
    with pytest.raises(ShapeError, match="takes 2 operands; got 1"):
        op(ctx, x)
    with pytest.raises(ShapeError, match="src1 of AXPY must be F32"):
        op(ctx, x, ctx.new_tensor(Type.I32, (8,)))
    with pytest.raises(UsageError, match=r"no parameter \['b'\]; it has \['a', 'k'\]"):
        op(ctx, x, x, b=1)
    with pytest.raises(ShapeError, match="do not fit"):
        op(ctx, x, x, k=1 << 40)
    with pytest.raises(ShapeError, match="its shape rule gave"):
        axpy(shape=lambda *ne, **_: (1, 2.5))(ctx, x, x)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "op.wgsl").write_text(AXPY)
    axpy(wgsl=tmp_path / "a" / "op.wgsl")
    with pytest.raises(UsageError, match="AXPY has a file op.wgsl too"):
        row_sum(wgsl=tmp_path / "b" / "op.wgsl")


def test_an_op_that_this_process_does_not_know(device_name: str) -> None:
    op, ctx = axpy(), Context(8)
    x = ctx.new_tensor(Type.F32, (8,))
    node = op(ctx, x, x)
    custom.unregister_op("AXPY")
    why = default_registry().find(device_name).why_not(node)
    assert why is not None and "not registered in this process" in why
    with pytest.raises(UsageError, match="no op 'AXPY'"):
        custom.unregister_op("AXPY")


# ---- the harness -------------------------------------------------------------------------------


def test_the_command_line_runs_a_modules_ops() -> None:
    example = str(REPO / "examples" / "custom_op.py")
    done = CliRunner().invoke(command, ["-o", "SNAKE", "--module", example, "-b", "cpu"])
    assert done.exit_code == 0 and "7 passed, 0 failed" in done.output, done.output
    code = (
        "from wggml import custom; custom.load_modules(); "
        "print([op.name for op in custom.registered()])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.stdout.strip() == "['SNAKE']", child.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\n1 / 0\n", r"line 2: ZeroDivisionError"), ("x = 1\n", "registers no op")],
)
def test_bad_modules(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "my_ops.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        custom.load_module(str(path))
    with pytest.raises(UsageError, match="no such file"):
        custom.load_module(str(tmp_path / "none.py"))


def test_examples_are_cases_with_their_parameters() -> None:
    assert [r.vars for r in recipes_of(axpy())] == [
        "ne=[[67,3],[67,3]],a=-1.5,k=3", "ne=[[1],[1]],a=2,k=0",
    ]  # fmt: skip


PROJECT = """
from wggml.testing.pytest_plugin import *
import sys; sys.path.insert(0, {examples!r})
from custom_op import snake

def test_snake(check_op, op_device):
    check_op(snake, op_device)
"""


def test_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["wggml.testing.pytest_plugin"]\n')
    (tmp_path / "test_mine.py").write_text(
        PROJECT.replace("from wggml.testing.pytest_plugin import *\n", "").format(
            examples=str(REPO / "examples")
        )
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--op-device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "test_snake[CPU] PASSED" in done.stdout, done.stdout
