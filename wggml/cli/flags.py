"""Flags in llama.cpp's spelling: each is an environment variable too, and a flag that wggml lacks
is refused by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    IntParam = click.ParamType[int]
    BoolParam = click.ParamType[bool]
else:  # older click has no type parameter here
    IntParam = BoolParam = click.ParamType

ALL_LAYERS = -1
"""What `-ngl all` and `-ngl auto` stand for: every layer and the output layer."""

HINTS: dict[str, str] = {
    "-m": "give the model first: wggml run MODEL",
    "--model": "give the model first: wggml run MODEL",
    "-hf": "wggml does not download from model hubs; give a path or a known name",
    "-hfr": "wggml does not download from model hubs; give a path or a known name",
    "--list-devices": "use: wggml devices",
    "-cnv": "chat mode is not supported yet; the prompt is continued as it stands",
    "-ot": "placing single tensors is not supported yet; use -ngl",
    "--override-tensor": "placing single tensors is not supported yet; use -ngl",
    "-nkvo": "the KV cache lies where its layer lies; use -ngl",
    "-sm": "splitting over several GPUs is not supported yet",
    "-ts": "splitting over several GPUs is not supported yet",
    "--mlock": "weights stay in the page cache (mmap); locking is not supported yet",
    "--no-mmap": "files are always mapped",
}
"""llama.cpp's flags that wggml lacks and where to look instead."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def flag(*names: str, **settings: Any) -> Decorator:
    """A click option that also reads `WGGML_<LONG NAME>` and says so in the help."""
    long = max((name.split("/")[0] for name in names if name.startswith("--")), key=len)
    settings.setdefault("envvar", "WGGML_" + long[2:].upper().replace("-", "_"))
    settings.setdefault("show_envvar", True)
    if settings.get("default") is not None and not settings.get("is_flag"):
        settings.setdefault("show_default", True)
    return click.option(*names, **settings)


def profile_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--profile`: features and limits to take away from every adapter of this process."""

    def apply(_ctx: click.Context, _param: click.Parameter, words: str | None) -> None:
        if words:
            from wggml.backends.wgpu.profile import ENV_PROFILE, parse_mask

            parse_mask(words)
            os.environ[ENV_PROFILE] = words

    return flag(
        "--profile", metavar="WORDS", callback=apply, expose_value=False,
        help="Take features and limits away from adapters: spec-defaults, no-f16, no-subgroups, "
        "no-immediates, binding=SIZE; several with commas.",
    )(command)  # fmt: skip


class FlagCommand(click.Command):
    """A command that reads `-ngl` and its like as one flag, and names the flag it refuses.

    Without this check a flag that click does not know, such as `-nkvo`, is read as `-n kvo`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._refuse_unknown(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_unknown(self, ctx: click.Context, args: list[str]) -> None:
        takes_value: dict[str, bool] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                has_value = not (param.is_flag or param.count)
                takes_value |= dict.fromkeys((*param.opts, *param.secondary_opts), has_value)
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                return
            name = arg.split("=", 1)[0] if arg.startswith("--") else arg
            if name in takes_value:
                if takes_value[name] and name == arg:
                    next(rest, None)
            elif name in HINTS or _looks_like_flag(arg, takes_value):
                _refuse(ctx, name, list(takes_value))


def _looks_like_flag(arg: str, known: dict[str, bool]) -> bool:
    """`-word`, and not a one-letter flag with its value glued on (`-n64`)."""
    if not re.match(r"-[A-Za-z]", arg):
        return False
    return not (arg[:2] in known and re.fullmatch(r"-[A-Za-z]-?[0-9.]+", arg))


def _refuse(ctx: click.Context, name: str, known: list[str]) -> None:
    if name in HINTS:
        raise click.UsageError(f"{name} is not supported by wggml: {HINTS[name]}", ctx)
    import difflib

    raise click.NoSuchOption(
        name, possibilities=difflib.get_close_matches(name, known) or None, ctx=ctx
    )


class LayerCount(IntParam):
    """Number of layers on the GPU: 0 and more, or -1, `all`, `auto` for every one."""

    name = "N|all|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower()
        if text in ("all", "auto"):
            return ALL_LAYERS
        try:
            count = int(text)
        except ValueError:
            count = ALL_LAYERS - 1
        if count < ALL_LAYERS:
            self.fail(f"{value!r} is not 'all', 'auto' or a number of layers (from 0)", param, ctx)
        return count


class OnOffAuto(BoolParam):
    """`on`, `off` or `auto`; auto is on, since every device has the fused op or is split."""

    name = "on|off|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text not in ("on", "off", "auto", "1", "0"):
            self.fail(f"{value!r} is not 'on', 'off' or 'auto'", param, ctx)
        return text in ("on", "auto", "1")
