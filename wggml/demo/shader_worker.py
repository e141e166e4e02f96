"""The shaders tab's own process: watches a folder of edited templates and reports in JSON lines.

    WGGML_SHADERS=FOLDER python -m wggml.demo.shader_worker OP DEVICE

The window's engine never compiles what is being edited: only this process and the one below it,
which runs the cases and may hang or die, look into the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MAX_CASES = 12
"""Cases of an op that an edit runs: the verdict must come while one still looks."""
WAIT_SECONDS = 0.2


def say(kind: str, **more: Any) -> None:
    """One report to the window."""
    print(json.dumps({"kind": kind, **more}), flush=True)


def main(op: str, device_name: str) -> None:
    """Watch until stdin or stdout is closed."""
    from wggml.errors import WggmlError
    from wggml.hal.registry import default_registry
    from wggml.testing.selection import Selection
    from wggml.testing.watch import Watcher

    try:
        selection = Selection(ops=(op,))
        watcher = Watcher(selection, default_registry().find(device_name).name)
    except WggmlError as error:
        say("refused", message=str(error))
        return
    for id in list(watcher.titles)[MAX_CASES:]:
        del watcher.titles[id]
    try:
        done = watcher.first(lambda o: say("case", id=o.id, status=o.status))
        while True:
            _report(watcher, done, op, device_name)
            found = None
            while found is None:
                found = watcher.wait(WAIT_SECONDS)
            done = found
    except BrokenPipeError:
        pass
    finally:
        watcher.close()


def _report(watcher: Any, done: Any, op: str, device_name: str) -> None:
    names = sorted({t for o in done.outcomes if o.templates is not None for t in o.templates})
    say(
        "round", seconds=done.seconds, edited=sorted(done.edited), templates=names,
        outcomes=[
            {"title": watcher.titles[o.id], "status": o.status, "reason": o.reason}
            for o in done.outcomes
        ],
    )  # fmt: skip
    if not done.outcomes:
        return
    if all(o.status != "fail" for o in done.outcomes):
        say("speed", **_speed(op, device_name, done.edited))


def _speed(op: str, device_name: str, edited: frozenset[str]) -> dict[str, Any]:
    """The op's first shape for measuring; its shaders have just passed, so that they may run in
    this process."""
    from wggml.hal.registry import default_registry
    from wggml.testing.builtin import iter_recipes
    from wggml.testing.speed import measure

    device: Any = default_registry().find(device_name)
    recipes = iter_recipes(op, None, perf=True)
    first = next(iter(recipes), None)
    if first is None:
        return {"reason": f"{op} has no shape for measuring"}
    device.pipelines.forget(edited)
    backend = device.init_backend()
    try:
        id, recipe = first
        s = measure(recipe.make(id), backend)
    finally:
        backend.close()
    return {
        "title": recipe.vars, "seconds": s.seconds, "flops": s.flops_per_s, "bytes": s.bytes_per_s,
        "reason": s.reason,
    }  # fmt: skip


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main(sys.argv[1], sys.argv[2])
