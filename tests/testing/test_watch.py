"""Watching shaders: edits re-run what they concern; hangs and crashes do not end the session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.conftest import find_adapter
from wggml import custom
from wggml.backends.wgpu import templates
from wggml.cli import watch as cli
from wggml.cli.test_ops import Options
from wggml.errors import UsageError
from wggml.hal.interface import DeviceType
from wggml.hal.registry import default_registry
from wggml.testing.selection import Selection
from wggml.testing.watch import Outcome, Round, Watcher
from wggml.testing.watch.watcher import OnOutcome

DATA = Path(__file__).resolve().parents[1] / "data" / "ops"
SOFTMAX = "softmax/softmax.wgsl"
PATIENCE = 240.0  # seconds a test waits at most for what takes one


@pytest.fixture
def shaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all templates, which may be edited."""
    folder = tmp_path / "shaders"
    shutil.copytree(templates.shader_dir(), folder)
    monkeypatch.setenv(templates.ENV_SHADERS, str(folder))
    monkeypatch.setattr(templates, "shader_dir", lambda: folder)  # nobody else's edits
    monkeypatch.chdir(tmp_path)
    return folder


def watch_on(adapter: str, *ops: str) -> Watcher:
    if find_adapter(adapter) is None:
        pytest.skip(f"no {adapter} adapter here")
    return Watcher(Selection(ops, None, DATA), adapter, limit=PATIENCE)


@pytest.fixture
def watcher(shaders: Path) -> Iterator[Watcher]:
    made = watch_on("lavapipe", "SOFT_MAX", "SILU")
    yield made
    made.close()


@pytest.fixture
def swiftshader(shaders: Path) -> Iterator[Watcher]:
    """lavapipe leaves every loop after 65535 rounds; here one can hang."""
    made = watch_on("swiftshader", "SOFT_MAX")
    yield made
    made.close()


MODULE = """
import os, signal
from pathlib import Path
import wggml
HERE = Path(__file__).parent

def workgroups(dst, x):
    how = (HERE / "how").read_text()
    if how == "SIGSEGV":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how:
        os._exit(int(how))
    return 1

wggml.register_op("MINE", wgsl=HERE / "mine.wgsl", reference=lambda x: 2 * x,
                  workgroups=workgroups, examples=[([(8,)], {}), ([(9,)], {}), ([(10,)], {})])
"""
MINE = """{{ decls }}
@compute @workgroup_size({{ workgroup_size }})
fn main(@builtin(local_invocation_index) i: u32) {
    if (i >= P.n) { return; }
    {{ dst }}[P.off_dst + i] = 2.0 * {{ src0 }}[P.off_src0 + i];
}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    """A folder with an op of one's own that takes its process down the way the file `how` says."""
    (tmp_path / "mine.wgsl").write_text(MINE)
    (tmp_path / "how").write_text("")
    (tmp_path / "my_ops.py").write_text(MODULE)
    custom.load_module(str(tmp_path / "my_ops.py"))
    yield tmp_path
    custom.unregister_op("MINE")
    del os.environ[custom.ENV_MODULES]


def edit(watcher: Watcher, path: Path, old: str, new: str) -> Round:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    done = watcher.wait(PATIENCE)
    assert done is not None
    return done


def ops(done: Round) -> set[str]:
    return {o.id.split("/")[0] for o in done.outcomes}


def test_an_edit_runs_the_cases_that_use_the_template(watcher: Watcher, shaders: Path) -> None:
    first = watcher.first()
    assert first.count("pass") == len(first.outcomes) > 5 and ops(first) == {"SOFT_MAX", "SILU"}
    assert watcher.poll() is None
    right = edit(watcher, shaders / SOFTMAX, "exp(", "exp( ")
    assert right.edited == {SOFTMAX} and ops(right) == {"SOFT_MAX"}
    assert right.count("pass") == len(right.outcomes) > 3
    wrong = edit(watcher, shaders / SOFTMAX, "exp( ", "exp(0.1 * ")
    assert wrong.count("fail") > 0 and "nmse" in wrong.outcomes[0].reason
    mended = edit(watcher, shaders / SOFTMAX, "exp(0.1 * ", "exp(")
    assert mended.count("pass") == len(mended.outcomes) == len(right.outcomes)
    # an include of other templates
    shared = edit(watcher, shaders / "include" / "math.wgsl", "fn ", "fn  ")
    assert "SILU" in ops(shared) and watcher.restarts == 0
    # a file that none of the cases uses
    (shaders / "mine.wgsl").write_text("")
    other = watcher.wait(PATIENCE)
    assert other is not None and other.edited == {"mine.wgsl"} and not other.outcomes


def test_a_compile_error_is_shown_with_the_templates_line(watcher: Watcher, shaders: Path) -> None:
    watcher.first()
    path = shaders / SOFTMAX
    line = next(i for i, text in enumerate(path.read_text().split("\n"), 1) if "exp(" in text)
    broken = edit(watcher, path, "exp(", "no_such_function(")
    assert broken.count("fail") == len(broken.outcomes) > 3
    reason = broken.outcomes[0].reason
    assert f"shaders/{SOFTMAX}:{line} " in reason and "no_such_function" in reason
    text = path.read_text()
    path.write_text(text.replace("no_such_function(", "exp(") + "\n{$ if $}\n")
    template = watcher.wait(PATIENCE)
    assert template is not None
    assert f"shaders/{SOFTMAX}:{text.count(chr(10)) + 2}:" in template.outcomes[0].reason
    path.write_text(text.replace("no_such_function(", "exp("))
    mended = watcher.wait(PATIENCE)
    assert mended is not None and mended.count("pass") == len(mended.outcomes)
    assert watcher.restarts == 0


def test_a_hanging_shader_costs_its_limit_only(swiftshader: Watcher, shaders: Path) -> None:
    watcher, path = swiftshader, shaders / SOFTMAX
    watcher.first()
    text = path.read_text()
    start = text.index("{", text.index("fn main(", text.index("@compute"))) + 1
    forever = "\n    var i = 1u; while (i != 0u) { i |= 1u; {{ dst }}[P.off_dst] = f32(i); }"
    watcher.limit = 2.0
    path.write_text(text[:start] + forever + text[start:])
    hung = watcher.wait(PATIENCE)
    assert hung is not None and hung.count("fail") == 2, hung
    assert watcher.restarts == 2 and hung.left_out > 0
    assert "no answer within 2 s" in hung.outcomes[0].reason
    watcher.limit = PATIENCE
    path.write_text(text)
    mended = watcher.wait(PATIENCE)
    assert mended is not None and mended.left_out == 0 and watcher.restarts == 2
    assert mended.count("pass") == len(mended.outcomes) > 3


@pytest.mark.parametrize(("how", "told"), [("SIGSEGV", "SIGSEGV"), ("3", "exit code 3")])
def test_a_driver_that_crashes_does_not_end_the_session(mine: Path, how: str, told: str) -> None:
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    watcher = Watcher(Selection(("MINE",)), "lavapipe", limit=PATIENCE)
    try:
        assert watcher.first().count("pass") == 3
        (mine / "how").write_text(how)
        crashed = edit(watcher, mine / "mine.wgsl", "2.0", "2.00")
        assert crashed.count("fail") == 2 == watcher.restarts and crashed.left_out == 1
        assert f"the process died ({told})" in crashed.outcomes[0].reason
        (mine / "how").write_text("")
        wrong = edit(watcher, mine / "mine.wgsl", "2.00", "3.0")
        assert wrong.count("fail") == 3 and "nmse" in wrong.outcomes[0].reason
        mended = edit(watcher, mine / "mine.wgsl", "3.0", "2.0")
        assert mended.count("pass") == 3 and watcher.restarts == 2
    finally:
        watcher.close()


def test_the_process_starts_or_says_why(shaders: Path) -> None:
    with pytest.raises(UsageError, match="no shaders to watch"):
        Watcher(Selection(("SILU",), None, DATA), "cpu")


def options(out: StringIO, device: str, *ops: str) -> Options:
    found = default_registry().find(device)
    return Options(Selection(ops, None, DATA), [found], Console(file=out, width=200), {})


def test_what_a_person_sees(shaders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run, an edit with a fault in many cases, the mended one."""
    if find_adapter("lavapipe") is None:
        pytest.skip("no lavapipe adapter here")
    path = shaders / SOFTMAX
    text = path.read_text()
    edits = iter([text.replace("exp(", "no_such_function("), text])
    wait = Watcher.wait

    def edit_and_wait(self: Watcher, timeout: float, told: OnOutcome) -> Round | None:
        following = next(edits, None)
        if following is None:
            raise KeyboardInterrupt
        path.write_text(following)
        return wait(self, PATIENCE, told)

    monkeypatch.setattr(Watcher, "wait", edit_and_wait)
    out = StringIO()
    with pytest.raises(KeyboardInterrupt):
        cli.watch(options(out, "lavapipe", "SOFT_MAX"))
    shown = out.getvalue()
    assert "lavapipe" in shown and "watching the .wgsl files in" in shown
    assert shown.count("FAIL SOFT_MAX/") == 1 and " more\n" in shown
    assert "no_such_function" in shown and f"shaders/{SOFTMAX}:" in shown
    last = shown.strip().splitlines()[-1]
    assert f"{SOFTMAX}: " in last and "0 failed, 0 unsupported in " in last


def test_a_device_with_shaders_is_found(shaders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    chosen = options(out, "cpu", "SILU")
    if any(d.type is not DeviceType.CPU for d in default_registry().devices()):
        assert cli.pick(chosen).type is not DeviceType.CPU
    monkeypatch.setattr(type(default_registry()), "devices", lambda self: chosen.devices)
    with pytest.raises(UsageError, match="needs a GPU adapter"):
        cli.pick(chosen)


def test_the_next_edit_ends_a_round(watcher: Watcher, shaders: Path) -> None:
    """And what was left out runs with the next one, whatever it uses."""
    first = watcher.first()
    path = shaders / SOFTMAX
    text = path.read_text()

    def save_again(outcome: Outcome) -> None:
        path.write_text(text + "// second\n")

    path.write_text(text + "// first\n")
    ended = watcher.wait(PATIENCE, save_again)
    assert ended is not None and len(ended.outcomes) == 1 and ended.left_out > 2
    after = watcher.wait(PATIENCE)
    assert after is not None and len(after.outcomes) == 1 + ended.left_out
    assert after.count("pass") == len(after.outcomes) < len(first.outcomes)
    path.write_text(text)
    watcher._next = frozenset({"unused.wgsl"})
    assert watcher.poll() is not None


def test_one_case_of_each_kind_comes_first(watcher: Watcher) -> None:
    watcher.first()
    ids = watcher._in_order(list(watcher.titles))
    kinds = [watcher._last[id].templates for id in ids]
    n = len(set(kinds))
    assert n >= 2 and len(set(kinds[:n])) == n
    watcher._last[ids[-1]] = Outcome(ids[-1], "fail", "", kinds[-1])
    assert watcher._in_order(ids)[0] == ids[-1]


def test_a_long_round_says_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr(cli, "INTERIM_SECONDS", -1.0)
    interim = cli.Interim(Console(file=out))
    for status in ("pass", "fail"):
        interim(Outcome("A/1", status))  # type: ignore[arg-type]
    assert out.getvalue() == "so far 1 passed, 0 failed; going on\n"
