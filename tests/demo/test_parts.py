"""Parts of the window that need no screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from wggml.demo.engine import Engine
from wggml.demo.flow import Flow, words
from wggml.demo.frames import FrameLog
from wggml.errors import UsageError


@pytest.fixture
def engine() -> Iterator[Engine]:
    e = Engine()
    e.start()
    yield e
    assert e.stop()


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_commands_run_in_order_on_one_other_thread(engine: Engine):
    seen: list[tuple[int, int]] = []
    for i in range(20):
        engine.post("x", lambda i=i: seen.append((i, threading.get_ident())))  # type: ignore[misc]
    wait_for(lambda: len(seen) == 20)
    assert [i for i, _ in seen] == list(range(20))
    assert {t for _, t in seen} != {threading.get_ident()} and len({t for _, t in seen}) == 1


def test_jobs_take_turns_and_commands_come_between(engine: Engine):
    order: list[str] = []

    def job(name: str) -> Iterator[None]:
        while len(order) < 200:
            order.append(name)
            yield

    engine.post("a", lambda: engine.start_job("a", job("a")))
    engine.post("b", lambda: engine.start_job("b", job("b")))
    engine.post("c", lambda: order.append("c"))
    wait_for(lambda: not engine.busy)
    both = "".join(order[order.index("b") :]).replace("c", "")
    assert "aaa" not in both and "bbb" not in both
    assert "c" in order[:10]


def test_an_error_ends_its_job_alone_and_is_kept(engine: Engine):
    ended = threading.Event()

    def bad() -> Iterator[None]:
        try:
            yield
            raise UsageError("too much")
        finally:
            ended.set()

    def good() -> Iterator[None]:
        for _ in range(50):
            yield
        ended_too.set()

    ended_too = threading.Event()
    engine.post("bad", lambda: engine.start_job("bad", bad()))
    engine.post("good", lambda: engine.start_job("good", good()))
    assert ended.wait(10) and ended_too.wait(10)
    wait_for(lambda: engine.errors == {"bad": "too much"})
    assert not engine.is_running("bad")


def test_closing_ends_jobs_and_runs_closers_last_first():
    e, closed = Engine(), list[str]()

    def endless() -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            closed.append("job")

    e.on_close(lambda: closed.append("first"))
    e.on_close(lambda: closed.append("second"))
    e.start()
    e.post("x", lambda: e.start_job("x", endless()))
    wait_for(lambda: e.is_running("x"))
    assert e.stop()
    assert closed == ["job", "second", "first"]


def test_words_break_at_blanks_and_lines():
    texts = ["The", " clock", "maker", "\n\n", "Mi", "ra", ".\n"]
    assert words(texts) == [
        [(0, "The")], [(1, " clock"), (2, "maker")], [(3, "\n")], [(3, "\n")],
        [(4, "Mi"), (5, "ra"), (6, ".")], [(6, "\n")],
    ]  # fmt: skip


def test_flow_keeps_lines_within_the_width():
    flow = Flow(lambda text: 10.0 * len(text))
    texts = ["Once", " upon", " a", " time", "\n", "there", " was", " supercalifragilistic"]
    flow.lay_out(texts, 100.0)
    lines: dict[int, str] = {}
    for item in flow.items:
        lines[item.line] = lines.get(item.line, "") + item.text
        assert item.x + item.width <= 100.0 or len(item.text) > 10
    assert list(lines.values())[:3] == ["Once upon", "a time", "there was"]
    assert {item.token for item in flow.items} == set(range(len(texts)))


def test_frame_log(tmp_path):
    log = FrameLog(tmp_path / "frames.jsonl")
    for _ in range(3):
        log.frame(ui_ms=1.0, busy=True, tokens=2, tab="Think")
    log.flush()
    assert (tmp_path / "frames.jsonl").read_text().count('"tokens": 2') == 3
    with pytest.raises(UsageError, match="frame log"):
        bad = FrameLog(tmp_path / "none" / "frames.jsonl")
        bad.frame(ui_ms=1.0, busy=True, tokens=2, tab="Think")
        bad.flush()
