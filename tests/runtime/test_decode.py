"""Decode: graph reuse, ubatches, what a failure leaves behind, what replaying creates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from wggml.errors import ModelError, UsageError, WggmlError
from wggml.llama import GenerationParams, Llama
from wggml.runtime.batch import Batch

TinyModel = Callable[[str], Path]
PROMPT = [5, 9, 17, 33, 6, 80, 41, 12, 7, 99, 101, 3, 150]


def open_llama(path: Path, device: str = "cpu", **kw: object) -> Llama:
    settings = {"device": device, "n_ctx": 512, "n_ubatch": 64, "type_k": "f32", "type_v": "f32"}
    return Llama(path, **{**settings, **kw})  # type: ignore[arg-type]


@pytest.fixture
def llama(tiny_model: TinyModel) -> Iterator[Llama]:
    with open_llama(tiny_model("gemma3")) as m:
        yield m


def tokens_of(llama: Llama, n: int, **kw: object) -> list[int]:
    params = GenerationParams(max_tokens=n, temperature=0.0, ignore_eos=True, **kw)  # type: ignore[arg-type]
    return [c.token for c in llama.generate(PROMPT, params) if c.token >= 0]


def test_a_graph_lives_for_many_tokens_and_replay_creates_nothing(
    tiny_model: TinyModel, device_name: str
):
    with open_llama(tiny_model("gemma3"), device_name) as m:
        counters = [b.counters for b in m.context.backends]
        fields = (
            "plans_built", "buffers_created", "bind_groups_created", "pipelines_created",
            "layouts_created",
        )  # fmt: skip
        logits = m.eval(PROMPT)
        built, created, changes = m.context.stats.graphs_built, None, 0
        for i in range(256):
            logits = m.eval([int(np.argmax(logits[-1]))], position=len(PROMPT) + i)
            now = [getattr(c, f) for c in counters for f in fields]
            now += [getattr(b, "arrays_created", 0) for b in m.context.backends]
            if m.context.stats.graphs_built == built and i > 0:
                assert now == created, f"token {i} made something new: {fields} {created} {now}"
            else:
                changes += 1
            built, created = m.context.stats.graphs_built, now
        assert built <= 3 + 1  # the prompt's own graph, then one for each 256 cells
        assert changes <= 3
        assert m.context.stats.graphs_reused >= 253
        assert m.context.stats.reallocs == 0


def test_going_back_to_a_shape_finds_its_plan(tiny_model: TinyModel, adapter_name: str):
    def text(m: Llama) -> list[np.ndarray]:
        m.context.kv.clear()
        return [m.eval(PROMPT), *(m.eval([5], position=len(PROMPT) + i) for i in range(2))]

    with open_llama(tiny_model("gemma3"), adapter_name) as m:
        first = text(m)
        built = m.context.backends[0].counters.plans_built
        for got, want in zip(text(m), first, strict=True):
            np.testing.assert_array_equal(got, want)
        assert m.context.backends[0].counters.plans_built == built


def test_reuse_changes_nothing(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch):
    with open_llama(tiny_model("gemma3")) as m:
        with_reuse = tokens_of(m, 40)
        assert m.stats().graphs_reused > 30
    monkeypatch.setenv("WGGML_GRAPH_REUSE", "0")
    with open_llama(tiny_model("gemma3")) as m:
        assert tokens_of(m, 40) == with_reuse
        assert m.stats().graphs_reused == 0


@pytest.mark.parametrize("n_ubatch", [1, 2, 7, 8, 16, 32])
def test_logits_do_not_depend_on_the_ubatch(tiny_model: TinyModel, n_ubatch: int):
    tokens = [(7 * i) % 150 + 3 for i in range(50)]
    with open_llama(tiny_model("gemma3")) as m:
        want = m.eval(tokens, all_outputs=True)
    with open_llama(tiny_model("gemma3"), n_ubatch=n_ubatch) as m:
        got = m.eval(tokens, all_outputs=True)
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_threads_are_taken(tiny_model: TinyModel):
    with open_llama(tiny_model("llama"), n_threads=1, n_threads_batch=2) as m:
        assert len(tokens_of(m, 3)) == 3


def test_several_sequences_in_one_batch_equal_each_alone(llama: Llama):
    seqs = [[5, 9, 17], [33, 6], [80, 41, 12, 7]]
    alone = []
    for s in seqs:
        llama.context.kv.clear()
        alone.append(llama.eval(s)[-1])
    llama.context.kv.clear()
    batch = Batch()
    for i, s in enumerate(seqs):
        for p, t in enumerate(s):
            batch.add(t, p, (i,), output=p == len(s) - 1)
    np.testing.assert_allclose(llama.context.decode(batch), np.stack(alone), atol=1e-4)


def test_a_shared_prefix_is_read_once(llama: Llama):
    llama.eval(PROMPT)
    llama.context.kv.seq_cp(0, 1)
    batch = Batch()
    batch.add(50, len(PROMPT), (1,), output=True)
    got = llama.context.decode(batch)[-1]
    llama.context.kv.clear()
    np.testing.assert_allclose(got, llama.eval([*PROMPT, 50])[-1], atol=1e-4)


def test_a_full_context_is_said_and_generation_stops_at_it(tiny_model: TinyModel):
    with open_llama(tiny_model("llama"), n_ctx=32) as m:
        assert len(tokens_of(m, -1)) == 32 - len(PROMPT)
        m.context.kv.clear()
        m.eval(list(range(3, 35)))
        with pytest.raises(ModelError, match="context is full: 32 of 32"):
            m.eval([3], position=32)


def test_a_prompt_that_does_not_fit_is_refused_with_numbers(tiny_model: TinyModel):
    with (
        open_llama(tiny_model("llama"), n_ctx=16) as m,
        pytest.raises(UsageError, match=r"17 tokens, the context holds 16"),
    ):
        next(m.generate(list(range(3, 20))))


def test_stop_ends_a_prompt_between_ubatches_and_a_text_between_tokens(tiny_model: TinyModel):
    stop = threading.Event()
    with open_llama(tiny_model("llama"), n_ubatch=4) as m:
        chunks = []
        for c in m.generate(PROMPT, GenerationParams(ignore_eos=True, seed=1), stop=stop):
            chunks.append(c)
            if len(chunks) == 3:
                stop.set()
        assert 3 <= len(chunks) <= 4
        decoded = m.context.stats.n_decoded
        assert list(m.generate(PROMPT, GenerationParams(), stop=stop)) == []
        assert m.context.stats.n_decoded == decoded


def test_stop_takes_effect_inside_a_ubatch_on_the_cpu(tiny_model: TinyModel):
    with open_llama(tiny_model("llama")) as m:
        asked = []

        def stop() -> bool:
            asked.append(1)
            return len(asked) > 20

        assert len(m.eval(PROMPT, stop=stop)) == 0
        assert len(asked) == 21
        assert all(p.cells.n_used == 0 for p in m.context.kv.parts.values())
        want = m.eval(PROMPT)
        m.context.kv.clear()
        np.testing.assert_allclose(m.eval(PROMPT, stop=lambda: False), want, atol=1e-5)


def test_stop_takes_effect_between_the_submits_of_a_prompt(
    tiny_model: TinyModel, adapter_name: str
):
    with open_llama(tiny_model("llama"), adapter_name, warm_up=False) as m:
        backend = m.context.backends[0]
        backend.max_dispatches_per_submit = 4  # type: ignore[attr-defined]
        asked = []

        def stop() -> bool:
            asked.append(1)
            return len(asked) > 3

        assert len(m.eval(PROMPT, stop=stop)) == 0
        assert len(asked) == 4
        assert all(p.cells.n_used == 0 for p in m.context.kv.parts.values())
        submits = backend.counters.submits
        want = m.eval(PROMPT)
        assert backend.counters.submits - submits > 3
        m.context.kv.clear()
        np.testing.assert_allclose(m.eval(PROMPT, stop=lambda: False), want, atol=1e-5)


def test_a_failure_in_the_middle_is_forgotten(llama: Llama, monkeypatch: pytest.MonkeyPatch):
    want = llama.eval(PROMPT)[-1]
    llama.context.kv.clear()
    llama.eval(PROMPT[:6])
    used = {n: p.cells.n_used for n, p in llama.context.kv.parts.items()}

    def interrupted(graph: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(llama.context.sched, "graph_compute_async", interrupted)
        with pytest.raises(KeyboardInterrupt):
            llama.eval(PROMPT[6:], position=6)
    assert {n: p.cells.n_used for n, p in llama.context.kv.parts.items()} == used
    np.testing.assert_allclose(llama.eval(PROMPT[6:], position=6)[-1], want, atol=1e-4)


def test_a_build_that_fails_is_not_reused(llama: Llama, monkeypatch: pytest.MonkeyPatch):
    llama.eval(PROMPT)
    with monkeypatch.context() as patch:
        patch.setattr(llama.context.sched, "alloc_graph", lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            llama.eval([3, 4, 5], position=len(PROMPT))
    want = llama.eval([3, 4, 5], position=len(PROMPT))
    llama.context.kv.clear()
    np.testing.assert_allclose(llama.eval([*PROMPT, 3, 4, 5])[-1], want[-1], atol=1e-4)


@pytest.mark.parametrize(
    ("kw", "text"),
    [
        ({"type_k": "q8_0"}, "type_k 'q8_0'"),
        ({"n_ctx": -1}, "n_ctx"),
        ({"n_ubatch": 0}, "n_ubatch"),
        ({"device": "voodoo3"}, "voodoo3"),
        ({"n_gpu_layers": -2}, "n_gpu_layers"),
    ],
)
def test_bad_settings_are_refused_by_name(tiny_model: TinyModel, kw: dict[str, object], text: str):
    with pytest.raises(WggmlError, match=text):
        open_llama(tiny_model("llama"), **kw)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, 192, 10**9])
def test_token_ids_outside_the_vocabulary_are_refused(llama: Llama, bad: int):
    with pytest.raises(UsageError, match=str(bad)):
        llama.eval([5, bad])
