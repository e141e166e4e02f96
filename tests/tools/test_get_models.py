"""Fetching known models from the command line."""

from __future__ import annotations

from pathlib import Path

import get_models
import pytest

from wggml.errors import FetchError
from wggml.hub import KNOWN_MODELS


def test_the_list_names_every_model_its_size_and_licence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get_models.main(["--list"]) == 0
    out = capsys.readouterr().out
    for model in KNOWN_MODELS.values():
        assert model.name in out
        assert model.licence in out
    assert "89 MiB" in out


def test_paths_go_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(get_models, "resolve_model", lambda name, *, progress: Path("/m") / name)
    assert get_models.main(["glass"]) == 0
    assert capsys.readouterr().out == "/m/glass\n"
    assert get_models.main([]) == 0
    assert capsys.readouterr().out.split() == [f"/m/{name}" for name in KNOWN_MODELS]


def test_a_failure_is_one_line_and_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str, *, progress: bool) -> Path:
        raise FetchError("no network")

    monkeypatch.setattr(get_models, "resolve_model", fail)
    assert get_models.main(["glass"]) == 2
    assert capsys.readouterr().err == "error: no network\n"
