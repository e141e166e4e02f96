"""The sampler: filters in llama.cpp's order (top-k, top-p, min-p), then temperature, then a draw.

Each filter has an "off" value: top_k <= 0, top_p >= 1, min_p <= 0. temperature <= 0 is greedy:
the largest raw logit, the smallest id on a tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.errors import UsageError

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Defaults are llama.cpp's. `seed` None draws one from the operating system."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None

    def check(self) -> None:
        """Raise `UsageError` for values that mean nothing."""
        for name in ("temperature", "top_p", "min_p"):
            value = getattr(self, name)
            if not np.isfinite(value):
                raise UsageError(f"{name} must be a finite number, got {value}")
        if self.top_p < 0.0:
            raise UsageError(f"top_p must be in 0..1 (1 switches it off), got {self.top_p}")
        if self.min_p > 1.0:
            raise UsageError(f"min_p must be in 0..1 (0 switches it off), got {self.min_p}")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"seed must not be negative, got {self.seed}")


class Sampler:
    """Draws token ids; the same seed and logits give the same ids."""

    def __init__(self, params: SamplingParams) -> None:
        params.check()
        self.params = params
        self._rng = np.random.default_rng(params.seed)

    def sample(self, logits: Floats) -> int:
        """The id chosen for one row of logits, F32 [n_vocab]."""
        p = self.params
        if p.temperature <= 0.0:
            return int(np.argmax(logits))
        ids, probs = self.candidates(logits)
        return int(ids[self._rng.choice(len(ids), p=probs)])

    def candidates(self, logits: Floats) -> tuple[Ids, npt.NDArray[np.float64]]:
        """Ids that the filters leave, most likely first, and their probabilities (sum 1)."""
        p = self.params
        ids = _top_k(logits, p.top_k)
        kept = logits[ids].astype(np.float64)
        if p.top_p < 1.0:
            n = _top_p_count(_softmax(kept), p.top_p)
            ids, kept = ids[:n], kept[:n]
        if p.min_p > 0.0:
            keep = kept >= kept[0] + np.log(p.min_p)
            keep[0] = True
            ids, kept = ids[keep], kept[keep]
        return ids, _softmax(kept / max(p.temperature, 1e-6))


def _softmax(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    e = np.exp(x - x.max())
    out: npt.NDArray[np.float64] = e / e.sum()
    return out


def _top_k(logits: Floats, k: int) -> Ids:
    """Ids of the k largest logits in falling order, smaller ids first on ties; k <= 0: all."""
    n = len(logits)
    if 0 < k < n:
        cut = np.partition(logits, n - k)[n - k]
        above = np.flatnonzero(logits > cut)
        ties = np.flatnonzero(logits == cut)[: k - len(above)]
        ids = np.concatenate([above, ties])
    else:
        ids = np.arange(n)
    order = np.lexsort((ids, -logits[ids]))
    return ids[order].astype(np.int64)


def _top_p_count(probs: npt.NDArray[np.float64], top_p: float) -> int:
    """How many leading candidates reach the mass `top_p`; at least one."""
    return min(int(np.searchsorted(np.cumsum(probs), top_p)) + 1, len(probs))
