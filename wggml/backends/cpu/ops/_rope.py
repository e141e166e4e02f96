"""Rotary position embedding: one table of rotations a run, shared by all layers."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, Array, accumulate_product, overlap
from wggml.core.opcodes import RopeMode
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

MODES = frozenset(int(m) for m in RopeMode)


@dataclass(frozen=True, slots=True)
class _Params:
    """op_params of ROPE, in ggml's order."""

    n_dims: int
    mode: int
    n_ctx_orig: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float
    sections: tuple[int, int, int, int]
    n_offs: int

    @classmethod
    def of(cls, node: Tensor) -> _Params:
        p = struct.unpack("<5i6f5i", node.op_params)
        return cls(
            p[1], p[2], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11:15], p[15]
        )  # fmt: skip


def why_not(node: Tensor) -> str | None:
    """Reason in words, or None."""
    a, positions = node.src[0], node.src[1]
    assert a is not None and positions is not None
    if a.type not in (Type.F32, Type.F16) or node.type != a.type:
        return f"values of type {TRAITS[a.type].name}"
    if positions.type != Type.I32:
        return f"positions of type {TRAITS[positions.type].name}"
    if node.param_i32(2) not in MODES:
        return f"rope mode {node.param_i32(2)}"
    return None


def compile_forward(c: Compiler, node: Tensor) -> None:
    _compile(c, node, 1.0)


def compile_back(c: Compiler, node: Tensor) -> None:
    _compile(c, node, -1.0)


def _compile(c: Compiler, node: Tensor, sign: float) -> None:
    a, positions = node.src[0], node.src[1]
    factors = node.src[2] if len(node.src) > 2 else None
    assert a is not None and positions is not None
    p = _Params.of(node)
    key = ("rope", node.op_params[:60], sign, a.ne[0], a.ne[2], id(positions), id(factors))

    def make() -> _Table:
        table = _Table(c, p, sign, a, positions, factors)
        c.emit(table.fill)
        return table

    table: _Table = c.shared(key, positions, make)
    x, y = c.load(a), c.out(node)
    vision = p.mode == RopeMode.VISION
    begin, width = (0, 2 * p.n_dims) if vision else (p.n_offs, p.n_dims)
    if p.mode == RopeMode.NORMAL:
        _emit_adjacent(c, table, x[..., begin : begin + width], y[..., begin : begin + width])
    else:
        _emit_halves(c, table, x[..., begin : begin + width], y[..., begin : begin + width])
    if not overlap(x, y):  # in place, the values beside the rotated ones are there already
        for rest in (slice(0, begin), slice(begin + width, None)):
            if x[..., rest].size:
                c.emit(np.copyto, y[..., rest], x[..., rest])


def _emit_adjacent(c: Compiler, table: _Table, x: F32, y: F32) -> None:
    """Neighbouring values are real and imaginary part; one complex product turns them."""
    if x.strides[-1] == 4 and y.strides[-1] == 4:
        c.emit(np.multiply, x.view(np.complex64), table.rotations, y.view(np.complex64))
        return
    packed: F32 = c.scratch(x.shape)
    c.emit(np.copyto, packed, x)
    turned = packed.view(np.complex64)
    c.emit(np.multiply, turned, table.rotations, turned)
    c.emit(np.copyto, y, packed)


def _emit_halves(c: Compiler, table: _Table, x: F32, y: F32) -> None:
    """Value i and value i + half make a pair. `y` may be `x`: it is written last."""
    half = x.shape[-1] // 2
    straight: F32 = c.scratch(x.shape)
    crossed: F32 = c.scratch(x.shape)
    cos, sin = table.cos, table.sin
    c.emit(np.multiply, x[..., :half], cos, straight[..., :half])
    c.emit(np.multiply, x[..., half:], cos, straight[..., half:])
    c.emit(np.multiply, x[..., half:], table.minus_sin, crossed[..., :half])
    c.emit(np.multiply, x[..., :half], sin, crossed[..., half:])
    c.emit(np.add, straight, crossed, y)


class _Table:
    """Sine and cosine of each pair's angle at each token: [n_tokens, 1, pairs].

    Angles follow ggml to the last bit of f32: pair i+1 turns freq_base^(-2/n_dims) times as far
    as pair i, rounded at each step.
    """

    def __init__(
        self, c: Compiler, p: _Params, sign: float, a: Tensor, pos: Tensor, factors: Tensor | None
    ) -> None:
        self.p, self.sign = p, np.float32(sign)
        n = a.ne[2]
        vision = p.mode == RopeMode.VISION
        self.pairs = p.n_dims if vision else p.n_dims // 2
        self.positions: Array = c.array(pos).reshape(-1)
        multi = bool(p.mode & RopeMode.MROPE)
        self.per_token = 4 if multi else 1
        self.step = np.float32(math.pow(np.float32(p.freq_base), np.float32(-2.0 / p.n_dims)))
        self.powers: F32 = c.keep((self.per_token, n, self.pairs))
        self.chosen = _sections(p, self.pairs) if multi else None
        self.factors = None if factors is None else c.load(factors).reshape(-1)[: self.pairs]
        self.rotations = c.keep((n, 1, self.pairs), np.complex64)
        self.cos, self.sin = c.keep((n, 1, self.pairs)), c.keep((n, 1, self.pairs))
        self.minus_sin: F32 = c.keep((n, 1, self.pairs))
        self.mix = _yarn_mix(p, self.pairs)
        self.magnitude = np.float32(p.attn_factor)
        if p.ext_factor != 0.0:
            self.magnitude *= np.float32(1.0 + 0.1 * math.log(1.0 / p.freq_scale))

    def fill(self) -> None:
        powers, n = self.powers, self.powers.shape[1]
        powers.fill(self.step)
        powers[:, :, 0] = self.positions.reshape(self.per_token, n)
        accumulate_product(powers, 2, None, powers)
        theta = powers[0]
        if self.chosen is not None:
            section, exponent = self.chosen
            theta = powers[section, :, exponent].T
        if self.factors is not None:
            theta = theta / self.factors
        angle = theta * np.float32(self.p.freq_scale)
        if self.mix is not None:
            angle = angle * (1 - self.mix) + theta * self.mix
        np.multiply(np.cos(angle), self.magnitude, self.cos[:, 0])
        np.multiply(np.sin(angle), self.magnitude * self.sign, self.sin[:, 0])
        np.negative(self.sin, self.minus_sin)
        self.rotations.real = self.cos
        self.rotations.imag = self.sin


def _yarn_mix(p: _Params, pairs: int) -> F32 | None:
    """Share of the extrapolated angle for each pair (YaRN, arXiv:2309.00071); None without."""
    if p.ext_factor == 0.0:
        return None

    def turns(beta: float) -> float:
        """The pair that makes `beta` turns within the original context (0: none does)."""
        if p.n_ctx_orig <= 0:
            return -math.inf
        wanted = math.log(p.n_ctx_orig / (beta * 2 * math.pi))
        return p.n_dims * wanted / (2 * math.log(p.freq_base))

    low = float(max(0.0, np.floor(turns(p.beta_fast))))
    high = float(min(p.n_dims - 1.0, np.ceil(turns(p.beta_slow))))
    ramp = (np.arange(pairs, dtype=np.float32) - low) / max(0.001, high - low)
    mix: F32 = ((1 - np.clip(ramp, 0, 1)) * p.ext_factor).astype(np.float32)
    return mix


def _sections(p: _Params, pairs: int) -> tuple[Array, Array]:
    """For each pair: which of the token's four positions it turns by, and how many steps of the
    frequency it is from that position's first pair."""
    t, h, w, e = p.sections
    total = t + h + w + e
    starts = (0, t, t + h, t + h + w)
    section, exponent = [], []
    for i in range(pairs):
        sector = i % total
        if p.mode == RopeMode.IMROPE:
            kind = sector % 3
            s = kind if sector < 3 * (t, h, w)[kind] else 3
        else:
            s = max(k for k in range(4) if sector >= starts[k])
        section.append(s)
        exponent.append(sector - starts[s] if p.mode == RopeMode.VISION else i)
    return np.array(section), np.array(exponent)
