"""Finding one wheel in the places that pip is told to look: simple indexes (HTML as in PEP 503,
JSON as in PEP 691) and find-links folders or pages."""

from __future__ import annotations

import json
import re
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from wggml.errors import FetchError
from wggml.hub.catalogue import Wheel
from wggml.hub.http import Opener, redacted
from wggml.hub.pip_config import PipConfig

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.01"
)
"""What PEP 691 asks a client to send that reads both forms."""

MAX_PAGE_NBYTES = 64 * 2**20
"""A project page larger than this is not a project page."""


@dataclass(frozen=True, slots=True)
class Link:
    """One file that an index offers; `sha256` is None where the index does not say."""

    filename: str
    url: str
    sha256: str | None


class _Anchors(HTMLParser):
    """Collects the href of every anchor of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.hrefs += [value for name, value in attrs if name == "href" and value]


def normalized(project: str) -> str:
    """A project's name as simple indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def parse_page(text: str, content_type: str, page_url: str) -> list[Link]:
    """Reads a project page in either form. Relative addresses are resolved against `page_url`.

    Raises ValueError where the page claims to be JSON and is not in PEP 691's form.
    """
    if "json" in content_type:
        try:
            files = json.loads(text)["files"]
            return [
                Link(
                    item["filename"],
                    urljoin(page_url, item["url"]),
                    item.get("hashes", {}).get("sha256"),
                )
                for item in files
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a JSON project page without {error}") from error
    anchors = _Anchors()
    anchors.feed(text)
    return [_link_of(href, page_url) for href in anchors.hrefs]


def _link_of(href: str, page_url: str) -> Link:
    url, fragment = urldefrag(urljoin(page_url, href))
    match = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:$|&)", fragment)
    filename = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return Link(filename, url, match[1].lower() if match else None)


def find_wheel(wheel: Wheel, config: PipConfig, opener: Opener) -> Link:
    """The first place that offers `wheel` with the right hash.

    A place that offers a file of this name with another hash is passed over. Raises FetchError with
    what each place answered where none has it.
    """
    answers: list[str] = []
    for place, read in _places(wheel, config, opener):
        shown = redacted(place)
        try:
            links = [link for link in read() if link.filename == wheel.filename]
        except (OSError, ValueError) as error:
            answers.append(f"{shown}: {_reason(error)}")
            continue
        for link in links:
            if link.sha256 in (None, wheel.sha256):
                return link
            answers.append(
                f"{shown}: offers {wheel.filename} with SHA-256 {link.sha256}, "
                f"not the {wheel.sha256} it was published with"
            )
        if not links:
            answers.append(f"{shown}: does not list {wheel.filename}")
    raise FetchError(
        f"cannot find {wheel.filename} in any package index:\n  "
        + "\n  ".join(answers or ["pip is configured to use no index (no-index)"])
        + "\ncheck the network and pip's settings (`pip config list`), or pass the path of a .gguf"
    )


def _places(wheel: Wheel, config: PipConfig, opener: Opener) -> Iterator[tuple[str, _Reader]]:
    for place in config.find_links:
        yield place, _Reader(place, opener, is_index=False)
    for index in config.index_urls:
        page = f"{index}/{normalized(wheel.project)}/"
        yield page, _Reader(page, opener, is_index=True)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the links of one place when called."""

    place: str
    opener: Opener
    is_index: bool

    def __call__(self) -> list[Link]:
        path = local_path(self.place)
        if path is None:
            return self._page(self.place)
        if self.is_index:
            page = path / "index.html"
            return parse_page(page.read_text("utf-8"), "text/html", page.as_uri())
        if path.is_dir():
            files = sorted(path.resolve().iterdir())
            return [Link(file.name, file.as_uri(), None) for file in files]
        return parse_page(path.read_text("utf-8"), "text/html", path.resolve().as_uri())

    def _page(self, url: str) -> list[Link]:
        with self.opener.open(url, accept=ACCEPT) as reply:
            content = reply.read(MAX_PAGE_NBYTES)
            kind = reply.headers.get("Content-Type", "text/html")
            return parse_page(content.decode("utf-8", "replace"), kind, reply.geturl())


def local_path(place: str) -> Path | None:
    """`place` as a path where it is one (plain or file:), else None."""
    scheme = urlsplit(place).scheme
    if scheme == "file":
        return Path(url2pathname(urlsplit(place).path))
    if scheme in ("http", "https"):
        return None
    return Path(place).expanduser()


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
