"""`wggml doctor`: all that a bug report has to say about this machine."""

from __future__ import annotations

import click


@click.command(short_help="Report versions, adapters, limits and caches, for a bug report.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with all limits.")
def doctor(as_json: bool) -> None:
    """Print one block to paste into a bug report: versions, every adapter with driver, features,
    limits, counted subgroup lanes and self-test, cache sizes, and the switches that are set.

    Each adapter is looked at in a process of its own, so that a driver that crashes or hangs is
    reported too. The first time takes as long as the self-tests.
    """
    from wggml.cli.environment import prepare_environment
    from wggml.cli.text import utf8_stdout
    from wggml.inspect.doctor import examine
    from wggml.inspect.doctor_text import doctor_text

    prepare_environment()
    report = examine()
    out = utf8_stdout()
    if as_json:
        import json

        out.write(json.dumps(report, indent=2) + "\n")
    else:
        out.write(doctor_text(report) + "\n")
