#!/usr/bin/env python3
"""Sets everything up and does one thing; the same commands serve a first visitor and CI.

    python3 tools/dev.py run  [MODEL] [flags of `wggml run`]   writes a short story
    python3 tools/dev.py test [flags of pytest]                runs the tests
    python3 tools/dev.py lint                                  ruff and mypy

Makes `.venv`, installs the package into it, and remembers that it did. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import get_vulkan
from get_vulkan import SetupError, say

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "wggml-dev.json"

MIN_PYTHON = (3, 11)

DEFAULT_MODEL = "smollm2"
STORY = "Once upon a time, in a small town by the sea, there lived a clockmaker named Mira who"
STORY_TOKENS = "200"

INTERRUPTED = 130
"""Exit code of what Ctrl-C ended."""

CHILD_GRACE_SECONDS = 20.0
"""How long a child may take to finish after Ctrl-C before it is ended."""


# --- Python and the virtual environment -----------------------------------------------------------


def newer_python() -> str | None:
    """Another Python on the PATH that is new enough, the newest first."""
    for minor in range(20, MIN_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    return None


def need_python() -> None:
    """Goes on under a newer Python where this one is too old. Raises SetupError without one."""
    if sys.version_info >= MIN_PYTHON:
        return
    other = newer_python()
    here = ".".join(map(str, sys.version_info[:3]))
    if other is None:
        raise SetupError(
            f"Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer is needed, this is {here}, and no "
            "python3.11 (or newer) is on the PATH; install one from https://www.python.org"
        )
    say(f"this is Python {here}; going on with {other}")
    os.execv(other, [other, *sys.argv])


def venv_python() -> Path:
    """The interpreter inside `.venv`."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def wanted_stamp() -> str:
    """Changes whenever the installed environment no longer fits: pyproject or Python differ."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(f"{sys.version_info[:2]} {ROOT}".encode())
    return digest.hexdigest()


def read_stamp() -> dict[str, object]:
    """What was installed last: {"stamp": str, "extras": [str]}; empty where unknown."""
    try:
        stamp = json.loads(STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def is_installed(stamp: dict[str, object], extras: list[str]) -> bool:
    """Whether `stamp` says that the package and these extras are installed already."""
    have = stamp.get("extras")
    return (
        stamp.get("stamp") == wanted_stamp() and isinstance(have, list) and set(extras) <= set(have)
    )


def ensure_venv() -> None:
    """Makes `.venv` with pip inside, unless a working one is there."""
    if venv_works():
        return
    if VENV.exists():
        say(f"{VENV} does not work with this Python; making it anew")
        shutil.rmtree(VENV)
    say(f"making {VENV}")
    if not make_venv() and not (install_venv_package() and make_venv()):
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            "this Python cannot make virtual environments with pip in them; on Debian and Ubuntu: "
            f"sudo apt-get install {venv_package()}"
        )


def venv_works() -> bool:
    """Whether `.venv` has an interpreter of this very version, and pip."""
    if not venv_python().exists():
        return False
    code = "import sys, pip; print(*sys.version_info[:2])"
    done = subprocess.run([str(venv_python()), "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.split() == [str(n) for n in sys.version_info[:2]]


def make_venv() -> bool:
    """Tries to make `.venv`; says nothing where it fails."""
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    return subprocess.run(command, capture_output=True).returncode == 0 and venv_works()


def venv_package() -> str:
    """Debian's package with what its bare Python lacks."""
    return f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"


def install_venv_package() -> bool:
    """As root on Debian, installs the missing half of Python's venv module."""
    if not (get_vulkan.has_apt() and get_vulkan.is_root()):
        return False
    say(f"installing {venv_package()}")
    subprocess.run(["apt-get", "update", "-q"], capture_output=True)
    command = ["apt-get", "install", "-y", "-q", venv_package()]
    return subprocess.run(command, capture_output=True).returncode == 0


def ensure_installed(extras: list[str]) -> None:
    """Installs the package (editable) with `extras` into `.venv`, unless it is there already."""
    stamp = read_stamp()
    if is_installed(stamp, extras) and venv_python().exists():
        return
    ensure_venv()
    known = stamp.get("extras")
    wanted = sorted({*extras, *(known if isinstance(known, list) else [])})
    target = f".[{','.join(wanted)}]" if wanted else "."
    say(f"installing {target} into {VENV} (once; needs the package index)")
    command = [str(venv_python()), "-m", "pip", "install", "--disable-pip-version-check"]
    command += [] if sys.stderr.isatty() else ["--quiet"]
    code = run_child([*command, "-e", target])
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code != 0:
        raise SetupError(
            f"pip could not install wggml (exit {code}); its message is above. "
            "Check the network and `pip config list`"
        )
    STAMP.write_text(json.dumps({"stamp": wanted_stamp(), "extras": wanted}), "utf-8")


# --- adapters -------------------------------------------------------------------------------------


def list_devices() -> list[dict[str, object]]:
    """What `wggml devices --json` reports. Raises SetupError where it does not run."""
    command = [str(venv_python()), "-m", "wggml", "devices", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    try:
        devices = json.loads(done.stdout)
    except ValueError:
        devices = None
    if done.returncode != 0 or not isinstance(devices, list):
        raise SetupError(f"`wggml devices` failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return devices


def pick_device(devices: list[dict[str, object]]) -> dict[str, object] | None:
    """A real GPU first, then a software adapter (lavapipe before others), else None."""
    kinds = {"gpu": 0, "igpu": 1, "accel": 2, "software": 3}

    def rank(device: dict[str, object]) -> tuple[int, bool, bool]:
        is_vulkan = "vulkan" in str(device.get("api")).lower()
        is_mesa = "llvmpipe" in f"{device.get('name')} {device.get('description')}".lower()
        return kinds[str(device["type"])], not is_vulkan, not is_mesa

    fit = [device for device in devices if device.get("type") in kinds]
    return min(fit, key=rank) if fit else None


def is_good_enough(device: dict[str, object] | None) -> bool:
    """Whether no better adapter could be installed: a GPU, or software through Vulkan."""
    if device is None:
        return False
    return device["type"] != "software" or "vulkan" in str(device.get("api")).lower()


def find_device() -> dict[str, object] | None:
    """The adapter to show. Where there is no GPU and no Vulkan adapter, installs Mesa's software
    Vulkan driver as root: it computes twice as fast as the OpenGL one."""
    device = pick_device(list_devices())
    if is_good_enough(device) or not sys.platform.startswith("linux"):
        return device
    try:
        get_vulkan.install_mesa()
    except SetupError as error:
        say(f"no GPU adapter is here, and lavapipe (Vulkan) could not be installed: {error}")
        return device
    return pick_device(list_devices())


# --- children -------------------------------------------------------------------------------------


def run_child(command: list[str], env: dict[str, str] | None = None) -> int:
    """Runs a command to its end in the checkout. On Ctrl-C the child, which gets it too, may finish
    in peace; the result is then `INTERRUPTED`."""
    process = subprocess.Popen(command, env=env, cwd=ROOT)
    try:
        return exit_code(process.wait())
    except KeyboardInterrupt:
        try:
            process.wait(CHILD_GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
        return INTERRUPTED


def exit_code(returncode: int) -> int:
    """A shell's exit code: a child ended by signal N counts as 128 + N."""
    return 128 - returncode if returncode < 0 else returncode


# --- the commands ---------------------------------------------------------------------------------


def story_command(extra: list[str], device: dict[str, object] | None) -> list[str]:
    """`wggml run` with the story's prompt and a visible device, unless `extra` says otherwise."""
    extra = list(extra)
    model = extra.pop(0) if extra and not extra[0].startswith("-") else DEFAULT_MODEL
    command = ["run", model]
    if not has_flag(extra, "-p", "--prompt", "-f", "--file"):
        command += ["-p", STORY]
    if not has_flag(extra, "-n", "--n-predict"):
        command += ["-n", STORY_TOKENS]
    if device is not None and not has_flag(extra, "--device"):
        command += ["--device", str(device["index"])]
    return command + extra


def has_flag(arguments: list[str], *names: str) -> bool:
    """Whether any of `names` is among the arguments, also as `--name=value`."""
    return any(argument.split("=", 1)[0] in names for argument in arguments)


def command_run(extra: list[str]) -> int:
    """Set-up, then a story on the screen as it is written."""
    ensure_installed([])
    device = None if has_flag(extra, "--device") else find_device()
    if device is not None and device.get("type") == "software":
        say(
            f"no GPU here: showing the GPU path on the software adapter {device['description']}. "
            "`--device cpu` (NumPy) is faster on this machine"
        )
    return run_child([str(venv_python()), "-m", "wggml", *story_command(extra, device)])


def test_env() -> dict[str, str]:
    """The environment of the tests: every software adapter, and one BLAS thread a process."""
    env = {**get_vulkan.software_env(os.environ)}
    env.setdefault("OPENBLAS_NUM_THREADS", "1")
    return env


def prepare_adapters() -> None:
    """Best effort: lavapipe, llvmpipe, SwiftShader and Xvfb where apt can bring them."""
    if not sys.platform.startswith("linux"):
        return
    steps: list[Callable[[], object]] = [get_vulkan.get_swiftshader]
    if not get_vulkan.has_lavapipe():
        steps.insert(0, get_vulkan.install_mesa)
    if not get_vulkan.has_display():
        steps.append(get_vulkan.install_display)
    for step in steps:
        try:
            step()
        except SetupError as error:
            say(f"going on with fewer adapters, or without the tests of the window: {error}")


def command_test(extra: list[str]) -> int:
    """Set-up, then pytest; no test at all counts as a failure (pytest's own exit code 5)."""
    ensure_installed(["dev"])
    prepare_adapters()
    return run_child([str(venv_python()), "-m", "pytest", *extra], test_env())


def command_lint(extra: list[str]) -> int:
    """ruff and mypy over what they are configured for."""
    ensure_installed(["dev"])
    checks = (["ruff", "check", "."], ["mypy"])
    codes = [run_child([str(venv_python()), "-m", *check, *extra]) for check in checks]
    return max(codes)


COMMANDS = {"run": command_run, "test": command_test, "lint": command_lint}


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("extra", nargs=argparse.REMAINDER, help="handed on")
    options = parser.parse_args(argv)
    extra = options.extra[1:] if options.extra[:1] == ["--"] else options.extra
    try:
        need_python()
        return COMMANDS[options.command](extra)
    except SetupError as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
