"""The flags that say how a model is opened, for the commands that look into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wggml.cli.flags import LayerCount, OnOffAuto, flag, profile_flag
from wggml.errors import UsageError

if TYPE_CHECKING:
    from wggml.llama import Llama

Command = Callable[..., Any]

# fmt: off
_FLAGS = (
    flag("-ngl", "--n-gpu-layers", type=LayerCount(), default="all",
         help="Layers on the GPU, counted from the end; the output layer counts as one more."),
    flag("-c", "--ctx-size", type=click.IntRange(min=0), default=0, metavar="N",
         help="Context in tokens; 0 = the model's own, 4096 at most."),
    flag("-ub", "--ubatch-size", "--ubatch", type=click.IntRange(min=1), metavar="N",
         help="Tokens computed in one graph; 512, on software adapters 128."),
    flag("-fa", "--flash-attn", type=OnOffAuto(), default="auto", help="Fused attention."),
    flag("-ctk", "--cache-type-k", default="f16", metavar="TYPE", help="Type of K."),
    flag("-ctv", "--cache-type-v", default="f16", metavar="TYPE", help="Type of V."),
    flag("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors."),
    profile_flag,
)
device_flag = flag("-dev", "--device", metavar="NAME|INDEX",
                   help="Device by index or part of its name (see `wggml devices`); cpu = NumPy.")
prompt_flag = flag("-p", "--prompt", metavar="TEXT", default="The quick brown fox jumps over",
                   help="Text to feed.")
# fmt: on


def model_flags(command: Command) -> Command:
    """Adds the flags that `open_llama` reads."""
    for add in reversed(_FLAGS):
        command = add(command)
    return command


def open_llama(
    path: Path,
    device: str | None,
    options: dict[str, Any],
    *,
    plan_only: bool = False,
    warm_up: bool = True,
) -> Llama:
    """The model as the flags want it; with `plan_only` without the contents of its weights."""
    from wggml.cli.loading import loading_progress
    from wggml.llama import Llama

    with loading_progress(show=not options["quiet"]) as progress:
        return Llama(
            path,
            device=device,
            n_gpu_layers=options["n_gpu_layers"],
            n_ctx=options["ctx_size"],
            n_ubatch=options["ubatch_size"],
            flash_attn=options["flash_attn"],
            type_k=options["cache_type_k"],
            type_v=options["cache_type_v"],
            warm_up=warm_up,
            fill_weights=not plan_only,
            progress=progress,
        )


def write_file(path: str, text: str) -> None:
    """Write a result that a flag named; `UsageError` says why it cannot be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
