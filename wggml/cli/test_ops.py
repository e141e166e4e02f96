"""`wggml test-ops`: operator cases on a device: are they right, how fast, which are supported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wggml.cli.flags import FlagCommand, profile_flag
from wggml.cli.main import EXIT_INTERRUPTED
from wggml.cli.text import utf8_stdout

if TYPE_CHECKING:
    from rich.console import Console

    from wggml.hal.interface import Device
    from wggml.testing.selection import Selection

PIPED_WIDTH = 120
"""Columns of the tables where the output is no terminal."""

EXIT_FAILED = 1

MODES: dict[str, str] = {
    "test": "wggml.testing.modes.verdicts:run",
    "perf": "wggml.testing.modes.perf:run",
    "support": "wggml.testing.modes.support:run",
    "grad": "wggml.testing.modes.grad:run",
}
"""Mode -> "module:function"; the function takes `Options` and returns an exit code."""


@dataclass(slots=True)
class Options:
    """What a run of `wggml test-ops` was asked for.

    `devices` are those of `-b`; `WGGML_PROFILE` masks them (`--profile` sets it). `report` gathers
    what `--json` writes.
    """

    selection: Selection
    devices: list[Device]
    console: Console
    report: dict[str, Any]


def load_modules(_ctx: click.Context, _param: click.Parameter, paths: tuple[str, ...]) -> None:
    """Ops of `--module` join the built-in table."""
    if paths:
        from wggml.custom import load_module

        for path in paths:
            load_module(path)


@click.command("test-ops", cls=FlagCommand, short_help="Check and time operators on a device.")
@click.option(
    "-o",
    "--op",
    "ops",
    metavar="OP,..",
    default="",
    help="Only these ops; names as in the table, e.g. MUL_MAT,SILU.",
)
@click.option(
    "-p",
    "--params",
    "pattern",
    metavar="REGEX",
    help="Only cases in whose number and parameters REGEX is found.",
)
@click.option(
    "-b",
    "--backend",
    default=None,
    metavar="cpu|ADAPTER|all",
    help="Device by index or part of its name; all = every one.  [default: the best]",
)
@click.option("--cases", "directory", metavar="DIR", help="Run the recorded cases in DIR.")
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="test",
    show_default=True,
    help="test: compare results. perf: GB/s and GFLOP/s. grad: gradients against finite "
    "differences. support: write the table of ops, types and backends.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Run the cases again that a changed .wgsl file concerns; Ctrl-C ends.",
)
@click.option(
    "--module",
    metavar="FILE",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=load_modules,
    help="Also the ops that this Python file registers (wggml.register_op).",
)
@profile_flag
@click.option("--json", "json_path", metavar="FILE", help="Also write all results; - = stdout.")
def test_ops(
    ops: str,
    pattern: str | None,
    backend: str | None,
    directory: str | None,
    mode: str,
    watch: bool,
    json_path: str | None,
) -> None:
    """Run operator cases on a device and judge the results.

    Without --cases the built-in table runs, with the NumPy backend as the reference. Tensors lie in
    poisoned memory with guards between them. Ends with 1 when a case failed.
    """
    if watch and mode != "test":
        raise click.UsageError(f"--watch goes with --mode test, not with {mode}")
    os.environ["WGGML_SELFTEST"] = "off"  # ops that are wrong are to be seen, not avoided
    options = make_options(ops, pattern, backend, directory, to_stderr=json_path == "-")
    target = "wggml.cli.watch:watch" if watch else MODES[mode]
    module, name = target.split(":")
    run: Callable[[Options], int] = getattr(import_module(module), name)
    try:
        code = run(options)
    except KeyboardInterrupt:
        options.console.print("stopped")
        code = EXIT_INTERRUPTED
    if json_path is not None:
        write_json(json_path, {"mode": mode, **options.report})
    raise click.exceptions.Exit(code)


def make_options(
    ops: str, pattern: str | None, backend: str | None, directory: str | None, *, to_stderr: bool
) -> Options:
    """The options with everything looked up; raises `WggmlError` for what does not exist."""
    from rich.console import Console

    from wggml.cli.environment import prepare_environment
    from wggml.testing.selection import Selection

    prepare_environment()
    names = tuple(filter(None, (word.strip().upper() for word in ops.split(","))))
    selection = Selection(names, pattern, Path(directory) if directory else None)
    out = sys.stderr if to_stderr else utf8_stdout()
    console = Console(file=out, width=None if out.isatty() else PIPED_WIDTH, highlight=False)
    profile = os.environ.get("WGGML_PROFILE", "")
    return Options(selection, find_devices(backend), console, {"profile": profile})


def find_devices(backend: str | None) -> list[Device]:
    """The devices that `-b` names; `DeviceError` lists what there is."""
    from wggml.hal.registry import default_registry

    registry = default_registry()
    if backend is None:
        return [registry.best()]
    return registry.devices() if backend.lower() == "all" else [registry.find(backend)]


def write_json(path: str, data: dict[str, Any]) -> None:
    """Write `data` to a file, or to stdout for `-`."""
    text = json.dumps(data, indent=1)
    if path == "-":
        click.echo(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")
