"""The child process: a warm device and the cases. What a shader does to it ends nothing else."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from wggml.errors import WggmlError

if TYPE_CHECKING:
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.testing.opdata import OpCase
    from wggml.testing.selection import Selection

Makers = dict[str, Callable[[], "OpCase"]]


def serve(pipe: Connection, selection: Selection, device_name: str) -> None:
    """Answer `(case id, edited templates)` requests until the pipe is closed.

    Sends `("ready", [(id, op, parameters)])` once, or `("refused", message)`; then for each request
    `("end", status, reason, templates)`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        device, makers, lines = _prepare(selection, device_name)
    except WggmlError as e:
        pipe.send(("refused", str(e)))
        return
    pipe.send(("ready", lines))
    while True:
        try:
            id, edited = pipe.recv()
        except EOFError:
            return
        device.pipelines.forget(edited)
        pipe.send(("end", *_run(device, makers[id]())))


def _prepare(
    selection: Selection, device_name: str
) -> tuple[WgpuDevice, Makers, list[tuple[str, str, str]]]:
    from wggml import custom
    from wggml.backends.wgpu.device import WgpuDevice
    from wggml.errors import UsageError
    from wggml.hal.registry import default_registry
    from wggml.testing.builtin import iter_recipes

    custom.load_modules()
    device = default_registry().find(device_name)
    if not isinstance(device, WgpuDevice):
        raise UsageError(f"device {device.name} has no shaders to watch; name a GPU adapter by -b")
    device.init_backend().close()
    makers: Makers = {}
    lines = []
    if selection.directory is not None:
        for case in selection.cases():
            makers[case.id] = partial(replace, case)
            lines.append((case.id, case.op, case.vars))
        return device, makers, lines
    reference = default_registry().cpu().init_backend()
    ops = "|".join(map(re.escape, selection.ops)) or None
    for id, recipe in iter_recipes(ops, selection.pattern):
        makers[id] = cache(partial(recipe.case, id, reference))
        lines.append((id, recipe.op, recipe.vars))
    return device, makers, lines


def _run(device: WgpuDevice, case: OpCase) -> tuple[str, str, frozenset[str]]:
    """Status, reason, and the templates of all pipelines that were asked for."""
    from wggml.testing.runner import run_cases

    backend, pipelines = device.init_backend(), device.pipelines
    pipelines.asked.clear()
    result = run_cases([case], backend, runs=2)[0]
    backend.close()
    used = frozenset[str]().union(*(pipelines.templates[key] for key in pipelines.asked))
    return result.status, result.reason, used
