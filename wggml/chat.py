"""Chat templates: messages to text, by the Jinja2 program that a model's file carries.

A template comes out of a downloaded file, so it runs in Jinja2's immutable sandbox: it can neither
reach Python's internals nor change what it is given. Helpers are those that Hugging Face's
`apply_chat_template` offers and that published templates use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wggml.errors import TemplateError

if TYPE_CHECKING:
    from jinja2 import Template

    from wggml.vocab import Vocab

KEY = "tokenizer.chat_template"
Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja2 text.
        bos_token, eos_token: what the variables of these names are; empty where there is none.

    Raises `TemplateError` for text that is no Jinja2.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._template = _compile(source)

    @classmethod
    def from_kv(cls, kv: Mapping[str, Any], vocab: Vocab) -> ChatTemplate | None:
        """The template of a GGUF file's keys; None for a model that has none."""
        source = kv.get(KEY)
        if not source:
            return None
        bos, eos = ("" if t is None else vocab.token_text(t) for t in (vocab.bos, vocab.eos))
        return cls(str(source), bos_token=bos, eos_token=eos)

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt of a conversation; messages have `role` and `content`.

        Tokenize it with `add_special=False, parse_special=True`: the template writes the begin
        token itself. Raises `TemplateError` with the template's own words where it refuses the
        messages (`raise_exception`), and for one that fails or tries what the sandbox forbids.
        """
        from jinja2.exceptions import TemplateError as Jinja2Error

        try:
            return self._template.render(
                messages=[dict(m) for m in messages],
                add_generation_prompt=add_generation_prompt,
                **self._tokens, **variables,
            )  # fmt: skip
        except TemplateError:
            raise
        except (Jinja2Error, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise TemplateError(
                f"the model's chat template failed: {error}. Continue plain text instead, or give "
                "messages whose roles alternate between user and assistant"
            ) from error


@lru_cache(maxsize=8)
def _compile(source: str) -> Template:
    from jinja2 import TemplateSyntaxError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # the settings of Hugging Face's apply_chat_template
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return env.from_string(source)
    except TemplateSyntaxError as error:
        raise TemplateError(
            f"the model's chat template is no Jinja2, line {error.lineno}: {error.message}"
        ) from error


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face has it: Jinja2's own filter would write `<` and `>` as escapes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise TemplateError(f"the model's chat template refuses these messages: {message}")
