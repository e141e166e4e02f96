"""Self-test: which ops a driver computes wrongly, found out when a device is opened.

A few small cases run on the device and on NumPy; an op that differs, or that the driver refuses, is
answered "unsupported" from then on, so that a scheduler places it on the CPU. The verdict is
remembered for each adapter, driver, profile and version of wggml, its shaders and wgpu.

WGGML_SELFTEST=short (the default) | full (all cases of `wggml test-ops`: minutes) | off.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from wggml import __version__
from wggml.backends.wgpu import templates
from wggml.backends.wgpu.implementation import module
from wggml.core.opcodes import EMPTY_OPS, Op
from wggml.core.tensor import Tensor
from wggml.core.types import Type, type_from_name, type_name
from wggml.errors import DeviceError, DeviceLostError, UsageError

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.hal.interface import Backend
    from wggml.testing.opdata import OpCase

ENV_SELFTEST = "WGGML_SELFTEST"
MODES = ("short", "full", "off")
# Ops whose kernels differ by the type of their first operand: only that type is distrusted.
BY_TYPE = frozenset({Op.MUL_MAT, Op.MUL_MAT_ID, Op.GET_ROWS})
MAX_REASON = 400  # characters of a reason that are kept; compilers tell long stories
_log = logging.getLogger(__name__)

Key = tuple[Op, Type | None]


@dataclass(slots=True)
class Verdict:
    """What a self-test found. `wrong` has the reason for each op, or op and type of operand."""

    mode: str
    cases: int = 0
    seconds: float = 0.0
    wrong: dict[Key, str] = field(default_factory=dict)
    remembered: bool = False

    def why_not(self, t: Tensor) -> str | None:
        """The reason why `t` is not to be run on this device, or None."""
        reason = self.wrong.get(key_of(t))
        return None if reason is None else f"self-test: {reason}"

    def __str__(self) -> str:
        if self.mode == "off":
            return "off"
        if not self.wrong:
            return f"{self.cases} cases passed"
        return f"{len(self.wrong)} wrong: {', '.join(map(name_of, self.wrong))}"


def key_of(t: Tensor) -> Key:
    """What `t` is trusted or distrusted by."""
    a = t.src[0] if t.op in BY_TYPE and t.src else None
    return t.op, None if a is None else a.type


def name_of(key: Key) -> str:
    """`MUL_MAT q4_0`, `SOFT_MAX`."""
    op, type_ = key
    return op.name if type_ is None else f"{op.name} {type_name(type_)}"


def mode() -> str:
    """WGGML_SELFTEST; `UsageError` when it is none of `MODES`."""
    chosen = os.environ.get(ENV_SELFTEST) or "short"
    if chosen not in MODES:
        raise UsageError(f"{ENV_SELFTEST}={chosen!r}: choose {', '.join(MODES)}")
    return chosen


def verdict(device: WgpuDevice) -> Verdict:
    """The remembered verdict on an adapter as it is profiled, else that of a test made now. A
    device with ops found wrong is told of in one warning."""
    chosen = mode()
    if chosen == "off":
        return Verdict("off")
    memory = Memory(device, chosen)
    found = memory.read()
    if found is None:
        found = run(device, chosen, memory)
        memory.write(found)
    if found.wrong:
        first = next(iter(found.wrong.values()))
        _log.warning(
            "%s (%s) computes wrongly: %s. They run elsewhere (%s; %s=off trusts the driver)",
            device.name, device.description, ", ".join(map(name_of, found.wrong)), first,
            ENV_SELFTEST,
        )  # fmt: skip
    return found


def run(device: WgpuDevice, chosen: str, memory: Memory) -> Verdict:
    """Run the cases of a mode. Raises `DeviceError` when one of them loses the device: its op is
    remembered as wrong, and the next time it is left out."""
    from wggml.backends.wgpu.backend import WgpuBackend

    found = Verdict(chosen)
    began = perf_counter()
    if (fatal := memory.fatal()) is not None:
        found.wrong[fatal] = "the driver did not come back from it"
    backend = WgpuBackend(device)
    try:
        for case in _cases(chosen):
            key = key_of_case(case)
            if key in found.wrong:
                continue
            memory.begin(key)
            _judge(case, key, backend, found)
    except DeviceLostError as e:
        memory.keep = True
        raise DeviceError(
            f"the self-test of {device.name} lost the device: {e}. Run again: the op is then left "
            f"out; or set {ENV_SELFTEST}=off"
        ) from e
    finally:
        memory.end()
        backend.close()
    found.seconds = perf_counter() - began
    return found


def _cases(chosen: str) -> Iterator[OpCase]:
    if chosen == "full":
        from wggml.testing.builtin import iter_builtin

        yield from iter_builtin()
        return
    from wggml.hal.registry import default_registry
    from wggml.testing.short_cases import recipes

    reference = default_registry().cpu().init_backend()
    for recipe in recipes():
        yield recipe.case(recipe.op, reference)


def _judge(case: OpCase, key: Key, backend: Backend, found: Verdict) -> None:
    from wggml.testing.opcases import run_case

    result = run_case(case, backend, weights_buffer=True)
    if "DeviceLostError" in result.reason:
        raise DeviceLostError(f"{name_of(key)}: {result.reason}")
    if result.status == "unsupported" or result.reason.startswith("UnsupportedOpError"):
        return  # an operand where no kernel can bind it: refused aloud, so nothing is wrong
    found.cases += 1
    if result.status == "fail":
        text = " ".join(f"{name_of(key)}: {result.reason}".split())
        found.wrong[key] = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}..."


def key_of_case(case: OpCase) -> Key:
    """The op that a case is about: its last node that computes."""
    last = [r for r in case.tensors if r.op not in EMPTY_OPS][-1]
    a = last.src[0] if last.op in BY_TYPE and last.src else None
    return last.op, None if a is None else case.tensors[a].type


class Memory:
    """Verdicts in the cache folder: one file for each adapter, driver, profile and version.

    While a test runs, a second file names the op under test. Where such a file is left by a process
    that is gone, the driver took it down: that op is `fatal`.
    """

    def __init__(self, device: WgpuDevice, chosen: str) -> None:
        from wggml.hub.resolve import cache_dir

        self.facts = facts(device, chosen)
        digest = hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()[:16]
        self.path = cache_dir() / "selftest" / f"{digest}.json"
        self.journal = self.path.with_suffix(".running")
        self.keep = False  # leave the journal: its op is to be left out next time

    def read(self) -> Verdict | None:
        """The verdict of an earlier run; None without one that can be read."""
        try:
            stored = json.loads(self.path.read_text("utf-8"))
            wrong = {_key(name): str(reason) for name, reason in stored["wrong"].items()}
            return Verdict(self.facts["mode"], int(stored["cases"]), 0.0, wrong, True)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, found: Verdict) -> None:
        wrong = {name_of(key): reason for key, reason in found.wrong.items()}
        stored = {**self.facts, "cases": found.cases, "seconds": found.seconds, "wrong": wrong}
        with suppress(OSError):  # a folder that cannot be written costs a test each time
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(stored, indent=1), "utf-8")
            draft.replace(self.path)

    def begin(self, key: Key) -> None:
        with suppress(OSError):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            self.journal.write_text(f"{os.getpid()} {name_of(key)}", "utf-8")

    def end(self) -> None:
        if not self.keep:
            with suppress(OSError):
                self.journal.unlink(missing_ok=True)

    def fatal(self) -> Key | None:
        """The op that an earlier process did not come back from."""
        try:
            pid, name = self.journal.read_text("utf-8").split(" ", 1)
            return None if _is_running(int(pid)) else _key(name)
        except (OSError, ValueError, KeyError):
            return None


def _key(name: str) -> Key:
    op, _, type_ = name.partition(" ")
    return Op[op], type_from_name(type_) if type_ else None


def _is_running(pid: int) -> bool:
    if os.name == "nt" or pid == os.getpid():  # Windows' os.kill has no harmless signal
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def facts(device: WgpuDevice, chosen: str) -> dict[str, Any]:
    """All that a verdict depends on."""
    info = device.adapter.info
    return {
        "mode": chosen,
        "adapter": device.description,
        "driver": f"{info.get('vendor', '')} {info.get('description', '')}".strip(),
        "profile": str(device.profile),
        "wggml": __version__,
        "shaders": shaders_stamp(templates.shader_dirs()),
        "wgpu": f"{module().__name__} {module().__version__}",
    }


def shaders_stamp(folders: Sequence[Path]) -> str:
    """Changes whenever a template was edited."""
    digest = hashlib.sha256()
    for path in (p for folder in folders for p in sorted(folder.rglob("*.wgsl"))):
        state = path.stat()
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]
