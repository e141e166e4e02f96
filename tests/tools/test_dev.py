"""The set-up script's decisions, and how it treats its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dev
import get_vulkan
import pytest
from get_vulkan import SetupError


def device(index: int, kind: str, api: str = "Vulkan") -> dict[str, object]:
    return {"index": index, "name": f"d{index}", "type": kind, "api": api}


@pytest.mark.parametrize(
    ("devices", "picked"),
    [
        ([], None),
        ([device(0, "cpu")], None),
        ([device(0, "software"), device(1, "cpu")], 0),
        ([device(0, "software", "OpenGL"), device(1, "software"), device(2, "cpu")], 1),
        ([device(0, "software"), device(1, "igpu"), device(2, "gpu"), device(3, "cpu")], 2),
        ([device(0, "software"), device(1, "igpu"), device(2, "cpu")], 1),
    ],
)
def test_a_real_gpu_is_shown_before_a_software_one(
    devices: list[dict[str, object]], picked: int | None
) -> None:
    chosen = dev.pick_device(devices)
    assert (chosen and chosen["index"]) == picked


def test_lavapipe_is_shown_before_another_software_driver() -> None:
    swiftshader = {**device(0, "software"), "description": "SwiftShader Device (Subzero)"}
    lavapipe = {**device(1, "software"), "description": "llvmpipe (LLVM 15.0.6, 256 bits)"}
    assert dev.pick_device([swiftshader, lavapipe]) is lavapipe


def test_the_story_is_the_default() -> None:
    command = dev.story_command([], device(1, "software"))
    assert command[:2] == ["run", dev.DEFAULT_MODEL]
    assert command[command.index("-p") + 1] == dev.STORY
    assert command[command.index("--device") + 1] == "1"


def test_what_is_given_replaces_the_story() -> None:
    extra = ["glass", "--prompt=Hello", "-n", "5", "--device", "cpu"]
    assert dev.story_command(extra, None) == ["run", *extra]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["-p", "x"], True), (["--prompt=x"], True), (["x"], False), ([], False)],
)
def test_flags_are_found_in_both_spellings(arguments: list[str], expected: bool) -> None:
    assert dev.has_flag(arguments, "-p", "--prompt") is expected


def test_the_stamp_covers_extras_and_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("one")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    stamp = {"stamp": dev.wanted_stamp(), "extras": ["dev"]}
    assert dev.is_installed(stamp, [])
    assert dev.is_installed(stamp, ["dev"])
    assert not dev.is_installed(stamp, ["demo"])
    assert not dev.is_installed({}, [])
    (tmp_path / "pyproject.toml").write_text("two")
    assert not dev.is_installed(stamp, [])


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_a_damaged_stamp_counts_as_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "stamp.json"
    stamp.write_text(text)
    monkeypatch.setattr(dev, "STAMP", stamp)
    assert dev.read_stamp() == {}


def test_a_venv_that_cannot_be_made_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "VENV", tmp_path / "venv")
    monkeypatch.setattr(dev, "make_venv", lambda: False)
    monkeypatch.setattr(get_vulkan, "is_root", lambda: False)
    with pytest.raises(SetupError, match=r"apt-get install python3\.\d+-venv"):
        dev.ensure_venv()


def test_an_old_python_hands_over_to_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(dev, "MIN_PYTHON", (99, 0))
    monkeypatch.setattr(dev, "newer_python", lambda: "/usr/bin/python9")
    monkeypatch.setattr(os, "execv", lambda path, argv: calls.append((path, argv)))
    dev.need_python()
    assert calls == [("/usr/bin/python9", ["/usr/bin/python9", *sys.argv])]
    monkeypatch.setattr(dev, "newer_python", lambda: None)
    with pytest.raises(SetupError, match=r"Python 99\.0 or newer is needed"):
        dev.need_python()


def test_devices_that_cannot_be_listed_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "it broke")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SetupError, match="it broke"):
        dev.list_devices()


@pytest.mark.parametrize("first", [[], [device(0, "software", "OpenGL")]])
def test_without_gpu_or_vulkan_mesa_is_installed_once(
    monkeypatch: pytest.MonkeyPatch, first: list[dict[str, object]]
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("apt is for Linux")
    lists = [[*first, device(1, "cpu")], [device(0, "software"), device(1, "cpu")]]
    installed: list[bool] = []
    monkeypatch.setattr(dev, "list_devices", lambda: lists.pop(0))
    monkeypatch.setattr(get_vulkan, "install_mesa", lambda: installed.append(True))
    found = dev.find_device()
    assert found is not None
    assert found["type"] == "software"
    assert installed == [True]


def test_without_any_adapter_and_without_apt_numpy_computes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise SetupError("not root")

    monkeypatch.setattr(dev, "list_devices", lambda: [device(0, "cpu")])
    monkeypatch.setattr(get_vulkan, "install_mesa", refuse)
    assert dev.find_device() is None
    if sys.platform.startswith("linux"):
        assert "not root" in capsys.readouterr().err


@pytest.mark.parametrize(("returncode", "code"), [(0, 0), (5, 5), (-2, 130), (-9, 137)])
def test_exit_codes_are_a_shells(returncode: int, code: int) -> None:
    assert dev.exit_code(returncode) == code


def test_a_childs_exit_code_is_handed_on() -> None:
    assert dev.run_child([sys.executable, "-c", "raise SystemExit(5)"]) == 5


def test_no_tests_at_all_is_a_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    assert dev.run_child([*command, "-c", os.devnull]) == 5


def hear_interrupts() -> None:
    """In a background job of a shell SIGINT is ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX")
def test_ctrl_c_lets_the_child_finish_and_ends_with_130(tmp_path: Path) -> None:
    child = (
        "import pathlib, sys, time\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / 'started').touch()\n"
        "try:\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(0.2)\n"
        "    (folder / 'finished').touch()\n"
    )
    parent = (
        "import sys; sys.path.insert(0, sys.argv[1]); import dev; "
        "sys.exit(dev.run_child([sys.executable, '-c', sys.argv[2], sys.argv[3]]))"
    )
    tools = str(Path(dev.__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", parent, tools, child, str(tmp_path)],
        start_new_session=True,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (tmp_path / "finished").exists()
    assert stderr == b""


@pytest.mark.parametrize("command", ["run", "test", "lint"])
def test_every_command_is_known(command: str) -> None:
    assert command in dev.COMMANDS


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        dev.main(["fly"])
    assert caught.value.code == 2


def test_a_setup_error_is_one_line_and_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> int:
        raise SetupError("this is missing")

    monkeypatch.setitem(dev.COMMANDS, "run", fail)
    assert dev.main(["run"]) == 2
    assert capsys.readouterr().err == "error: this is missing\n"


def test_extra_arguments_arrive_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setitem(dev.COMMANDS, "test", lambda extra: seen.append(extra) or 0)
    dev.main(["test", "-k", "x or y", "--", "-p", "z"])
    dev.main(["test", "--", "-x"])
    assert seen == [["-k", "x or y", "--", "-p", "z"], ["-x"]]


def test_the_stamp_file_is_json_with_sorted_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(dev, "ensure_venv", lambda: None)
    monkeypatch.setattr(dev, "run_child", lambda command: ran.append(command) or 0)
    dev.ensure_installed(["dev"])
    dev.ensure_installed(["demo"])
    assert json.loads((tmp_path / "stamp.json").read_text())["extras"] == ["demo", "dev"]
    assert [command[-1] for command in ran] == [".[dev]", ".[demo,dev]"]
    dev.ensure_installed(["dev"])
    assert len(ran) == 2


def test_ctrl_c_during_the_installation_is_no_failure_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(dev, "ensure_venv", lambda: None)
    monkeypatch.setattr(dev, "run_child", lambda _: dev.INTERRUPTED)
    assert dev.main(["lint"]) == 130
    assert "pip could not" not in capsys.readouterr().err
    assert not (tmp_path / "stamp.json").exists()
