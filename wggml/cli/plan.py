"""`wggml plan`: memory map, split map and op table of a model's graph, without computing it."""

from __future__ import annotations

from typing import Any

import click

from wggml.cli.flags import FlagCommand, flag
from wggml.cli.model_flags import device_flag, model_flags, open_llama, write_file


# fmt: off
@click.command(cls=FlagCommand, short_help="Show where a model's tensors lie and what runs where.")
@click.argument("model")
@flag("--tokens", type=click.IntRange(min=1), metavar="N",
      help="Tokens of the graph; 1 is the graph that writes. Default: a full ubatch.")
@flag("--json", "json_file", metavar="FILE", help="Write all of it as JSON (- = stdout).")
@flag("--html", "html_file", metavar="FILE", help="Write a page to look at; it needs no network.")
@device_flag
@model_flags
def plan(model: str, **options: Any) -> None:
    """Plan the graph of MODEL without computing it and show the result.

    Memory: the place and lifetime of every tensor, the high-water mark, and what it would take
    without reuse. Splits: which backend runs which node, why, and what is copied in between.
    """
    import json

    from wggml.cli.environment import prepare_environment
    from wggml.cli.run import choose_device
    from wggml.cli.text import utf8_stdout
    from wggml.hub import resolve_model
    from wggml.inspect import plan_context
    from wggml.inspect.plan_page import plan_page
    from wggml.inspect.plan_text import plan_text

    show = not options["quiet"]
    prepare_environment()
    path = resolve_model(model, progress=show)
    device = choose_device(options["device"], options["n_gpu_layers"], show=show)
    with open_llama(path, device, options, plan_only=True) as llama:
        taken = plan_context(llama.context, options["tokens"] or llama.context.n_ubatch)
    as_json = options["json_file"]
    out = utf8_stdout()
    if options["html_file"]:
        write_file(options["html_file"], plan_page(taken))
    if as_json == "-":
        out.write(json.dumps(taken.to_json()) + "\n")
        return
    if as_json:
        write_file(as_json, json.dumps(taken.to_json()))
    out.write(plan_text(taken) + "\n")
# fmt: on
