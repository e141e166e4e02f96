"""`wggml trace`: one token's timeline, on the host and on the devices."""

from __future__ import annotations

from typing import Any

import click

from wggml.cli.flags import FlagCommand, flag
from wggml.cli.model_flags import device_flag, model_flags, open_llama, prompt_flag, write_file


# fmt: off
@click.command(cls=FlagCommand, short_help="Show where one token's time goes.")
@click.argument("model")
@prompt_flag
@flag("--token", type=click.IntRange(min=1), default=5, metavar="N",
      help="Which token after the prompt; 1 builds its graph, later ones use it again.")
@flag("--json", "json_file", metavar="FILE",
      help="Write Chrome's trace format, for Perfetto or chrome://tracing (- = stdout).")
@flag("--html", "html_file", metavar="FILE", help="Write a page to look at; it needs no network.")
@device_flag
@model_flags
def trace(model: str, **options: Any) -> None:
    """Trace one token of MODEL after a prompt: each dispatch by the device's own clock, each phase
    of the host, and the time by op family."""
    import json

    from wggml.cli.environment import prepare_environment
    from wggml.cli.run import choose_device
    from wggml.cli.text import utf8_stdout
    from wggml.hub import resolve_model
    from wggml.inspect.chrome import chrome_trace
    from wggml.inspect.trace import trace_token
    from wggml.inspect.trace_page import trace_page
    from wggml.inspect.trace_text import trace_text

    show = not options["quiet"]
    prepare_environment()
    path = resolve_model(model, progress=show)
    device = choose_device(options["device"], options["n_gpu_layers"], show=show)
    with open_llama(path, device, options) as llama:
        taken = trace_token(llama, options["prompt"], options["token"])
    out = utf8_stdout()
    if options["html_file"]:
        write_file(options["html_file"], trace_page(taken))
    if options["json_file"] == "-":
        out.write(json.dumps(chrome_trace(taken)) + "\n")
        return
    if options["json_file"]:
        write_file(options["json_file"], json.dumps(chrome_trace(taken)))
    out.write(trace_text(taken) + "\n")
# fmt: on
