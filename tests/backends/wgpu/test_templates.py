"""Where an error in a shader is said to be: the template's file and line, through includes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from wggml.backends.wgpu import templates
from wggml.errors import ShaderError

MAIN = """// a comment
{{ decls }}
{$ include "part.wgsl" $}
{$ from "macros.wgsl" import twice $}
$$ if big
const N = 9;
$$ endif

fn main() {
    let a = {{ twice("N") }};
    $$ for i in range(2)
    let b{{ i }} = a;
    $$ endfor
}
"""
PART = "fn helper() -> f32 {\n    return 1.0;\n}\n"
MACROS = "{$ macro twice(x) -$}\n2 * {{ x }}\n{$- endmacro $}\n"
CONTEXT = {"decls": "var x: f32;\nvar y: f32;", "big": True}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"main.wgsl": MAIN, "part.wgsl": PART, "macros.wgsl": MACROS}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv(templates.ENV_SHADERS, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def place_of(text: str) -> str:
    lines = templates.render("main.wgsl", CONTEXT).split("\n")
    line = next(i for i, rendered in enumerate(lines, 1) if text in rendered)
    return templates.origin("main.wgsl", CONTEXT, line)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a comment", "main.wgsl:1"),
        ("var y", "main.wgsl"),
        ("return 1.0", "part.wgsl:2"),
        ("const N", "main.wgsl:6"),
        ("fn main", "main.wgsl:9"),
        ("let a", "macros.wgsl:2 (used at main.wgsl:10)"),
        ("let b1", "main.wgsl:12"),
    ],
)
def test_rendered_lines_know_their_origin(folder: Path, text: str, place: str) -> None:
    assert place_of(text) == place


def test_marking_changes_no_line(folder: Path) -> None:
    """Line numbers of the text that is compiled are those of the text with marks."""
    marked = templates._render(templates._env(True), "main.wgsl", CONTEXT)
    unmarked = templates._MARKED.sub("", marked)
    assert unmarked == templates.render("main.wgsl", CONTEXT)


def test_paths_are_relative_to_the_working_folder_or_absolute(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert templates.shown("main.wgsl") == "main.wgsl"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert templates.shown("main.wgsl") == str(folder / "main.wgsl")


def test_a_folder_of_ones_own_goes_before_the_packages(folder: Path) -> None:
    (folder / "norm").mkdir()
    (folder / "norm" / "norm.wgsl").write_text("mine")
    assert templates.render("norm/norm.wgsl", {}) == "mine"
    assert templates.path_of("rope/rope.wgsl") is not None
    with pytest.raises(ShaderError, match=r"nothing.* is not in .*shaders"):
        templates.render("nothing.wgsl", {})


def test_rendering_tells_which_templates_it_read(folder: Path) -> None:
    with templates.traced() as names:
        templates.render("main.wgsl", CONTEXT)
    assert names == {"main.wgsl", "part.wgsl", "macros.wgsl"}
    with templates.traced() as names:
        templates.render("part.wgsl", CONTEXT)
    assert names == {"part.wgsl"}


@pytest.mark.parametrize(
    ("text", "place"), [("\n{$ if $}", "main.wgsl:2"), ("\n\n{{ gone }}", "main.wgsl:3")]
)
def test_template_errors_have_a_place(folder: Path, text: str, place: str) -> None:
    (folder / "main.wgsl").write_text(text)
    with pytest.raises(ShaderError, match=re.escape(place)):
        templates.render("main.wgsl", CONTEXT)


def test_an_edited_template_is_read_again(folder: Path) -> None:
    assert "1.0" in templates.render("part.wgsl", {})
    (folder / "part.wgsl").write_text("fn other() {}\n")
    os.utime(folder / "part.wgsl", (1, 1))
    assert "other" in templates.render("part.wgsl", {})


def test_marks_fit_every_template_that_the_short_cases_use(first_backend: Any) -> None:
    """The marked text of the project's own templates has the lines of the compiled one."""
    from wggml.backends.wgpu.pipelines import template_context
    from wggml.hal.registry import default_registry
    from wggml.testing.opcases import run_case
    from wggml.testing.short_cases import recipes

    reference = default_registry().cpu().init_backend()
    for recipe in recipes():
        run_case(recipe.case(recipe.op, reference), first_backend)
    device = first_backend.device
    # other tests may have compiled templates of their own on this device
    keys = [
        key for key in device.pipelines.templates
        if len(key.parts) == 1 and (templates.shader_dir() / key.shader).exists()
    ]  # fmt: skip
    assert len({key.shader for key in keys}) > 25
    for key in keys:
        context = template_context(device.profile, key)
        plain = templates.render(key.shader, context)
        marked = templates._render(templates._env(True), key.shader, context)
        assert templates._MARKED.sub("", marked) == plain, key.shader


def test_compiled_templates_are_kept_in_the_cache_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be written, or a file in it that is damaged, costs only time."""
    first = tmp_path / "one"
    for cache in (first, first, tmp_path / "main.wgsl"):
        monkeypatch.setenv("WGGML_CACHE", str(cache))
        templates._env_of.cache_clear()
        assert "fn main" in templates.render("main.wgsl", CONTEXT)
        for kept in (first / "templates").iterdir():
            kept.write_bytes(kept.read_bytes()[:50])
    assert len(list((first / "templates").iterdir())) == 3
    templates._env_of.cache_clear()
