"""Models to measure: opened ones, what they multiply with, and synthetic ones of any size."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from wggml.core.opcodes import Op
from wggml.core.types import Type, row_size
from wggml.gguf_io.constants import ValueType
from wggml.gguf_io.writer import write_gguf
from wggml.hal.interface import Device, DeviceType
from wggml.llama import Llama
from wggml.testing.peaks import Peaks, measure_peaks

# f32 copies that the CPU's floor may make; a larger model's is reckoned from the copy rate.
FLOOR_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Product:
    """One weight [k, m] of a graph; `operand` tells which vectors are the same."""

    k: int
    m: int
    nbytes: int
    operand: int


def open_model(args: argparse.Namespace, **options: Any) -> Llama:
    """The model that the arguments name, on the device that they name."""
    from wggml.cli.run import choose_device
    from wggml.hub import resolve_model

    path = resolve_model(args.model, progress=False)
    device = choose_device(args.device, -1, show=False)
    return Llama(path, device=device, **options)


def device_of(llama: Llama) -> Device:
    """Where most of the model runs."""
    return llama.model.devices[0]


def products_of(llama: Llama) -> list[Product]:
    """The weights that the active graph multiplies with."""
    active = llama.context._active
    assert active is not None
    out = []
    for node in active.graph.nodes:
        if node.op == Op.MUL_MAT and node.src[0] is not None and node.src[1] is not None:
            w, x = node.src[0], node.src[1]
            if w.op == Op.NONE and w.view_src is None:
                out.append(Product(w.ne[0], w.ne[1], w.nbytes, id(x)))
    return out


def floor_of_decode(llama: Llama) -> tuple[float, str]:
    """(seconds, what it is): the least that one token's products take on the model's device."""
    products = products_of(llama)
    device = device_of(llama)
    if device.type is DeviceType.CPU:
        if 4 * sum(p.k * p.m for p in products) <= FLOOR_BYTES:
            return sgemv_seconds(products), "f32 sgemv over all weights"
        return 4 * sum(p.k * p.m for p in products) / peaks(device).copy_bytes_per_s, "copy rate"
    p = peaks(device)
    read = sum(x.nbytes for x in products) / p.copy_bytes_per_s
    work = 2 * sum(x.k * x.m for x in products) / p.fma_flops
    return (read, "copy rate") if read > work else (work, "multiply-add peak")


def floor_of_prefill(llama: Llama, n: int) -> tuple[float, str]:
    """(seconds, what it is): the least that the products of `n` tokens take; the head does one."""
    products = products_of(llama)
    work = sum(2 * p.k * p.m * n for p in products[:-1]) + 2 * products[-1].k * products[-1].m
    return work / peaks(device_of(llama)).fma_flops, "multiply-add peak"


@cache
def peaks(device: Device) -> Peaks:
    """Measured once a run."""
    return measure_peaks(device)


def sgemv_seconds(products: list[Product]) -> float:
    """One walk over f32 copies of the weights, products of one vector below each other: the median
    of a few walks (each is tens of milliseconds and no cache holds the weights)."""
    groups: dict[int, tuple[int, int]] = {}
    for p in products:
        k, m = groups.get(p.operand, (p.k, 0))
        groups[p.operand] = (k, m + p.m)
    rng = np.random.default_rng(0)
    weights = [np.full((m, k), 0.01, np.float32) for k, m in groups.values()]
    xs = {k: rng.standard_normal(k, np.float32) for k, _ in groups.values()}
    outs = [np.empty(len(w), np.float32) for w in weights]

    def walk() -> None:
        for w, out in zip(weights, outs, strict=True):
            np.dot(w, xs[w.shape[1]], out)

    from _common import samples_of

    return float(np.median(samples_of(walk, seconds=0.5, at_least=5)))


def synthetic(
    path: Path,
    *,
    type: Type = Type.Q8_0,
    n_layer: int = 2,
    n_embd: int = 256,
    n_head: int = 4,
    n_head_kv: int = 2,
    n_ff: int = 512,
    n_vocab: int = 512,
    n_ctx: int = 8192,
    seed: int = 0,
) -> Path:
    """Write a `llama` model of any shape with random weights of `type` (rows whole blocks)."""
    rng = np.random.default_rng(seed)
    n_kv = n_embd // n_head * n_head_kv
    shapes = {
        "attn_q": (n_embd, n_embd), "attn_k": (n_kv, n_embd), "attn_v": (n_kv, n_embd),
        "attn_output": (n_embd, n_embd), "ffn_gate": (n_ff, n_embd), "ffn_up": (n_ff, n_embd),
        "ffn_down": (n_embd, n_ff),
    }  # fmt: skip
    tensors: dict[str, Any] = {"token_embd.weight": _random(rng, type, n_vocab, n_embd)}
    ones = np.ones(n_embd, np.float32)
    for i in range(n_layer):
        for name, (m, k) in shapes.items():
            tensors[f"blk.{i}.{name}.weight"] = _random(rng, type, m, k)
        tensors[f"blk.{i}.attn_norm.weight"] = tensors[f"blk.{i}.ffn_norm.weight"] = ones
    tensors["output_norm.weight"] = ones
    tokens = ["<unk>", "<s>", "</s>", *(chr(0x4E00 + i % 20000) * (1 + i // 20000)
                                        for i in range(n_vocab - 3))]  # fmt: skip
    kv = {
        "general.architecture": "llama", "general.name": "synthetic",
        "llama.block_count": n_layer, "llama.context_length": n_ctx,
        "llama.embedding_length": n_embd, "llama.feed_forward_length": n_ff,
        "llama.attention.head_count": n_head, "llama.attention.head_count_kv": n_head_kv,
        "llama.rope.dimension_count": n_embd // n_head, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": n_vocab,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": (ValueType.ARRAY, tokens),
        "tokenizer.ggml.scores": np.zeros(n_vocab, np.float32),
        "tokenizer.ggml.token_type": np.array([2, 3, 3] + [1] * (n_vocab - 3), np.int32),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    }  # fmt: skip
    write_gguf(path, kv, tensors)
    return path


def _random(rng: np.random.Generator, type: Type, m: int, k: int) -> Any:
    """Rows of one random block row, quantised once: the speed does not depend on the values."""
    from wggml.quants import quantize

    row = quantize(rng.standard_normal((1, k), np.float32) / np.float32(k**0.5), type)
    raw = np.broadcast_to(row.reshape(1, -1), (m, row_size(type, k)))
    return (np.ascontiguousarray(raw), type, (k, m))
