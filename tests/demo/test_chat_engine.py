"""What the window shows of a chat equals what the engine computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from wggml.demo.chat_engine import JOB, ChatEngine, softmax
from wggml.demo.chat_state import N_TOP, Settings
from wggml.demo.engine import Engine
from wggml.errors import UsageError
from wggml.inspect import snapshot_context
from wggml.llama import Llama

GREEDY = Settings(temperature=0.0, max_tokens=8)


def run(engine: Engine) -> None:
    """Jobs to their end, on this thread."""
    while engine._jobs:
        for name, job in list(engine._jobs.items()):
            engine._advance(name, job)


@pytest.fixture(params=["cpu", "lavapipe"])
def chat(request: pytest.FixtureRequest, tiny_model: Callable[[str], Path]) -> Iterator[ChatEngine]:
    from tests.conftest import find_adapter

    if find_adapter(request.param) is None:
        pytest.skip(f"no {request.param} adapter here")
    engine = Engine()
    chat = ChatEngine(engine, request.param)
    chat._load(tiny_model("llama"))
    yield chat
    chat._close()


def answer(chat: ChatEngine, text: str = "abc") -> None:
    chat._send(text, GREEDY)
    run(chat.engine)


def test_bars_are_the_logits(chat: ChatEngine, tiny_model: Callable[[str], Path]):
    answer(chat)
    turn = chat.state.turns[-1]
    assert turn.tokens and chat.state.phase == "ready"
    with Llama(tiny_model("llama"), device=chat.device, warm_up=False) as llama:
        ids = [*turn.prompt, *(t.id for t in turn.tokens)]
        logits = llama.eval(ids, all_outputs=True)
    for i, token in enumerate(turn.tokens):
        probs = softmax(logits[len(turn.prompt) - 1 + i])
        best = np.sort(probs)[::-1][:N_TOP]
        np.testing.assert_allclose([c.prob for c in token.top], best, rtol=2e-3, atol=1e-6)
        assert token.prob == pytest.approx(float(probs[token.id]), rel=2e-3)
        assert token.id == token.top[0].id


def test_branch_goes_on_from_the_candidate(chat: ChatEngine):
    answer(chat)
    before = chat.state.turns[-1].tokens
    other = before[2].top[3]
    chat._branch(1, 2, other.id, GREEDY)
    run(chat.engine)
    after = chat.state.turns[-1].tokens
    assert [t.id for t in after[:2]] == [t.id for t in before[:2]]
    assert after[2].id == other.id and after[2].prob == other.prob
    assert len(after) > 3
    chat._reset()
    answer(chat)
    assert [t.id for t in chat.state.turns[-1].tokens] == [t.id for t in before]


def test_inside_equals_the_outside(chat: ChatEngine):
    chat._set_xray(True)
    answer(chat)
    turn = chat.state.turns[-1]
    for token in turn.tokens:
        assert token.inside is not None
        # the last layer's guess is the model's
        assert token.inside.guesses[-1].id == token.top[0].id
        assert token.inside.chosen[-1] == pytest.approx(token.prob, rel=5e-3)
        assert len(token.inside.norms) == chat.state.n_layer and min(token.inside.norms) > 0
    for layer in range(chat.state.n_layer):
        for head in range(chat.state.n_head):
            chat._show_attention(layer, head)
            a = chat.state.attention
            assert a is not None and a.layer == layer and a.head == head
            weights = a.weights.astype(np.float64)
            np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=5e-3)
            assert (np.triu(weights, 1) == 0).all()
            assert len(weights) == len(a.labels) == len(turn.prompt) + len(turn.tokens) - 1


def test_looking_inside_changes_no_word(chat: ChatEngine):
    answer(chat)
    plain = [t.id for t in chat.state.turns[-1].tokens]
    chat._set_xray(True)
    run(chat.engine)  # reads the conversation again
    assert chat.state.attention is not None
    chat._reset()
    answer(chat)
    assert [t.id for t in chat.state.turns[-1].tokens] == plain


def test_memory_map_is_the_plan_of_the_real_buffers(chat: ChatEngine):
    answer(chat)
    assert chat.llama is not None and chat.state.plan is not None
    context = chat.llama.context
    assert chat.state.plan.to_json()["memory"] == snapshot_context(context).to_json()["memory"]
    sizes = context.compute_buffer_sizes()
    by_name = {b.name: b for b in context.backends}
    plan = chat.state.plan
    for buffer in plan.memory.buffers:
        first = plan.splits.backends[buffer.backends[0]].name
        assert buffer.size == sizes[first] and first in by_name


def test_placing_goes_on_with_the_same_words(chat: ChatEngine):
    answer(chat)
    words = [t.id for t in chat.state.turns[-1].tokens]
    chat._reset()
    chat._send("abc", GREEDY)
    for _ in range(4):
        chat.engine._advance(JOB, chat.engine._jobs[JOB])
    chat._layers_wanted = 1
    chat._place(None, 1)
    run(chat.engine)
    assert chat.state.n_gpu_layers == 1
    assert [t.id for t in chat.state.turns[-1].tokens][: len(words)] == words


def test_refusals(chat: ChatEngine):
    with pytest.raises(UsageError, match="context holds"):
        chat._send("abc" * 4000, GREEDY)
    answer(chat)
    with pytest.raises(UsageError, match="none of the candidates"):
        chat._branch(1, 0, 10**6, GREEDY)
    chat._close()
    with pytest.raises(UsageError, match=r"drop a \.gguf"):
        chat._send("abc", GREEDY)
