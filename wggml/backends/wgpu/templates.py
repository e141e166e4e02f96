"""WGSL templates: finding, rendering, and pointing at the template line an error comes from.

Jinja2 with delimiters that leave WGSL's braces readable: `{{ value }}`,
`{$ if x $} ... {$ endif $}` and, for whole lines, `$$ if x`. An undefined name is an error. Files
are looked up in the checkout's `shaders/` first, else in the package's data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import jinja2

import wggml
from wggml.errors import ShaderError

_MARK = " //@"
_MARKED = re.compile(r"//@([^\s:]+):(\d+)")


@lru_cache(maxsize=1)
def shader_dir() -> Path:
    """The folder of templates: the checkout's, else the installed package's."""
    package = Path(wggml.__file__).parent
    for folder in (package.parent / "shaders", package / "shaders"):
        if (folder / "include").is_dir():
            return folder
    raise ShaderError(f"no shader templates beside or inside {package}; reinstall the package")


class _MarkingLoader(jinja2.FileSystemLoader):
    """Ends each source line in a comment that names it: rendered lines then know their origin."""

    def get_source(self, environment, template):  # type: ignore[no-untyped-def]
        source, path, fresh = super().get_source(environment, template)
        lines = [
            line if _unmarkable(line) else f"{line}{_MARK}{template}:{i}"
            for i, line in enumerate(source.split("\n"), 1)
        ]
        return "\n".join(lines), path, fresh


def _unmarkable(line: str) -> bool:
    """Lines that are no text of their own, and those whose newline a closing block eats."""
    text = line.strip()
    opens = text.count("{$") != text.count("$}") or text.count("{{") != text.count("}}")
    return opens or text.startswith("$$") or text.endswith(("$}", "#}", "-}")) or "{#" in text


def _environment(loader: jinja2.BaseLoader) -> jinja2.Environment:
    return jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        block_start_string="{$", block_end_string="$}", line_statement_prefix="$$",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip


@lru_cache(maxsize=2)
def _env(marking: bool) -> jinja2.Environment:
    loader = _MarkingLoader if marking else jinja2.FileSystemLoader
    return _environment(loader(shader_dir()))


def render(name: str, context: Mapping[str, object]) -> str:
    """WGSL of template `name` (path below the shader folder); `ShaderError` with file and line."""
    return _render(_env(False), name, context)


def _render(env: jinja2.Environment, name: str, context: Mapping[str, object]) -> str:
    try:
        return env.get_template(name).render(context)
    except jinja2.TemplateSyntaxError as e:
        raise ShaderError(f"shader template {e.name or name}, line {e.lineno}: {e.message}") from e
    except jinja2.TemplateNotFound as e:
        raise ShaderError(f"shader template {e} (used by {name}) is not in {shader_dir()}") from e
    except (jinja2.UndefinedError, TypeError, ValueError) as e:
        raise ShaderError(f"shader template {_template_place(e, name)}: {e}") from e


def _template_place(error: BaseException, name: str) -> str:
    """`file, line N` of the innermost template frame; Jinja rewrites tracebacks to show it."""
    place = name
    tb = error.__traceback__
    while tb is not None:
        filename = tb.tb_frame.f_code.co_filename
        if filename.endswith(".wgsl"):
            place = f"{Path(filename).name}, line {tb.tb_lineno}"
        tb = tb.tb_next
    return place


def origin(name: str, context: Mapping[str, object], line: int) -> str:
    """`file:line` of the template line that produced rendered line `line` (counted from 1)."""
    rendered = _render(_env(True), name, context).split("\n")
    for text in (rendered[line - 1 : line] + rendered[line : line + 3])[:4]:
        found = _MARKED.search(text)
        if found:
            return f"{found[1]}:{found[2]}"
    return name
