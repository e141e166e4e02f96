"""The command line over an engine that only pretends: it says what it was given and asked."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wggml.cli.main import cli
from wggml.llama import Chunk, GenerationParams, Stats


def sample_stats() -> Stats:
    """Figures that are told apart at a glance."""
    return Stats(
        n_prompt=7,
        prompt_seconds=0.5,
        n_generated=20,
        generate_seconds=2.0,
        devices=["Some GPU"],
        nodes_per_backend={"WGPU0": 900, "CPU": 36},
        n_splits=3,
        compute_buffers={"WGPU0": 16 * 2**20},
        weights={"WGPU0": 92 * 2**20},
        kv_cache_bytes=45 * 2**20,
        graphs_built=2,
        graphs_reused=19,
        host_us_per_token=1500.0,
        ahead_us_per_token=300.0,
        dispatches_per_token=302.0,
        phases_ms={"build": 0.25, "wait": 30.0},
        peak_rss=300 * 2**20,
    )


@dataclass
class Engine:
    """What the fake does next, and what it saw."""

    texts: list[str] = field(default_factory=lambda: ["and", " so", " on"])
    load_error: Exception | None = None
    generate_error: Exception | None = None
    before_chunk: Callable[[int], None] = lambda _: None
    settings: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    prompt: str | None = None
    params: GenerationParams | None = None
    closed: int = 0


def make_llama(engine: Engine) -> type:
    """A stand-in for `wggml.llama.Llama` that reports to `engine`."""

    class Llama:
        def __init__(self, path: Path, **settings: Any) -> None:
            engine.path, engine.settings = path, settings
            if engine.load_error is not None:
                raise engine.load_error

        def generate(
            self, prompt: str, params: GenerationParams, *, stop: threading.Event | None
        ) -> Iterator[Chunk]:
            engine.prompt, engine.params = prompt, params
            if engine.generate_error is not None:
                raise engine.generate_error
            for i, text in enumerate(engine.texts):
                engine.before_chunk(i)
                if stop is not None and stop.is_set():
                    return
                yield Chunk(text, i)

        def stats(self) -> Stats:
            return sample_stats()

        def close(self) -> None:
            engine.closed += 1

    return Llama


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Puts the pretended engine where the command imports the real one from."""
    state = Engine()
    monkeypatch.setattr("wggml.llama.Llama", make_llama(state))
    for name in ("WGGML_TRACEBACK", "WGGML_DEVICE", "WGGML_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return state


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The path of a file that the pretended engine takes for a model."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


@pytest.fixture
def wggml() -> Callable[..., Result]:
    """Runs the command with these arguments."""

    def run(*args: str, **settings: Any) -> Result:
        return CliRunner().invoke(cli, list(args), prog_name="wggml", **settings)

    return run


def fake_device(
    name: str, description: str, kind: str, *, opens: str | None = None, **props: Any
) -> Any:
    """A device as far as the commands look at one; `opens` is why it does not."""
    from wggml.errors import DeviceError
    from wggml.hal.interface import DeviceType

    def probe() -> dict[str, Any]:
        if opens is not None:
            raise DeviceError(opens)
        return {"subgroup_size": 32} if kind == "gpu" else {}

    return types.SimpleNamespace(
        name=name,
        description=description,
        type=DeviceType(kind),
        props=lambda: props,
        probe=probe,
        memory=lambda: (0, 0),
    )


SOFTWARE = ("Soft0", "A software adapter", "software")
CLOSED = ("Gpu1", "A broken GPU", "gpu")
CPU = ("CPU", "NumPy", "cpu")


def use_devices(monkeypatch: pytest.MonkeyPatch, *devices: Any) -> None:
    """Makes these the machine's devices; a string in their place is why there are none."""
    from wggml.errors import DeviceError
    from wggml.hal import registry

    def find() -> list[Any]:
        for device in devices:
            if isinstance(device, str):
                raise DeviceError(device)
        return [device for device in devices if device.name != "CPU"]

    found = registry.Registry({"wgpu": find, "cpu": lambda: [fake_device(*CPU)]})
    monkeypatch.setattr(registry, "_default", found)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a software adapter and the CPU."""
    use_devices(monkeypatch, fake_device(*SOFTWARE))


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU, a software adapter and the CPU."""
    gpu = fake_device(
        "Gpu0",
        "A large GPU",
        "gpu",
        api="Vulkan",
        driver="some driver 1.2",
        features=["f16", "subgroups", "timestamps"],
        also=["D3D12"],
        max_buffer=4 * 2**30,
        max_binding=128 * 2**20,
        missing=["immediates"],
    )
    use_devices(monkeypatch, fake_device(*SOFTWARE), gpu)


@pytest.fixture
def closed_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU that is listed and does not open."""
    use_devices(monkeypatch, fake_device(*CLOSED, opens="out of handles"))


@pytest.fixture
def broken_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose GPU API cannot be opened."""
    use_devices(monkeypatch, "no Vulkan here")
