"""Self-contained HTML pages: templates, styles and scripts that lie beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def render_page(template: str, title: str, data: Any, **values: Any) -> str:
    """One HTML page without references to the outside. `data` is handed to the page's script,
    `values` to the template."""
    import jinja2
    import markupsafe

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    env.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}

    def source(name: str) -> markupsafe.Markup:
        return markupsafe.Markup((_HERE / name).read_text(encoding="utf-8"))

    page = env.get_template(template).render(title=title, data=data, source=source, **values)
    return page + "\n"
