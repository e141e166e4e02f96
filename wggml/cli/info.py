"""`wggml info`: what is inside a GGUF file, without loading it."""

from __future__ import annotations

import click

PIPED_WIDTH = 160
"""Columns of the tables where stdout is no terminal."""


@click.command(short_help="Show keys, tensors, types and sizes of a GGUF file.")
@click.argument("file")
@click.option("--tensors/--no-tensors", default=True, help="List every tensor.", show_default=True)
def info(file: str, tensors: bool) -> None:
    """Show keys, tensors, types and sizes of FILE: a .gguf file or a known model name."""
    from rich.console import Console

    from wggml.cli.text import utf8_stdout
    from wggml.gguf_io import open_gguf
    from wggml.gguf_io.describe import describe, render
    from wggml.hub import resolve_model

    path = resolve_model(file, progress=True)
    out = utf8_stdout()
    console = Console(file=out, width=None if out.isatty() else PIPED_WIDTH, highlight=False)
    with open_gguf(path) as gguf:
        render(describe(gguf), console, tensors=tensors)
