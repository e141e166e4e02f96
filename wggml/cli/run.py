"""`wggml run`: continues a prompt, writing the text as it comes."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wggml.cli.flags import FlagCommand, LayerCount, OnOffAuto, flag, profile_flag
from wggml.cli.main import EXIT_INTERRUPTED
from wggml.cli.text import utf8_stdout
from wggml.errors import UsageError

if TYPE_CHECKING:
    from wggml.llama import GenerationParams, Llama

KV_TYPES = ("f32", "f16")
"""Types the KV cache can have."""

POSITIVE = click.IntRange(min=1)
NOT_NEGATIVE = click.IntRange(min=0)
SHARE = click.FloatRange(0.0, 1.0)


# fmt: off
@click.command(cls=FlagCommand, short_help="Continue a prompt with a model.")
@click.argument("model")
@flag("-p", "--prompt", metavar="TEXT", help="Text to continue.")
@flag("-f", "--file", "prompt_file", metavar="FILE", help="Read the prompt from FILE (- = stdin).")
@flag("-n", "--n-predict", type=click.IntRange(min=-1), default=256, metavar="N",
      help="Tokens to write at most; -1 = until the model ends or the context is full.")
@flag("-ngl", "--n-gpu-layers", type=LayerCount(), default="all",
      help="Layers on the GPU, counted from the end; the output layer counts as one more.")
@flag("-dev", "--device", metavar="NAME|INDEX",
      help="Device by index or part of its name (see `wggml devices`); cpu = NumPy.")
@profile_flag
@flag("-c", "--ctx-size", type=NOT_NEGATIVE, default=0, metavar="N",
      help="Context in tokens; 0 = the model's own, 4096 at most.")
@flag("-b", "--batch-size", type=POSITIVE, default=2048, metavar="N",
      help="Tokens of a prompt handed over at a time.")
@flag("-ub", "--ubatch-size", type=POSITIVE, metavar="N",
      help="Tokens computed in one graph; 512, on software adapters 128.")
@flag("--temp", type=click.FloatRange(min=0.0), default=0.8, metavar="T",
      help="Temperature; 0 = always the likeliest token.")
@flag("--top-k", type=int, default=40, metavar="K", help="Keep the K likeliest; 0 or less = all.")
@flag("--top-p", type=SHARE, default=0.95, metavar="P",
      help="Keep the likeliest that sum up to P; 1 = all.")
@flag("--min-p", type=SHARE, default=0.05, metavar="P",
      help="Drop tokens less likely than P times the likeliest; 0 = off.")
@flag("-s", "--seed", type=int, default=-1, metavar="N",
      help="Seed of the sampler; -1 = a new one each time.")
@flag("-t", "--threads", type=POSITIVE, metavar="N", help="CPU threads while writing.")
@flag("-tb", "--threads-batch", type=POSITIVE, metavar="N", help="CPU threads for the prompt.")
@flag("-ctk", "--cache-type-k", type=click.Choice(KV_TYPES), default="f16", help="Type of K.")
@flag("-ctv", "--cache-type-v", type=click.Choice(KV_TYPES), default="f16", help="Type of V.")
@flag("-fa", "--flash-attn", type=OnOffAuto(), default="auto", help="Fused attention.")
@flag("--cpu-cache-mb", type=NOT_NEGATIVE, metavar="N",
      help="MiB the CPU may keep of weights turned to f32; 0 = none.")
@flag("--op-offload/--no-op-offload", default=True,
      help="Compute large prompt steps of host weights on the GPU.")
@flag("--ignore-eos", is_flag=True, help="Go on after the model has ended its text.")
@flag("--display-prompt/--no-display-prompt", default=True, help="Write the prompt first.")
@flag("--perf", is_flag=True, help="More figures at the end: host time, dispatches, bytes.")
@flag("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
def run(model: str, **options: Any) -> None:
    """Continue a prompt with MODEL: the path of a .gguf file or a known name.

    Known names (smollm2, glass, glass-pt, gemma3-270m) are fetched on first use. The text goes to
    stdout, all else to stderr; Ctrl-C stops and keeps what was written.
    """
    prompt = read_prompt(options["prompt"], options["prompt_file"])
    show = not options["quiet"]
    from wggml.cli.environment import prepare_environment
    from wggml.hub import resolve_model

    prepare_environment()
    path = resolve_model(model, progress=show)
    if options["seed"] < 0:
        options["seed"] = secrets.randbits(32)
    device = choose_device(options["device"], options["n_gpu_layers"], show=show)
    llama = open_model(path, device, options, show=show)
    try:
        stopped = write_text(llama, prompt, options)
        if show:
            from wggml.cli.summary import summary

            click.echo("\n" + summary(llama.stats(), perf=options["perf"]), err=True)
            if options["temp"] > 0:
                click.echo(f"{'seed':>16}: {options['seed']}", err=True)
    finally:
        llama.close()
    if stopped:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)
# fmt: on


def read_prompt(text: str | None, file: str | None) -> str:
    """The prompt from -p, from -f, or from a stdin that is no terminal. Raises UsageError.

    The newline that ends a file's last line is no part of the prompt, as in llama.cpp.
    """
    if text is not None and file is not None:
        raise UsageError("both -p and -f are given; the prompt can come from one of them")
    if text is not None:
        return text
    if file is None and sys.stdin.isatty():
        raise UsageError("no prompt: give -p TEXT or -f FILE, or pipe text in")
    try:
        if file is None or file == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            text = Path(file).read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        source = file or "stdin"
        raise UsageError(
            f"the prompt in {source} is not UTF-8 text (byte {error.start}); convert it first"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


def choose_device(wanted: str | None, n_gpu_layers: int, *, show: bool) -> str | None:
    """The device to hand on. Says so in one line where no GPU is there and NumPy computes.

    With no layer for a GPU, none is looked for.
    """
    if wanted is not None:
        return wanted
    if n_gpu_layers == 0:
        return "cpu"
    from wggml.hal.interface import DeviceType
    from wggml.hal.registry import default_registry

    registry = default_registry()
    if registry.best().type is not DeviceType.CPU:
        return None
    software = [d.name for d in registry.devices() if d.type is DeviceType.SOFTWARE]
    if show:
        also = f" (software adapters, slower: --device {' or '.join(software)})" if software else ""
        click.echo(f"no GPU adapter found: computing with NumPy on the CPU{also}", err=True)
        for problem in registry.problems:
            click.echo(f"  {problem}", err=True)
    return "cpu"


def open_model(path: Path, device: str | None, options: dict[str, Any], *, show: bool) -> Llama:
    """Loads the model with the flags' settings, with a progress bar where it takes long."""
    from wggml.cli.loading import loading_progress
    from wggml.llama import Llama

    with loading_progress(show=show) as progress:
        return Llama(
            path,
            device=device,
            n_gpu_layers=options["n_gpu_layers"],
            n_ctx=options["ctx_size"],
            n_batch=options["batch_size"],
            n_ubatch=options["ubatch_size"],
            flash_attn=options["flash_attn"],
            type_k=options["cache_type_k"],
            type_v=options["cache_type_v"],
            n_threads=options["threads"],
            n_threads_batch=options["threads_batch"],
            op_offload=options["op_offload"],
            cpu_cache_mb=options["cpu_cache_mb"],
            progress=progress,
        )


def generation_params(options: dict[str, Any]) -> GenerationParams:
    """The sampler's settings out of the flags."""
    from wggml.llama import GenerationParams

    return GenerationParams(
        max_tokens=options["n_predict"],
        temperature=options["temp"],
        top_k=options["top_k"],
        top_p=options["top_p"],
        min_p=options["min_p"],
        seed=options["seed"],
        ignore_eos=options["ignore_eos"],
    )


def write_text(llama: Llama, prompt: str, options: dict[str, Any]) -> bool:
    """Writes prompt and continuation to stdout as they come; True where Ctrl-C stopped it."""
    out = utf8_stdout()
    params = generation_params(options)
    with stop_on_ctrl_c() as stop:
        chunks = iter(llama.generate(prompt, params, stop=stop))
        first = next(chunks, None)  # a prompt that does not fit is refused before a word is out
        if options["display_prompt"]:
            out.write(prompt)
        for chunk in chain([first] if first else [], chunks):
            if chunk.text:
                out.write(chunk.text)
                out.flush()
        out.write("\n")
        out.flush()
        return stop.is_set()


@contextmanager
def stop_on_ctrl_c() -> Iterator[threading.Event]:
    """While the block runs, the first Ctrl-C sets the event, a second one interrupts for good."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
