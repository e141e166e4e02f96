"""The command group: finds commands by name, and turns errors into one line and an exit code.

Exit codes: 0 done, 2 refused (bad usage or input; one message says why), 130 stopped by Ctrl-C,
1 anything unforeseen, with its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Any

import click

from wggml.errors import WggmlError

EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "run": "wggml.cli.run:run",
    "devices": "wggml.cli.devices:devices",
    "info": "wggml.cli.info:info",
    "demo": "wggml.cli.demo:demo",
    "test-ops": "wggml.cli.test_ops:test_ops",
    "plan": "wggml.cli.plan:plan",
    "trace": "wggml.cli.trace:trace",
    "diff": "wggml.cli.diff:diff",
    "doctor": "wggml.cli.doctor:doctor",
}
"""Command -> "module:object"; the module is imported when the command is looked up."""


class Refused(click.ClickException):
    """An error that a person can mend: shown as one message."""

    exit_code = EXIT_REFUSED


class Commands(click.Group):
    """A group whose commands are loaded by name and whose errors leave no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WggmlError as error:
            show_traceback_if_wanted()
            raise Refused(str(error)) from error
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE or error.filename is None:
                raise
            show_traceback_if_wanted()
            raise Refused(f"{error.filename}: {error.strerror}") from error


def show_traceback_if_wanted() -> None:
    """Prints the traceback of the error in flight where `WGGML_TRACEBACK` is set."""
    if os.environ.get("WGGML_TRACEBACK", "") not in ("", "0"):
        import traceback

        traceback.print_exc()


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"wggml {version('wggml')}")
    ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="WGGML_TRACEBACK=1 shows the traceback behind an error message.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and stop.",
)
def cli() -> None:
    """ggml's design in Python: GGUF models on any GPU, NumPy as the fallback."""


def main() -> None:
    """Entry point of the `wggml` command."""
    try:
        cli(prog_name="wggml")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
