"""What the window knows of a chat: immutable records that the engine publishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.inspect import GraphPlan

N_TOP = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could come next, and how likely the model finds it (before the sampler)."""

    id: int
    text: str
    prob: float


@dataclass(frozen=True, slots=True)
class Inside:
    """What the layers held when a token was chosen.

    norms: length of the residual stream after each layer. guesses: what each layer would say if it
    were the last (logit lens). chosen: how likely each layer finds the token that was chosen.
    """

    norms: tuple[float, ...]
    guesses: tuple[Candidate, ...]
    chosen: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TokenView:
    """A generated token. `text` may be empty while a character is incomplete; `position` is its
    own in the context; `top` the likeliest ten."""

    id: int
    text: str
    prob: float
    position: int
    top: tuple[Candidate, ...]
    inside: Inside | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A message. `prompt` are the ids that came before the answer's tokens."""

    role: str
    text: str
    tokens: tuple[TokenView, ...] = ()
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Attention:
    """Weights of one head in one layer, [n, n]: row = who looks, column = who is looked at; zero
    where nothing was computed. `labels` are the tokens' texts."""

    layer: int
    head: int
    weights: npt.NDArray[np.float16]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Speed:
    """Figures of the run under way or the last one."""

    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def prompt_per_second(self) -> float:
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0


@dataclass(frozen=True, slots=True)
class ChatState:
    """All that the Think and Machine tabs draw. `phase`: empty, loading, ready, reading, writing.

    n_tokens: generated since the start. version: grows with every change.
    families: milliseconds of a token by op family, where they were measured.
    """

    phase: str = "empty"
    model: str = ""
    about: str = ""
    device: str = ""
    template: bool = False
    progress: float = 0.0
    progress_text: str = ""
    turns: tuple[Turn, ...] = ()
    n_past: int = 0
    n_ctx: int = 0
    n_layer: int = 0
    n_head: int = 0
    n_gpu_layers: int = -1
    n_tokens: int = 0
    xray: bool = False
    attention: Attention | None = None
    speed: Speed = field(default_factory=Speed)
    plan: GraphPlan | None = None
    families: tuple[tuple[str, float], ...] = ()
    families_of: float = 0.0
    note: str = ""
    version: int = 0

    @property
    def last(self) -> TokenView | None:
        """The token generated last."""
        for turn in reversed(self.turns):
            if turn.tokens:
                return turn.tokens[-1]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to choose tokens."""

    temperature: float = 0.7
    top_p: float = 0.95
    seed: int = 1
    max_tokens: int = 400

    def sampling(self) -> Any:
        from wggml.runtime.sampling import SamplingParams

        return SamplingParams(temperature=self.temperature, top_p=self.top_p, seed=self.seed)
