"""Tiny random models against llama.cpp's recorded logits, greedy texts and batches of sequences.

Tolerances are those of the recorded data's notes: 1e-3 with an f32 cache; f16 mean 1e-2, max 5e-2.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from wggml.testing import check_llm

MODELS = [
    "llama", "gemma3", "llama_mha_tied_bias", "llama_rope_yarn", "llama_f16", "llama_kquants",
    "llama_q8_0_q4_0",
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_committed_models(
    model: str, device_name: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
):
    code = check_llm.run([str(data_dir / "llm"), "--models", model, "--device", device_name])
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("model", ["llama", "gemma3"])
@pytest.mark.parametrize("flags", ["-fa off", "--kv f16", "--ubatch 7"])
def test_other_settings(
    model: str, flags: str, device_name: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
):
    argv = [str(data_dir / "llm"), "--models", model, "--device", device_name, *flags.split()]
    assert check_llm.run(argv) == 0, capsys.readouterr().out


@pytest.mark.parametrize("copies", ["1", "4"])
def test_every_split_point(
    copies: str, adapter_name: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
):
    argv = [
        str(data_dir / "llm"), "--models", "gemma3", "--prompts", "p0", "--device", adapter_name,
        "-ngl", "0..8", "--copies", copies,
    ]  # fmt: skip
    assert check_llm.run(argv) == 0, capsys.readouterr().out


def test_all_recorded_llama_variants(shared_dir: Path, capsys: pytest.CaptureFixture[str]):
    pattern = "llama|llama_(mha|rope|partial|f16|q8|kq).*|gemma3"
    argv = [str(shared_dir / "oracle" / "llm"), "--models", pattern]
    assert check_llm.run(argv) == 0, capsys.readouterr().out


def test_a_wrong_answer_is_caught(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The check itself must be able to fail: a rope base off by a little."""
    from wggml.models.hparams import Keys

    real = Keys.real

    def bent(self: Keys, key: str, default: float | None = None) -> float:
        return real(self, key, default) * (1.01 if key == "rope.freq_base" else 1.0)

    monkeypatch.setattr(Keys, "real", bent)
    code = check_llm.run([str(data_dir / "llm"), "--models", "llama"])
    assert code == 1
    assert "FAIL" in capsys.readouterr().out


def test_nothing_judged_is_no_success(data_dir: Path, capsys: pytest.CaptureFixture[str]):
    assert check_llm.run([str(data_dir / "llm"), "--models", "nothing"]) == 1
    assert "no model" in capsys.readouterr().out
