"""`wggml diff`: two devices compared node by node, to find the first one that is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from wggml.cli.flags import FlagCommand, flag
from wggml.cli.model_flags import model_flags, open_llama, prompt_flag

if TYPE_CHECKING:
    from pathlib import Path

    from wggml.inspect.diff import Diff

EXIT_DIFFERS = 1
MAX_CONTEXT = 1024
"""Context unless -c says otherwise: every look at the KV cache reads all of it."""


# fmt: off
@click.command(cls=FlagCommand, short_help="Find the first node that two devices disagree on.")
@click.argument("model")
@click.option("--a", "a", metavar="NAME|INDEX", default="cpu", show_default=True,
              help="Device that is taken for right.")
@click.option("--b", "b", metavar="NAME|INDEX", required=True, help="Device that is judged.")
@prompt_flag
@flag("--save", "directory", metavar="DIR",
      help="Write the nodes that differ as cases for `wggml test-ops --cases DIR`.")
@flag("--all", "keep_going", is_flag=True, help="Go on after the first node that differs.")
@flag("--windows/--no-windows", default=True,
      help="Compare stretches of nodes too, where kernels compute several at once.")
@flag("--logits/--no-logits", default=True,
      help="Where all nodes agree, compare the whole model's logits too.")
@model_flags
def diff(model: str, **options: Any) -> None:
    """Run MODEL on device a and every node of it on device b as well, with the same inputs: the
    prompt, then one token more. Exit code 1 where a node differs by more than its op may.

    The self-test that would keep b from running an op it gets wrong is off, so that it shows here.
    """
    from wggml.cli.environment import prepare_environment
    from wggml.cli.loading import loading_progress
    from wggml.cli.text import utf8_stdout
    from wggml.hal.registry import default_registry
    from wggml.hub import resolve_model
    from wggml.inspect.diff import compare_logits, diff
    from wggml.testing.capture import write_cases

    os.environ["WGGML_SELFTEST"] = "off"
    prepare_environment()
    path = resolve_model(model, progress=not options["quiet"])
    options["ctx_size"] = options["ctx_size"] or MAX_CONTEXT
    device = default_registry().find(options["b"])
    with open_llama(path, options["a"], options, warm_up=False) as llama:
        tokens = llama.tokenize(options["prompt"])
        backend = device.init_backend()
        with loading_progress(show=not options["quiet"]) as progress:
            found = diff(
                llama, backend, tokens, windows=options["windows"],
                keep_going=options["keep_going"], progress=progress,
            )
        if options["logits"] and not found.failed:
            with open_llama(path, options["b"], options, warm_up=False) as other:
                found.logits = compare_logits(llama, other, tokens)
    out = utf8_stdout()
    out.write(diff_text(found) + "\n")
    if options["directory"] and found.failed:
        write_cases(options["directory"], [f.case for f in found.failed])
        out.write(f"saved: {test_ops_command(options['directory'], options['b'])}\n")
    out.flush()
    if found.failed:
        raise click.exceptions.Exit(EXIT_DIFFERS)
# fmt: on


def diff_text(found: Diff) -> str:
    """The verdict first, then a line per op."""
    lines = _verdict(found)
    lines += ["", f"{'op':18} {'nodes':>6} {'worst error':>12} {'limit':>9}  at"]
    lines += [
        f"{r.op:18} {r.count:6} {r.worst:12.2g} {r.limit:9.0e}  {r.node}"
        for r in found.ops.values()
    ]
    lines += [f"{n} node(s) do not run on {found.b}: {why}" for why, n in found.unsupported.items()]
    if found.logits is not None:
        error, same = found.logits
        token = "the same likeliest token" if same else "another likeliest token"
        lines.append(f"logits of the whole model: error {error:.2g}, {token}")
    return "\n".join(lines)


def _verdict(found: Diff) -> list[str]:
    compared = f"{found.nodes} nodes and {found.windows} stretches compared"
    if not found.failed:
        return [f"no node differs between {found.a} and {found.b} ({compared})"]
    lines = [f"{found.b} differs from {found.a} ({compared}); first:"]
    for f in found.failed:
        reason = f.reason.partition(": ")[2] if f.reason.startswith(f.name) else f.reason
        lines.append(f"  {f.name} ({f.op}), node {f.step} of the {f.phase} graph: {reason}")
        if f.together:
            lines.append(f"    only when these run together: {', '.join(f.together)}")
    return lines


def test_ops_command(directory: Path | str, device: str) -> str:
    """How to run the saved cases again."""
    return f"wggml test-ops --cases {directory} -b {device}"
