"""`wggml run`: what reaches the engine, what is written where, and every way to be refused."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import Result

from wggml.cli.run import run
from wggml.errors import DeviceError, GGUFError, ModelError, UsageError
from wggml.llama import GenerationParams, Llama

if TYPE_CHECKING:
    from tests.cli.conftest import Engine

Wggml = Callable[..., Result]


def test_text_goes_to_stdout_and_all_else_to_stderr(
    wggml: Wggml, engine: Engine, model: str
) -> None:
    done = wggml("run", model, "-p", "This", "--device", "x")
    assert done.exit_code == 0
    assert done.stdout == "Thisand so on\n"
    assert engine.path == Path(model)
    assert engine.prompt == "This"
    assert engine.closed == 1
    for part in (
        "7 tokens in 0.50 s, 14.0 tokens/s",
        "20 tokens in 2.00 s, 10.0 tokens/s",
        "Some GPU",
        "WGPU0 900, CPU 36, 3 splits",
        "WGPU0 16.0 MiB",
        "19 reused, 2 built",
        "45.0 MiB",
        "300.0 MiB",
    ):
        assert part in done.stderr
    assert "dispatches" not in done.stderr


def test_perf_adds_host_time_and_dispatches(wggml: Wggml, engine: Engine, model: str) -> None:
    done = wggml("run", model, "-p", "x", "--device", "x", "--perf")
    assert "1500 µs per token" in done.stderr
    assert "302 per token" in done.stderr
    assert "build 0.25, wait 30.00" in done.stderr


def test_quiet_writes_nothing_but_the_text(wggml: Wggml, engine: Engine, model: str) -> None:
    done = wggml("run", model, "-p", "x", "--device", "x", "-q", "--no-display-prompt")
    assert (done.stdout, done.stderr) == ("and so on\n", "")


def test_defaults_are_the_documented_ones(wggml: Wggml, engine: Engine, model: str) -> None:
    wggml("run", model, "-p", "x", "--device", "x")
    progress = engine.settings.pop("progress")
    assert callable(progress)
    assert engine.settings == {
        "device": "x",
        "n_gpu_layers": -1,
        "n_ctx": 0,
        "n_batch": 2048,
        "n_ubatch": None,
        "flash_attn": True,
        "type_k": "f16",
        "type_v": "f16",
        "n_threads": None,
        "n_threads_batch": None,
        "op_offload": True,
        "cpu_cache_mb": None,
    }
    assert engine.params is not None
    assert engine.params.seed is not None
    assert replace(engine.params, seed=None) == GenerationParams(
        max_tokens=256,
        temperature=0.8,
        top_k=40,
        top_p=0.95,
        min_p=0.05,
        seed=None,
        ignore_eos=False,
    )


def test_a_random_seed_is_told_so_that_the_text_can_be_had_again(
    wggml: Wggml, engine: Engine, model: str
) -> None:
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert engine.params is not None
    first = engine.params.seed
    assert f"seed: {first}\n" in done.stderr
    wggml("run", model, "-p", "x", "--device", "x")
    assert engine.params.seed != first
    assert "seed:" not in wggml("run", model, "-p", "x", "--device", "x", "--temp", "0").stderr


REAL_SETTINGS = inspect.signature(Llama.__init__).parameters


def test_the_engine_takes_every_setting_it_is_given(
    wggml: Wggml, engine: Engine, model: str
) -> None:
    wggml("run", model, "-p", "x", "--device", "x")
    assert set(engine.settings) <= set(REAL_SETTINGS)
    assert {"prompt", "params", "stop"} <= set(inspect.signature(Llama.generate).parameters)


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["-ngl", "3"], "n_gpu_layers", 3),
        (["-ngl", "0"], "n_gpu_layers", 0),
        (["-ngl", "-1"], "n_gpu_layers", -1),
        (["-ngl", "all"], "n_gpu_layers", -1),
        (["--n-gpu-layers=AUTO"], "n_gpu_layers", -1),
        (["-c", "99"], "n_ctx", 99),
        (["-b", "64"], "n_batch", 64),
        (["-ub", "32"], "n_ubatch", 32),
        (["-fa", "off"], "flash_attn", False),
        (["-fa", "on"], "flash_attn", True),
        (["-ctk", "f32"], "type_k", "f32"),
        (["-ctv", "f32"], "type_v", "f32"),
        (["-t", "3"], "n_threads", 3),
        (["-t3"], "n_threads", 3),
        (["-tb", "4"], "n_threads_batch", 4),
        (["--no-op-offload"], "op_offload", False),
        (["--cpu-cache-mb", "0"], "cpu_cache_mb", 0),
    ],
)
def test_flags_reach_the_engine(
    wggml: Wggml, engine: Engine, model: str, args: list[str], name: str, value: object
) -> None:
    done = wggml("run", model, "-p", "x", "--device", "x", *args)
    assert done.exit_code == 0, done.stderr
    assert engine.settings[name] == value


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["-n", "5"], "max_tokens", 5),
        (["-n", "-1"], "max_tokens", -1),
        (["-n64"], "max_tokens", 64),
        (["--temp", "0"], "temperature", 0.0),
        (["--top-k", "-1"], "top_k", -1),
        (["--top-p", "1"], "top_p", 1.0),
        (["--min-p", "0"], "min_p", 0.0),
        (["-s", "42"], "seed", 42),
        (["--ignore-eos"], "ignore_eos", True),
    ],
)
def test_flags_reach_the_sampler(
    wggml: Wggml, engine: Engine, model: str, args: list[str], name: str, value: object
) -> None:
    done = wggml("run", model, "-p", "x", "--device", "x", *args)
    assert done.exit_code == 0, done.stderr
    assert getattr(engine.params, name) == value


def test_every_flag_can_come_from_the_environment(wggml: Wggml, engine: Engine, model: str) -> None:
    env = {"WGGML_N_GPU_LAYERS": "4", "WGGML_TEMP": "0", "WGGML_DEVICE": "y", "WGGML_PROMPT": "p"}
    done = wggml("run", model, env=env)
    assert done.exit_code == 0, done.stderr
    assert engine.settings["n_gpu_layers"] == 4
    assert engine.settings["device"] == "y"
    assert engine.params is not None
    assert engine.params.temperature == 0.0
    assert engine.prompt == "p"
    assert all(param.envvar for param in run.params if param.param_type_name == "option")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["-ngl", "abc"], "'abc' is not 'all', 'auto' or a number of layers"),
        (["-ngl", "-2"], "'-2' is not 'all', 'auto' or a number of layers"),
        (["-ngl", "1.5"], "'1.5'"),
        (["-n", "-2"], "-n"),
        (["-n", "many"], "'many' is not a valid integer"),
        (["-ctk", "q8_0"], "'q8_0' is not one of 'f32', 'f16'"),
        (["-ctv", "bf16"], "'bf16' is not one of"),
        (["-fa", "maybe"], "'maybe' is not 'on', 'off' or 'auto'"),
        (["--top-p", "1.5"], "1.5 is not in the range"),
        (["--temp", "-1"], "-1.0 is not in the range"),
        (["-t", "0"], "-t"),
        (["-nkvo"], "-nkvo is not supported by wggml"),
        (["-m", "x.gguf"], "wggml run MODEL"),
        (["-hf", "someone/model"], "model hubs"),
        (["--mirostat", "2"], "No such option '--mirostat'"),
        (["-cmoe"], "No such option '-cmoe'"),
        (["-np", "2"], "No such option '-np'"),
        (["-f", "x", "-sm", "row"], "-sm is not supported"),
        (["-p"], "requires an argument"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    wggml: Wggml, engine: Engine, model: str, args: list[str], expected: str
) -> None:
    done = wggml("run", model, *args)
    assert done.exit_code == 2
    assert expected in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert engine.path is None, "refused before the model is opened"


def test_a_value_may_look_like_a_flag(wggml: Wggml, engine: Engine, model: str) -> None:
    done = wggml("run", model, "-p", "-nkvo", "--device", "x")
    assert done.exit_code == 0
    assert engine.prompt == "-nkvo"


@pytest.mark.parametrize(
    "error",
    [
        GGUFError("m.gguf: truncated"),
        ModelError("unknown architecture 'x'"),
        DeviceError("no device 'y'"),
        UsageError("bad"),
    ],
)
def test_a_wggml_error_while_loading_is_one_message_and_2(
    wggml: Wggml, engine: Engine, model: str, error: Exception
) -> None:
    engine.load_error = error
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert done.exit_code == 2
    assert done.stderr == f"Error: {error}\n"


def test_a_prompt_longer_than_the_context_is_refused_and_the_model_closed(
    wggml: Wggml, engine: Engine, model: str
) -> None:
    engine.generate_error = UsageError("the prompt has 300 tokens, the context holds 128")
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: the prompt has 300 tokens, the context holds 128\n"
    assert engine.closed == 1


def test_the_traceback_is_shown_when_asked_for(wggml: Wggml, engine: Engine, model: str) -> None:
    engine.load_error = ModelError("broken")
    done = wggml("run", model, "-p", "x", "--device", "x", env={"WGGML_TRACEBACK": "1"})
    assert done.exit_code == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.endswith("Error: broken\n")


def test_a_bug_keeps_its_traceback(wggml: Wggml, engine: Engine, model: str) -> None:
    engine.load_error = KeyError("bug")
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert done.exit_code == 1
    assert isinstance(done.exception, KeyError)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere.gguf", "no such file: nowhere.gguf"),
        ("smollm", "did you mean 'smollm2'"),
        ("someone/model", "model hub's name"),
        (".", "is a directory"),
    ],
)
def test_a_model_that_is_not_there_is_refused(
    wggml: Wggml, engine: Engine, name: str, expected: str
) -> None:
    done = wggml("run", name, "-p", "x")
    assert done.exit_code == 2
    assert expected in done.stderr


# --- the prompt -----------------------------------------------------------------------------------


def test_a_prompt_can_come_from_a_file_or_stdin(
    wggml: Wggml, engine: Engine, model: str, tmp_path: Path
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Grüße\n🦊\n", "utf-8")
    assert wggml("run", model, "-f", str(file), "--device", "x").exit_code == 0
    assert engine.prompt == "Grüße\n🦊"
    assert wggml("run", model, "-f", "-", "--device", "x", input="piped").exit_code == 0
    assert engine.prompt == "piped"
    assert wggml("run", model, "--device", "x", input="also piped").exit_code == 0
    assert engine.prompt == "also piped"


def test_two_prompts_or_a_bad_file_are_refused(
    wggml: Wggml, engine: Engine, model: str, tmp_path: Path
) -> None:
    both = wggml("run", model, "-p", "x", "-f", "y")
    assert (both.exit_code, "both -p and -f" in both.stderr) == (2, True)
    missing = wggml("run", model, "-f", str(tmp_path / "none"))
    assert (missing.exit_code, "cannot read the prompt" in missing.stderr) == (2, True)
    (tmp_path / "binary").write_bytes(b"ab\xff")
    binary = wggml("run", model, "-f", str(tmp_path / "binary"))
    assert (binary.exit_code, "not UTF-8 text (byte 2)" in binary.stderr) == (2, True)


def test_any_character_can_be_written(wggml: Wggml, engine: Engine, model: str) -> None:
    engine.texts = ["é", "日本", "🦊", "\udc80"]
    done = wggml("run", model, "-p", "x", "--device", "x", "-q")
    assert done.exit_code == 0
    assert done.stdout_bytes.decode("utf-8") == "xé日本🦊?\n"


# --- devices --------------------------------------------------------------------------------------


def test_without_a_gpu_one_line_says_so_and_numpy_computes(
    wggml: Wggml, engine: Engine, model: str, no_gpu: None
) -> None:
    done = wggml("run", model, "-p", "x")
    assert engine.settings["device"] == "cpu"
    assert done.stderr.splitlines()[0].startswith("no GPU adapter found: computing with NumPy")
    assert "--device Soft0" in done.stderr.splitlines()[0]


def test_with_a_gpu_the_choice_is_the_engines(
    wggml: Wggml, engine: Engine, model: str, one_gpu: None
) -> None:
    done = wggml("run", model, "-p", "x")
    assert engine.settings["device"] is None
    assert "NumPy" not in done.stderr


def test_without_layers_for_a_gpu_none_is_looked_for(
    wggml: Wggml, engine: Engine, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wggml.hal.registry.default_registry", lambda: pytest.fail("looked"))
    done = wggml("run", model, "-p", "x", "-ngl", "0")
    assert done.exit_code == 0, done.stderr
    assert engine.settings["device"] == "cpu"


# --- Ctrl-C ---------------------------------------------------------------------------------------


def test_ctrl_c_keeps_the_text_shows_the_figures_and_ends_with_130(
    wggml: Wggml, engine: Engine, model: str
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def press(index: int) -> None:
        if index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    engine.before_chunk = press
    done = wggml("run", model, "-p", "This", "--device", "x")
    assert done.exit_code == 130
    assert done.stdout == "Thisand so\n"
    assert "tokens/s" in done.stderr
    assert "Traceback" not in done.stderr
    assert engine.closed == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once(wggml: Wggml, engine: Engine, model: str) -> None:
    def press(index: int) -> None:
        if index == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    engine.before_chunk = press
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert done.exit_code == 130
    assert engine.closed == 1
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_loading_ends_with_130(wggml: Wggml, engine: Engine, model: str) -> None:
    class Interrupt(KeyboardInterrupt):
        """Raised by the fake in place of the signal."""

    engine.load_error = Interrupt()  # type: ignore[assignment]
    done = wggml("run", model, "-p", "x", "--device", "x")
    assert done.exit_code == 130
    assert "Traceback" not in done.stderr
