"""`on_node`: looking at tensors of a running model by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wggml.errors import UsageError
from wggml.llama import Llama

TOKENS = [5, 9, 17, 33]


@pytest.fixture
def llama(tiny_model: Callable[[str], Path], device_name: str):
    with Llama(tiny_model("llama"), device=device_name, n_ctx=256, warm_up=False) as m:
        yield m


def test_hooks_see_the_nodes_they_name(llama: Llama):
    plain = llama.eval(TOKENS)
    llama.context.kv.clear()
    seen: dict[str, tuple[int, ...]] = {}
    logits: list[np.ndarray] = []
    with llama.on_node(r"^l_out-\d+$", lambda t, v: seen.update({t.name: v.shape})):
        other = llama.on_node("^result_output$", lambda t, v: logits.append(v))
        observed = llama.eval(TOKENS)
    n, n_embd = llama.model.hp.n_layer, llama.model.hp.n_embd
    # the last layer keeps only the token whose logits are wanted
    assert seen == {f"l_out-{i}": (4, n_embd) if i < n - 1 else (n_embd,) for i in range(n)}
    assert np.allclose(observed, plain, rtol=1e-4, atol=1e-5)
    assert np.array_equal(np.ravel(logits[0]), observed[-1])
    seen.clear()
    other.remove()
    llama.context.kv.clear()
    assert np.array_equal(llama.eval(TOKENS), plain)
    assert not seen and len(logits) == 1


def test_what_a_hook_raises_ends_the_decode_and_leaves_nothing(llama: Llama):
    plain = llama.eval(TOKENS)
    llama.context.kv.clear()
    used = [p.cells.n_used for p in llama.context.kv.parts.values()]

    def fail(t: object, v: object) -> None:
        raise ZeroDivisionError

    with llama.on_node("^l_out-0$", fail), pytest.raises(ZeroDivisionError):
        llama.eval(TOKENS)
    assert [p.cells.n_used for p in llama.context.kv.parts.values()] == used
    assert np.array_equal(llama.eval(TOKENS), plain)


def test_a_bad_pattern_is_refused(llama: Llama):
    with pytest.raises(UsageError, match="no regular expression"):
        llama.on_node("(", lambda t, v: None)
