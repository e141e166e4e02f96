"""`ChatEngine`: a model, a conversation, and tokens one at a time, on the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.chat import ChatTemplate
from wggml.demo import xray
from wggml.demo.chat_state import (
    N_TOP,
    Attention,
    Candidate,
    ChatState,
    Inside,
    Settings,
    Speed,
    TokenView,
    Turn,
)
from wggml.demo.engine import Engine
from wggml.demo.xray import XRay
from wggml.errors import ComputeAbortedError, UsageError
from wggml.llama import Llama
from wggml.runtime.batch import Batch
from wggml.runtime.context import LlamaContext
from wggml.runtime.sampling import Sampler
from wggml.vocab import StreamDecoder

F32 = npt.NDArray[np.float32]

N_CTX = 2048
PIECE = 64
"""Tokens of a prompt in one submit: the window shares the adapter and must get its turn."""

TRACED = "The quick brown fox jumps over the lazy dog and then"
"""What the model reads before the token that is measured."""

PLAN_TOKENS = 64
"""How often the plan is taken anew: the graph changes as the conversation grows."""

JOB = "chat"


class ChatEngine:
    """Commands for the window (they return at once) and `state`, which it draws."""

    def __init__(self, engine: Engine, device: str | None) -> None:
        self.engine = engine
        self.state = ChatState()
        self.device = device
        self.llama: Llama | None = None
        self._template: ChatTemplate | None = None
        self._plain: LlamaContext | None = None
        self._xray: XRay | None = None  # with a context of its own
        self._fed: dict[int, list[int]] = {}  # tokens in a context's cache, by the context's id
        self._ids: list[int] = []
        self._shown = (0, 0)  # layer and head
        self._stop = False
        self._settings = Settings()
        self._layers_wanted = -1
        engine.on_close(self._close)

    def _publish(self, **changes: Any) -> None:
        self.state = replace(self.state, version=self.state.version + 1, **changes)
        self.engine.changes += 1

    # ---- commands of the window ---------------------------------------------------------------

    def load(self, path: Path) -> None:
        """Open another model; the conversation is forgotten."""
        self._stop = True
        self.engine.post(JOB, lambda: self._load(path))

    def send(self, text: str, settings: Settings) -> None:
        """Say something; the answer follows token by token."""
        self.engine.post(JOB, lambda: self._send(text, settings))

    def stop(self) -> None:
        """End the answer where it stands."""
        self._stop = True

    def branch(self, turn: int, token: int, choice: int, settings: Settings) -> None:
        """Take token id `choice` in place of an answer's token, and go on from there."""
        self._stop = True
        self.engine.post(JOB, lambda: self._branch(turn, token, choice, settings))

    def reset(self) -> None:
        """Forget the conversation."""
        self._stop = True
        self.engine.post(JOB, self._reset)

    def set_xray(self, on: bool) -> None:
        """Whether to look inside while tokens are made (slower)."""
        self.engine.post(JOB, lambda: self._set_xray(on))

    def show_attention(self, layer: int, head: int) -> None:
        """Which head's weights to publish."""
        self.engine.post(JOB, lambda: self._show_attention(layer, head))

    def trace(self) -> None:
        """Measure one token's time on the device, by op family."""
        self._stop = True
        self.engine.post(JOB, self._trace)

    def place(self, *, device: str | None = None, n_gpu_layers: int | None = None) -> None:
        """Put the model elsewhere and go on with what it was doing."""
        if n_gpu_layers is not None:
            self._layers_wanted = n_gpu_layers
        self.engine.post(JOB, lambda: self._place(device, n_gpu_layers))

    # ---- the model ----------------------------------------------------------------------------

    def _load(self, path: Path) -> None:
        self.engine.end_job(JOB)
        self._close()
        self._publish(
            phase="loading", model=path.name, progress=0.0, progress_text="opening", turns=(),
            n_past=0, attention=None, plan=None, families=(), note="", speed=Speed(),
        )  # fmt: skip
        try:
            self._open(path)
        except BaseException:
            self._publish(phase="empty")
            raise
        assert self.llama is not None
        model = self.llama.model
        self._template = ChatTemplate.from_kv(model.file.kv, model.vocab)
        self._publish(phase="ready", template=self._template is not None)
        self._publish_plan()

    def _open(self, path: Path) -> None:
        n_gpu_layers = self.state.n_gpu_layers

        def progress(share: float, what: str) -> None:
            if self.engine.stopping():
                raise ComputeAbortedError("the window was closed")
            self._publish(progress=share, progress_text=what)

        llama = Llama(
            path, device=self.device, n_gpu_layers=n_gpu_layers, n_ctx=N_CTX, warm_up=True,
            progress=progress,
        )  # fmt: skip
        self.llama = llama
        self._plain = llama.context
        self._fed = {id(llama.context): []}
        hp, model = llama.model.hp, llama.model
        nbytes = sum(model.weights.nbytes().values())
        devices = model.placement.devices or (model.placement.cpu,)
        self._publish(
            n_ctx=llama.context.params.n_ctx, n_layer=hp.n_layer, n_head=max(hp.n_head),
            device=", ".join(d.description for d in devices),
            about=f"{hp.arch}, {hp.n_layer} layers, {hp.n_embd} wide, {nbytes / 2**20:.0f} MiB",
        )  # fmt: skip

    def _close(self) -> None:
        if self._xray is not None:
            self._xray.close()
        if self.llama is not None:
            self.llama.close()
        self.llama = self._plain = self._xray = None
        self._ids = []

    def _place(self, device: str | None, n_gpu_layers: int | None) -> None:
        if n_gpu_layers is not None and n_gpu_layers != self._layers_wanted:
            return  # the slider has moved on
        if self.llama is None:
            self.device = device or self.device
            return
        writing = self.engine.is_running(JOB)
        turns, settings, ids = self.state.turns, self._settings, self._ids
        self.engine.end_job(JOB)
        path, had_xray = self.llama.model.path, self.state.xray
        self._close()
        self.device = device or self.device
        if n_gpu_layers is not None:
            self._publish(n_gpu_layers=n_gpu_layers)
        self._publish(phase="loading", progress=0.0, progress_text="placing", attention=None)
        try:
            self._open(path)
        except BaseException:
            self._publish(phase="empty")
            raise
        self._ids = ids
        self._publish(phase="ready", xray=had_xray)
        self._publish_plan()
        if writing and turns and turns[-1].role == "assistant":
            self._begin(ids, settings)

    def _context(self) -> LlamaContext:
        """The context that makes the next token: the fused one, or the one that can be watched."""
        assert self.llama is not None and self._plain is not None
        if not self.state.xray:
            return self._plain
        if self._xray is None:
            self._xray = XRay(self.llama.model, self._plain.params)
            self._fed[id(self._xray.context)] = []
        return self._xray.context

    # ---- the conversation -----------------------------------------------------------------------

    def _need_model(self) -> Llama:
        if self.llama is None:
            raise UsageError("no model is open: drop a .gguf file onto the window")
        return self.llama

    def _send(self, text: str, settings: Settings) -> None:
        llama = self._need_model()
        self.engine.end_job(JOB)
        turns = (*self.state.turns, Turn("user", text))
        if self._template is not None:
            messages = [{"role": t.role, "content": t.text} for t in turns]
            prompt = self._template.render(messages)
            ids = llama.model.vocab.encode(prompt, add_special=False, parse_special=True)
        else:  # a model that was never taught to chat: it continues what stands there
            before = "".join(t.text for t in turns)
            ids = llama.model.vocab.encode(before, add_special=True)
        if len(ids) + 1 >= self.state.n_ctx:
            raise UsageError(
                f"the conversation has {len(ids)} tokens, the context holds {self.state.n_ctx}: "
                "start a new one"
            )
        self._publish(turns=(*turns, Turn("assistant", "", prompt=tuple(ids))))
        self._begin(ids, settings)

    def _branch(self, turn: int, token: int, choice: int, settings: Settings) -> None:
        llama = self._need_model()
        self.engine.end_job(JOB)
        old = self.state.turns[turn]
        chosen = old.tokens[token]
        new = next((c for c in chosen.top if c.id == choice), None)
        if new is None:
            raise UsageError(f"token {choice} is none of the candidates at this place")
        kept = old.tokens[:token]
        decoder = StreamDecoder()
        for t in kept:
            decoder.feed(llama.model.vocab.piece(t.id))
        text = decoder.feed(llama.model.vocab.piece(choice))
        view = replace(chosen, id=choice, text=text, prob=new.prob)
        tokens = (*kept, view)
        answer = Turn(old.role, "".join(t.text for t in tokens), tokens, old.prompt)
        self._publish(turns=(*self.state.turns[:turn], answer))
        self._begin([*old.prompt, *(t.id for t in tokens)], settings)

    def _reset(self) -> None:
        self.engine.end_job(JOB)
        self._ids = []
        contexts = [self._plain, self._xray.context if self._xray is not None else None]
        for context in contexts:
            if context is not None:
                context.kv.clear()
                self._fed[id(context)] = []
        if self._xray is not None:
            self._xray.forget(0)
        self._publish(turns=(), n_past=0, attention=None, note="", speed=Speed())
        if self.llama is not None:
            self._publish(phase="ready")

    def _set_xray(self, on: bool) -> None:
        self._publish(xray=on, attention=self.state.attention if on else None)
        if on and self.llama is not None and self._ids and not self.engine.is_running(JOB):
            self.engine.start_job(JOB, self._catch_up())

    def _show_attention(self, layer: int, head: int) -> None:
        self._shown = (layer, head)
        self._publish_attention()

    def _publish_attention(self) -> None:
        if self._xray is None or not self._xray.rows or not self.state.xray:
            return
        layer, head = self._shown
        assert self.llama is not None
        head = min(head, len(self._xray.rows[0][layer]) - 1)
        vocab = self.llama.model.vocab
        n = len(self._xray.rows)
        labels = tuple(
            vocab.piece(t, special=True).decode("utf-8", "replace") for t in self._ids[:n]
        )
        weights = self._xray.attention(layer, head)
        self._publish(attention=Attention(layer, head, weights, labels))

    # ---- tokens ----------------------------------------------------------------------

    def _begin(self, ids: list[int], settings: Settings) -> None:
        self._stop = False
        self._settings = settings
        self._ids = list(ids)
        self.engine.start_job(JOB, self._write(settings))

    def _stopped(self) -> bool:
        return self._stop or self.engine.stopping()

    def _feed(self, ids: list[int]) -> Iterator[F32 | None]:
        """Bring the context to these tokens; yields None between submits, at last the logits of
        the last token, F32 [n_vocab]. Ends early when stopped."""
        context = self._context()
        fed = self._fed[id(context)]
        same = 0
        while same < min(len(fed), len(ids) - 1) and fed[same] == ids[same]:
            same += 1
        if same < len(fed):
            if "swa" in context.kv.parts:  # cells that slid out of the window are gone
                same = 0
                context.kv.clear()
            else:
                context.kv.seq_rm(0, same, -1)
            del fed[same:]
        logits = None
        watching = self._xray if self.state.xray else None
        piece = PIECE if watching is None else xray.PIECE
        for at in range(same, len(ids), piece):
            if self._stopped():
                return
            part = ids[at : at + piece]
            logits = context.decode(Batch.of(part, at))
            fed += part
            if watching is not None:
                watching.forget(at)
                watching.take(at, len(part))
            if at + piece < len(ids):
                self._publish(n_past=len(fed))
                yield None
        assert logits is not None
        yield logits[-1]

    def _catch_up(self) -> Iterator[None]:
        """Read the conversation again with the context that can be watched."""
        self._stop = False
        self._publish(phase="reading")
        try:
            for _ in self._feed(self._ids):
                yield
            self._publish_attention()
        finally:
            self._publish(phase="ready", n_past=len(self._ids))

    def _write(self, settings: Settings) -> Iterator[None]:
        """The job that makes an answer."""
        llama = self._need_model()
        vocab, sampler = llama.model.vocab, Sampler(settings.sampling())
        decoder = StreamDecoder()
        for t in self.state.turns[-1].tokens:
            decoder.feed(vocab.piece(t.id))
        start = time.perf_counter()
        self._publish(phase="reading", note="", speed=Speed(len(self._ids)))
        try:
            for _ in range(settings.max_tokens):
                logits: F32 | None = None
                for logits in self._feed(self._ids):
                    if logits is None:
                        yield
                if logits is None or self._stopped():
                    return
                self._take(logits, sampler, decoder, start)
                if vocab.is_eog(self._ids[-1]):
                    return
                if len(self._ids) >= self.state.n_ctx:
                    self._publish(note="the context is full")
                    return
                yield
            self._publish(note=f"stopped after {settings.max_tokens} tokens")
        finally:
            self._finish(decoder)

    def _take(self, logits: F32, sampler: Sampler, decoder: StreamDecoder, start: float) -> None:
        """Choose a token and publish it; the first one ends the prompt's time."""
        assert self.llama is not None
        vocab, now = self.llama.model.vocab, time.perf_counter()
        speed = self.state.speed
        if self.state.phase == "reading":
            speed = Speed(speed.prompt_tokens, now - start)
        else:
            speed = replace(
                speed, tokens=speed.tokens + 1, seconds=now - start - speed.prompt_seconds
            )
        token = sampler.sample(logits)
        probs = softmax(logits)
        view = TokenView(
            token, decoder.feed(vocab.piece(token)), float(probs[token]), len(self._ids),
            top_candidates(probs, self.piece), self._inside(token),
        )  # fmt: skip
        self._ids.append(token)
        turn = self.state.turns[-1]
        if not vocab.is_eog(token):
            turn = replace(turn, tokens=(*turn.tokens, view), text=turn.text + view.text)
        self._publish(
            phase="writing", turns=(*self.state.turns[:-1], turn), n_past=len(self._ids),
            n_tokens=self.state.n_tokens + 1, speed=speed,
        )  # fmt: skip
        if self.state.xray:
            self._publish_attention()
        if (
            len(turn.tokens) % PLAN_TOKENS == 2
        ):  # the graph of one token; the first was the prompt's
            self._publish_plan()

    def piece(self, token: int) -> str:
        """A token's text, special ones by name."""
        assert self.llama is not None
        return self.llama.model.vocab.piece(token, special=True).decode("utf-8", "replace")

    def _inside(self, token: int) -> Inside | None:
        """Norms and lens of the decode that just ran, where it was watched."""
        if self._xray is None or not self.state.xray:
            return None
        residuals = self._xray.residuals
        logits = self._xray.lens.logits(residuals)
        best = logits.argmax(axis=1)
        peak = logits.max(axis=1, keepdims=True)
        total = np.exp(logits - peak).sum(axis=1)
        chosen = np.exp(logits[:, token] - peak[:, 0]) / total
        guesses = tuple(
            Candidate(int(i), self.piece(int(i)), float(1.0 / s))
            for i, s in zip(best, total, strict=True)
        )
        norms = tuple(float(n) for n in np.linalg.norm(residuals, axis=1))
        return Inside(norms, guesses, tuple(float(c) for c in chosen))

    def _publish_plan(self) -> None:
        from wggml.inspect import snapshot_context

        self._publish(plan=snapshot_context(self._context()))

    def _trace(self) -> None:
        from wggml.inspect.trace import trace_token

        llama = self._need_model()
        self.engine.end_job(JOB)
        trace = trace_token(llama, TRACED, token=4)
        self._fed[id(llama.context)] = []
        llama.context.kv.clear()
        rows = tuple((f"{r.family} ({r.track})", r.us / 1e3) for r in trace.families())
        self._publish(
            families=tuple(sorted(rows, key=lambda r: -r[1])),
            families_of=sum(ms for _, ms in rows), note="".join(trace.notes),
        )  # fmt: skip

    def _finish(self, decoder: StreamDecoder) -> None:
        tail = decoder.flush()
        turns = self.state.turns
        if tail and turns:
            turns = (*turns[:-1], replace(turns[-1], text=turns[-1].text + tail))
        self._publish(phase="ready", turns=turns)


def softmax(logits: F32) -> F32:
    """Probabilities of all tokens, before any sampler."""
    e = np.exp(logits - logits.max())
    out: F32 = e / e.sum()
    return out


def top_candidates(probs: F32, piece: Any) -> tuple[Candidate, ...]:
    """The `N_TOP` likeliest tokens, likeliest first, smaller ids first on ties."""
    n = min(N_TOP, len(probs))
    ids = np.argpartition(probs, len(probs) - n)[-n:]
    ids = ids[np.lexsort((ids, -probs[ids]))]
    return tuple(Candidate(int(i), piece(int(i)), float(probs[i])) for i in ids)
