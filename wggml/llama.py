"""`Llama`: load a GGUF model and make text, in one object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type
from wggml.errors import UsageError
from wggml.hal.interface import Device, DeviceType
from wggml.hal.registry import Registry, default_registry
from wggml.models.model import load_model
from wggml.runtime.batch import Batch
from wggml.runtime.context import ContextParams, LlamaContext
from wggml.runtime.hooks import NodeFunction, NodeHook
from wggml.runtime.sampling import Sampler, SamplingParams
from wggml.vocab import StreamDecoder

if TYPE_CHECKING:
    import threading

KV_TYPES = {"f32": Type.F32, "f16": Type.F16}
DEFAULT_MAX_CTX = 4096  # n_ctx=0 takes the model's own length up to this
# Tokens a graph: a software adapter takes a second for a quarter of what a GPU does at once, and
# Ctrl-C is noticed between graphs.
DEFAULT_UBATCH = {DeviceType.SOFTWARE: 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """How to continue a prompt. max_tokens -1: until the context is full."""

    max_tokens: int = -1
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None
    ignore_eos: bool = False

    def sampling(self) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p,
            seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of generated text; `text` may be empty while a character is incomplete. `token` is
    -1 for the flush at the end."""

    text: str
    token: int


@dataclass(slots=True, kw_only=True)
class Stats:
    """What a `Llama` did so far. Times are wall seconds, sizes bytes.

    `host_us_per_token` is processor time of the calling thread for each generated token that reused
    its graph, from its arrival to its logits: inputs, recording, submitting, reading back (and the
    kernels themselves where the CPU computes), without `ahead_us_per_token`, what was done for the
    next token while the device computed; `rebuild_ms` the same for each graph that was built.
    Wall time would count the driver's threads, which take the cores as soon as work is submitted.
    """

    n_prompt: int = 0
    prompt_seconds: float = 0.0
    n_generated: int = 0
    generate_seconds: float = 0.0
    devices: list[str] = field(default_factory=list)
    nodes_per_backend: dict[str, int] = field(default_factory=dict)
    n_splits: int = 0
    compute_buffers: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    kv_cache_bytes: int = 0
    graphs_built: int = 0
    graphs_reused: int = 0
    host_us_per_token: float = 0.0
    ahead_us_per_token: float = 0.0
    rebuild_ms: float = 0.0
    dispatches_per_token: float = 0.0
    phases_ms: dict[str, float] = field(default_factory=dict)
    peak_rss: int = 0


def choose_devices(wanted: str | None, registry: Registry | None = None) -> list[Device]:
    """Devices for layers, best first, the CPU left out (an empty list means the CPU alone).

    `wanted` is an index or part of a name as `wggml devices` lists them, several separated by
    commas; None takes the best real GPU, if there is one. Raises `DeviceError`.
    """
    reg = registry or default_registry()
    chosen = [reg.best()] if wanted is None else [reg.find(w) for w in wanted.split(",")]
    out: list[Device] = []
    for d in chosen:
        if d.type is not DeviceType.CPU and d not in out:
            out.append(d)
    return out


class Llama:
    """A model with a context, ready to generate.

    Args:
        path: a GGUF file.
        device: index or part of a device name, several separated by commas; None: the best real
            GPU, else NumPy.
        n_gpu_layers: layers from the end on the device(s), the output layer being one; -1: all.
        n_ctx: tokens the context holds; 0 takes the model's length, at most 4096.
        n_ubatch: tokens of one graph; None takes 512, on software adapters 128.
        type_k, type_v: `f32` or `f16` storage of the KV cache.
        parallel_copies: keep 4 copies of the inputs so that devices work side by side.
        warm_up: compile shaders and prepare weights now rather than at the first tokens.
        fill_weights: False leaves devices' weights without contents: graphs can be planned
            (`wggml.inspect`), not computed.
        progress: called with (share, what) while weights load and during warm-up.

    Raises `GGUFError`, `ModelError`, `DeviceError`, `UsageError`, `AllocationError`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: str | None = None,
        n_gpu_layers: int = -1,
        n_ctx: int = 0,
        n_batch: int = 2048,
        n_ubatch: int | None = None,
        n_seq_max: int = 1,
        flash_attn: bool = True,
        type_k: str = "f16",
        type_v: str = "f16",
        n_threads: int | None = None,
        n_threads_batch: int | None = None,
        op_offload: bool = True,
        cpu_cache_mb: int | None = None,
        parallel_copies: bool = False,
        warm_up: bool = True,
        fill_weights: bool = True,
        progress: Callable[[float, str], None] | None = None,
    ) -> None:
        for name, value in (("type_k", type_k), ("type_v", type_v)):
            if value not in KV_TYPES:
                raise UsageError(
                    f"{name} {value!r} is not supported; allowed: {', '.join(KV_TYPES)}"
                )
        devices = [] if n_gpu_layers == 0 else choose_devices(device)
        self.model = load_model(
            path, devices=devices, n_gpu_layers=n_gpu_layers, progress=progress, fill=fill_weights
        )
        if n_ubatch is None:
            n_ubatch = DEFAULT_UBATCH.get(devices[0].type, 512) if devices else 512
        params = ContextParams(
            n_ctx=n_ctx or min(self.model.hp.n_ctx_train, DEFAULT_MAX_CTX),
            n_batch=n_batch, n_ubatch=n_ubatch, n_seq_max=n_seq_max, flash_attn=flash_attn,
            type_k=KV_TYPES[type_k], type_v=KV_TYPES[type_v], n_threads=n_threads,
            n_threads_batch=n_threads_batch, op_offload=op_offload, parallel=parallel_copies,
            cpu_cache_mb=cpu_cache_mb,
        )  # fmt: skip
        try:
            self.context = LlamaContext(self.model, params)
            if warm_up and fill_weights:
                self.context.warm_up(progress)
        except BaseException:
            self.model.close()
            raise
        self._n_prompt = self._n_generated = 0
        self._prompt_seconds = self._generate_seconds = 0.0
        self._eval_base: dict[str, float] = {}

    # ---- text -------------------------------------------------------------------------------

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of a prompt, with the model's begin token where it has one."""
        return self.model.vocab.encode(text, add_special=True, parse_special=special)

    def eval(
        self,
        tokens: Sequence[int],
        *,
        position: int = 0,
        all_outputs: bool = False,
        stop: Callable[[], bool] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Feed tokens of sequence 0 from `position` on; logits [n, n_vocab] of the last token, or
        of all. Cuts the tokens into batches of `n_batch`."""
        n_batch = self.context.params.n_batch
        out = []
        for i in range(0, len(tokens), n_batch):
            part = tokens[i : i + n_batch]
            batch = Batch.of(part, position + i, all_outputs=all_outputs)
            if not all_outputs and i + n_batch < len(tokens):
                batch.outputs[-1] = False
            out.append(self.context.decode(batch, stop=stop))
        return out[0] if len(out) == 1 else np.concatenate(out)

    def generate(
        self,
        prompt: str | Sequence[int],
        params: GenerationParams | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> Iterator[Chunk]:
        """Continue a prompt on an empty context, piece by piece.

        Ends at an end-of-generation token (unless `ignore_eos`), after `max_tokens`, when the
        context is full, or as soon as `stop` is set. Raises `UsageError` when the prompt does not
        fit into the context.
        """
        p = params or GenerationParams()
        sampler = Sampler(p.sampling())
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        n_ctx = self.context.params.n_ctx
        if not tokens:
            raise UsageError("the prompt is empty: it has no tokens, and the model no begin token")
        if len(tokens) >= n_ctx:
            raise UsageError(
                f"the prompt has {len(tokens)} tokens, the context holds {n_ctx} and needs room "
                "for at least one more: shorten the prompt or raise the context size (-c)"
            )
        stopped = stop.is_set if stop is not None else None
        self.context.kv.clear()
        s = self.context.stats
        fed = s.n_decoded
        start = time.perf_counter()
        logits = self.eval(tokens, stop=stopped)
        self._n_prompt += s.n_decoded - fed  # fewer where `stop` cut the prompt short
        self._prompt_seconds += time.perf_counter() - start
        self._mark()
        if stopped is not None and stopped():
            return
        yield from self._continue(logits[-1], len(tokens), p, sampler, stopped)

    def _continue(
        self,
        logits: npt.NDArray[np.float32],
        position: int,
        p: GenerationParams,
        sampler: Sampler,
        stopped: Callable[[], bool] | None,
    ) -> Iterator[Chunk]:
        vocab, decoder = self.model.vocab, StreamDecoder()
        room = self.context.params.n_ctx - position
        n = room if p.max_tokens < 0 else min(p.max_tokens, room)
        start = time.perf_counter()
        try:
            for i in range(n):
                token = sampler.sample(logits)
                if vocab.is_eog(token) and not p.ignore_eos:
                    break
                self._n_generated += 1
                yield Chunk(decoder.feed(vocab.piece(token)), token)
                if i + 1 == n or (stopped is not None and stopped()):
                    break
                logits = self.eval([token], position=position + i)[-1]
        finally:
            self._generate_seconds += time.perf_counter() - start
        tail = decoder.flush()
        if tail:
            yield Chunk(tail, -1)

    # ---- looking ----------------------------------------------------------------------------

    def on_node(self, pattern: str, function: NodeFunction) -> NodeHook:
        """Call `function(t, values)` right after each node whose name contains the regular
        expression `pattern` was computed: `values` is a float array, shape `t.ne` reversed.

            with llama.on_node(r"^l_out-\\d+$", lambda t, v: print(t.name, abs(v).mean())):
                llama.eval(tokens)

        The hook stays until it is removed or its block ends. Nodes that are looked at are waited
        for, and fused kernels around them come apart. Raises `UsageError` for a bad pattern.
        """
        return self.context.on_node(pattern, function)

    # ---- facts ------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Remember counters at the end of the prompt, so that figures are per generated token."""
        s = self.context.stats
        self._eval_base = {
            "n": s.n_eval,
            "build": s.build_seconds,
            "inputs": s.input_seconds,
            "submit": s.submit_seconds,
            "wait": s.wait_seconds,
            "dispatches": sum(b.counters.dispatches for b in self.context.backends),
            "host": s.reuse_cpu_seconds,
            "ahead": s.ahead_cpu_seconds,
            "reused": s.graphs_reused,
        }

    def stats(self) -> Stats:
        """Speed, placement and memory so far."""
        s, base = self.context.stats, self._eval_base or {}
        n = max(s.n_eval - base.get("n", 0), 1)
        reused = max(s.graphs_reused - base.get("reused", 0), 1)
        now = {
            "build": s.build_seconds, "inputs": s.input_seconds, "submit": s.submit_seconds,
            "wait": s.wait_seconds,
        }  # fmt: skip
        phases = {k: (v - base.get(k, 0.0)) / n * 1e3 for k, v in now.items()}
        dispatches = sum(b.counters.dispatches for b in self.context.backends)
        return Stats(
            n_prompt=self._n_prompt,
            prompt_seconds=self._prompt_seconds,
            n_generated=self._n_generated,
            generate_seconds=self._generate_seconds,
            devices=[d.description for d in self.model.devices],
            nodes_per_backend=self.context.nodes_per_backend(),
            n_splits=self.context.sched.n_splits,
            compute_buffers=self.context.compute_buffer_sizes(),
            weights=self.model.weights.nbytes(),
            kv_cache_bytes=self.context.kv.nbytes,
            graphs_built=s.graphs_built,
            graphs_reused=s.graphs_reused,
            host_us_per_token=(s.reuse_cpu_seconds - base.get("host", 0.0)) / reused * 1e6,
            ahead_us_per_token=(s.ahead_cpu_seconds - base.get("ahead", 0.0)) / reused * 1e6,
            rebuild_ms=s.rebuild_cpu_seconds / max(s.graphs_built, 1) * 1e3,
            dispatches_per_token=(dispatches - base.get("dispatches", 0)) / n,
            phases_ms=phases,
            peak_rss=peak_rss(),
        )

    def close(self) -> None:
        """Free everything; the object cannot be used afterwards."""
        self.context.close()
        self.model.close()

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def peak_rss() -> int:
    """Largest resident size of this process so far in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    import sys

    value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return value if sys.platform == "darwin" else value * 1024
