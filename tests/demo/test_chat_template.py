"""Chat templates run as Hugging Face runs them, and nothing of Python is within their reach."""

from __future__ import annotations

import pytest

from wggml.chat import ChatTemplate
from wggml.errors import TemplateError

# What SmolLM2-135M-Instruct's file carries.
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
# The shape of Gemma's: roles must alternate, the begin token comes from the template.
STRICT = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m['role'] }}>"
    "{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}"
)
USER = [{"role": "user", "content": "Hi"}]


def test_chatml():
    assert ChatTemplate(CHATML).render(USER) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_without_generation_prompt():
    text = ChatTemplate(CHATML).render(USER, add_generation_prompt=False)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n")


def test_special_tokens_and_alternation():
    template = ChatTemplate(STRICT, bos_token="<bos>", eos_token="<eos>")
    turns = [*USER, {"role": "assistant", "content": " Hello "}]
    assert template.render(turns) == "<bos><user>Hi<eos>\n<assistant>Hello<eos>\n"
    with pytest.raises(TemplateError, match="roles must alternate"):
        template.render([*USER, *USER])


def test_blocks_leave_no_blank_lines():
    text = (
        "{% if messages %}\n  {% for m in messages %}\n{{ m.content }}\n  {% endfor %}\n{% endif %}"
    )
    assert ChatTemplate(text).render(USER) == "Hi\n"


def test_helpers():
    tools = [{"name": "a<b>", "ü": 1}]
    assert (
        ChatTemplate("{{ tools | tojson }}").render([], tools=tools) == '[{"name": "a<b>", "ü": 1}]'
    )
    assert len(ChatTemplate("{{ strftime_now('%Y') }}").render([])) == 4
    loop = "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}x{% endfor %}"
    assert ChatTemplate(loop).render([*USER, *USER]) == "x"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ (messages | attr('__class__')).__base__ }}",
        "{% for i in range(999999999) %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ missing.field.deeper }}",
    ],
)
def test_what_is_forbidden_or_fails_is_an_error(source: str):
    with pytest.raises(TemplateError):
        ChatTemplate(source).render(USER)


def test_no_jinja():
    with pytest.raises(TemplateError, match="line 2"):
        ChatTemplate("a\n{% if %}")


def test_messages_stay_as_they_are():
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(TemplateError):
        ChatTemplate("{% set _ = messages[0].update({'role': 'x'}) %}").render(messages)
    assert messages == USER
