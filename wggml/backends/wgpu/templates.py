"""WGSL templates: finding, rendering, and pointing at the template line an error comes from.

Jinja2 with delimiters that leave WGSL's braces readable: `{{ value }}`,
`{$ if x $} ... {$ endif $}` and, for whole lines, `$$ if x`. An undefined name is an error. Files
are looked up in the folders of WGGML_SHADERS and of registered ops first, then in the checkout's
`shaders/`, else in the package's data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import jinja2

import wggml
from wggml import custom
from wggml.errors import ShaderError

ENV_SHADERS = "WGGML_SHADERS"
_MARK = " //@"
_MARKED = re.compile(r" //@([^\s:]+):(\d+)")


@lru_cache(maxsize=1)
def shader_dir() -> Path:
    """The folder of templates: the checkout's, else the installed package's."""
    package = Path(wggml.__file__).parent
    for folder in (package.parent / "shaders", package / "shaders"):
        if (folder / "include").is_dir():
            return folder
    raise ShaderError(f"no shader templates beside or inside {package}; reinstall the package")


def shader_dirs() -> tuple[Path, ...]:
    """Where templates are looked up, first match first."""
    chosen = os.environ.get(ENV_SHADERS, "").split(os.pathsep)
    return (*(Path(p).resolve() for p in chosen if p), *custom.folders(), shader_dir())


def path_of(name: str) -> Path | None:
    """The file of template `name`, or None without one."""
    return next((d / name for d in shader_dirs() if (d / name).is_file()), None)


def shown(name: str) -> str:
    """The file of template `name` as a person may click on it: below the working folder its
    relative path."""
    path = path_of(name)
    return name if path is None else _relative(path)


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


class _Environment(jinja2.Environment):
    """Remembers which templates are asked for, includes and imports among them."""

    asked: set[str] | None = None

    def get_template(self, name, parent=None, globals=None):  # type: ignore[no-untyped-def]
        if self.asked is not None:
            self.asked.add(str(name))
        return super().get_template(name, parent, globals)


@contextmanager
def traced() -> Iterator[set[str]]:
    """Collects the names of all templates that are rendered meanwhile."""
    env, names = _env(False), set[str]()
    env.asked = names
    try:
        yield names
    finally:
        env.asked = None


def _registered_text(name: str):  # type: ignore[no-untyped-def]
    text = custom.text_of(name)
    return None if text is None else (text, None, lambda: custom.text_of(name) == text)


class _MarkingLoader(jinja2.ChoiceLoader):
    """Ends each source line in a comment that names it: rendered lines then know their origin."""

    def load(self, environment, name, globals=None):  # type: ignore[no-untyped-def]
        return jinja2.BaseLoader.load(self, environment, name, globals)  # by way of get_source

    def get_source(self, environment, template):  # type: ignore[no-untyped-def]
        source, path, fresh = super().get_source(environment, template)
        return _marked(source, template), path, fresh


_CLOSER = {"{$": "$}", "{{": "}}", "{#": "#}"}
_OPENER = re.compile(r"\{[$\{#]")


def _marked(source: str, template: str) -> str:
    lines = source.split("\n")
    closer = ""  # of the tag that is open at the end of a line
    # What follows the last newline is the beginning of the including template's next line.
    for i, line in enumerate(lines[:-1]):
        at, is_text = 0, not closer
        while True:
            if closer:
                end = line.find(closer, at)
                if end < 0:
                    break
                at, closer = end + 2, ""
            opener = _OPENER.search(line, at)
            if opener is None:
                break
            at, closer = opener.end(), _CLOSER[opener[0]]
        if is_text and not closer and not _unmarkable(line):
            lines[i] = f"{line}{_MARK}{template}:{i + 1}"
    return "\n".join(lines)


def _unmarkable(line: str) -> bool:
    """Lines that are no text of their own, and those whose newline a closing block eats. A line
    statement eats the empty lines below it."""
    text = line.strip()
    return not text or text.startswith("$$") or text.endswith(("$}", "#}", "-}"))


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates in the cache folder: parsing a kernel's takes 10 ms."""

    def load_bytecode(self, bucket):  # type: ignore[no-untyped-def]
        try:
            super().load_bytecode(bucket)
        except Exception:  # a damaged file, whatever unpickling it raises
            bucket.reset()

    def dump_bytecode(self, bucket):  # type: ignore[no-untyped-def]
        with suppress(OSError):  # a full disk costs only time
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    from wggml.hub.resolve import cache_dir

    folder = cache_dir() / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return _Compiled(str(folder))


def _environment(loader: jinja2.BaseLoader, cache: _Compiled | None) -> _Environment:
    return _Environment(
        loader=loader, bytecode_cache=cache,
        undefined=jinja2.StrictUndefined,
        block_start_string="{$", block_end_string="$}", line_statement_prefix="$$",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip


def _env(marking: bool) -> _Environment:
    return _env_of(marking, shader_dirs())


@lru_cache(maxsize=8)
def _env_of(marking: bool, folders: tuple[Path, ...]) -> _Environment:
    loader = _MarkingLoader if marking else jinja2.ChoiceLoader
    texts = jinja2.FunctionLoader(_registered_text)
    cache = None if marking else _compiled()
    return _environment(loader([texts, jinja2.FileSystemLoader(folders)]), cache)


def render(name: str, context: Mapping[str, object]) -> str:
    """WGSL of template `name` (path below the shader folder); `ShaderError` with file and line."""
    return _render(_env(False), name, context)


def _render(env: jinja2.Environment, name: str, context: Mapping[str, object]) -> str:
    try:
        return env.get_template(name).render(context)
    except jinja2.TemplateSyntaxError as e:
        place = f"{shown(e.name or name)}:{e.lineno}"
        raise ShaderError(f"shader template {place}: {e.message}") from e
    except jinja2.TemplateNotFound as e:
        where = ", ".join(map(str, shader_dirs()))
        raise ShaderError(f"shader template {e.name!r} (used by {name}) is not in {where}") from e
    except (jinja2.UndefinedError, TypeError, ValueError) as e:
        raise ShaderError(f"shader template {_template_place(e, name)}: {e}") from e


def _template_place(error: BaseException, name: str) -> str:
    """`file:line` of the innermost template frame; Jinja rewrites tracebacks to show it."""
    place = shown(name)
    tb = error.__traceback__
    while tb is not None:
        filename = tb.tb_frame.f_code.co_filename
        if filename.endswith(".wgsl"):
            place = f"{_relative(Path(filename))}:{tb.tb_lineno}"
        tb = tb.tb_next
    return place


def origin(name: str, context: Mapping[str, object], line: int) -> str:
    """`file:line` of the template line that produced rendered line `line` (counted from 1), with
    the place that uses it where both are on one line; the file alone where that is not known, as
    in the declarations that no template has."""
    rendered = _render(_env(True), name, context).split("\n")
    text = rendered[line - 1] if 0 < line <= len(rendered) else ""
    if _MARKED.sub("", text) not in str(context.get("decls", "")).split("\n"):
        for candidate in (text, *rendered[line : line + 3]):
            found = [f"{shown(file)}:{at}" for file, at in _MARKED.findall(candidate)]
            if found:
                return found[0] + (f" (used at {found[-1]})" if len(found) > 1 else "")
    return shown(name)
