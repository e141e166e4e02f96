"""Where this machine gets its Python packages from: pip's own settings.

A person behind a mirror or a proxy has told pip about it already; they need not say it again here.
Read are the environment (`PIP_INDEX_URL` and its kin) and what `pip config list` reports, which has
merged pip's files in pip's own order.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_INDEX_URL = "https://pypi.org/simple"
"""The index that pip uses when nothing is configured."""

DEFAULT_TIMEOUT_SECONDS = 60.0
"""Longest silence of a server before a download is given up."""


@dataclass(frozen=True, slots=True)
class PipConfig:
    """pip's settings as far as they say where files come from."""

    index_urls: tuple[str, ...] = (DEFAULT_INDEX_URL,)
    find_links: tuple[str, ...] = ()
    proxy: str | None = None
    cert: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


def parse_config_list(text: str) -> dict[str, str]:
    """Reads the output of `pip config list`: lines like `global.index-url='https://...'`.

    A key set for one command (`install.`, `download.`) or in the environment (`:env:.`) wins over
    `global.`. Lines that do not have this form are skipped.
    """
    order = {"global": 0, "install": 1, "download": 2, ":env:": 3}
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        name, equals, quoted = line.strip().partition("=")
        section, _, key = name.rpartition(".")
        if not equals or section not in order:
            continue
        try:
            value = ast.literal_eval(quoted)
        except (ValueError, SyntaxError):
            continue
        if key not in found or found[key][0] <= order[section]:
            found[key] = (order[section], str(value))
    return {key: value for key, (_, value) in found.items()}


def config_from(settings: Mapping[str, str]) -> PipConfig:
    """Builds the config out of pip's option names (`index-url`, `find-links`, ...)."""
    indexes = [settings.get("index-url", DEFAULT_INDEX_URL).strip()]
    indexes += settings.get("extra-index-url", "").split()
    if _is_true(settings.get("no-index", "")):
        indexes = []
    return PipConfig(
        index_urls=tuple(url.rstrip("/") for url in indexes),
        find_links=tuple(settings.get("find-links", "").split()),
        proxy=settings.get("proxy") or None,
        cert=settings.get("cert") or None,
        timeout_seconds=_seconds(settings.get("default-timeout") or settings.get("timeout")),
    )


def pip_config() -> PipConfig:
    """This machine's pip settings. Without pip, the environment and the defaults alone count."""
    settings = parse_config_list(_config_list_output())
    for name, value in os.environ.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].lower().replace("_", "-")] = value
    return config_from(settings)


def _config_list_output() -> str:
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "y", "on", "t")


def _seconds(text: str | None) -> float:
    try:
        value = float(text) if text else DEFAULT_TIMEOUT_SECONDS
    except ValueError:
        return DEFAULT_TIMEOUT_SECONDS
    return value if value > 0 else DEFAULT_TIMEOUT_SECONDS
