"""`diff` names the node whose kernel is wrong, also where only a fused kernel is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wggml.backends.wgpu.templates import shader_dir
from wggml.hal.registry import default_registry
from wggml.inspect.diff import Diff, compare_logits, diff
from wggml.llama import Llama
from wggml.testing.capture import write_cases
from wggml.testing.opcases import iter_cases, run_case

Open = Callable[..., Llama]
TOKENS = [3, 5, 9, 12, 7, 20]

# template, line, what it becomes, op of the first node that must be named
FAULTS = {
    "norm": ("norm/norm.wgsl", "v *= scale;", "v *= scale * 1.01;", "RMS_NORM"),
    "rope": ("rope/rope.wgsl", "let sine = turn.y", "let sine = -turn.y", "ROPE"),
    "gate": ("elementwise/glu.wgsl", "let y = load_up(i0, i1, i2, i3);",
             "let y = load_up(i0, i1, i2, i3) + 0.01;", "SWIGLU"),
}  # fmt: skip


def plant(folder: Path, template: str, line: str, wrong: str) -> None:
    """Put a template with a fault into `folder`."""
    text = (shader_dir() / template).read_text()
    assert text.count(line) >= 1, f"{template} has no {line!r} any more: choose another fault"
    path = folder / template
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(line, wrong))


def run_diff(open_tiny: Open, gpu: str, **settings: bool) -> Diff:
    with open_tiny("cpu", n_ctx=256) as llama:
        backend = default_registry().find(gpu).with_mask("").init_backend()  # type: ignore[attr-defined]
        return diff(llama, backend, TOKENS, **settings)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def plant_(template: str, line: str, wrong: str) -> None:
        plant(tmp_path / "shaders", template, line, wrong)
        monkeypatch.setenv("WGGML_SHADERS", str(tmp_path / "shaders"))

    return plant_


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_named(open_tiny: Open, gpu: str, faulty, fault: str, tmp_path: Path):
    template, line, wrong, op = FAULTS[fault]
    faulty(template, line, wrong)
    found = run_diff(open_tiny, gpu)
    first = found.first
    assert first is not None and len(found.failed) == 1
    assert (first.op, first.phase, first.together) == (op, "prompt", [])
    assert first.error > first.limit
    assert found.ops[op].count == 1  # it is the first node of its op, and all before it agree
    assert all(r.worst <= r.limit for name, r in found.ops.items() if name != op)

    write_cases(tmp_path / "cases", [first.case])
    (case,) = iter_cases(tmp_path / "cases")
    device = default_registry().find(gpu)
    wrong_again = device.with_mask("").init_backend()  # type: ignore[attr-defined]
    assert run_case(case, wrong_again).status == "fail"
    assert run_case(case, default_registry().cpu().init_backend()).status == "pass"


def test_a_fault_of_a_fused_kernel_is_named_with_its_nodes(open_tiny: Open, gpu: str, faulty):
    faulty("norm/norm.wgsl", "{{ added }}[s + i] = v;", "{{ added }}[s + i] = v * 1.02;")
    found = run_diff(open_tiny, gpu)
    first = found.first
    assert first is not None
    assert first.together[0].startswith("ffn_inp-0") and len(first.together) <= 3
    assert first.case.tensors[-1].name == first.name == first.together[-1]
    assert run_diff(open_tiny, gpu, windows=False).first is None


def test_all_faults_are_listed_when_asked_for(open_tiny: Open, gpu: str, faulty):
    template, line, wrong, op = FAULTS["gate"]
    faulty(template, line, wrong)
    found = run_diff(open_tiny, gpu, keep_going=True, windows=False)
    n_layer = 3
    assert [f.op for f in found.failed] == [op] * (2 * n_layer)  # prompt and generation
    assert {f.phase for f in found.failed} == {"prompt", "generation"}


def test_right_kernels_agree(open_tiny: Open, gpu: str):
    found = run_diff(open_tiny, gpu)
    assert found.first is None and found.unsupported == {}
    assert found.windows > 4
    with open_tiny("cpu") as a, open_tiny(gpu) as b:
        n = 0
        for tokens, position in ((TOKENS, 0), ([1], len(TOKENS))):
            a.eval(tokens, position=position)
            n += sum(a.context.nodes_per_backend().values())
        assert found.nodes == n
        error, same = compare_logits(a, b, TOKENS)
    assert error < 1e-6 and same


def test_nodes_that_b_does_not_run_are_counted(open_tiny: Open, gpu: str, monkeypatch):
    with open_tiny("cpu", n_ctx=256) as llama:
        device = default_registry().find(gpu).with_mask("")  # type: ignore[attr-defined]
        backend = device.init_backend()
        real = device.why_not
        monkeypatch.setattr(
            device, "why_not", lambda t: "not today" if t.op.name == "ROPE" else real(t)
        )
        found = diff(llama, backend, TOKENS)
    assert found.first is None
    assert found.unsupported == {"ROPE: not today": 12}
    assert "ROPE" not in found.ops


def test_the_context_is_free_again_after_a_fault(open_tiny: Open, gpu: str, faulty):
    template, line, wrong, _ = FAULTS["norm"]
    faulty(template, line, wrong)
    with open_tiny("cpu") as llama:
        before = llama.eval(TOKENS)
        backend = default_registry().find(gpu).with_mask("").init_backend()  # type: ignore[attr-defined]
        seen: list[str] = []
        with llama.on_node("^result_output$", lambda t, _: seen.append(t.name)):
            assert diff(llama, backend, TOKENS).first is not None
            assert not seen
            assert np.allclose(llama.eval(TOKENS), before, rtol=1e-4, atol=1e-5)
            assert seen == ["result_output"]
        llama.context.kv.clear()
        assert (llama.eval(TOKENS) == before).all()
