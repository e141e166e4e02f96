"""Functions of one variable, as steps on f32 arrays.

Each emitter takes (compiler, x, y, params) and emits steps that leave f(x) in y. `y` may be `x`
itself: nothing is written to y before the last step that reads x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32
from wggml.core.opcodes import UnaryOp

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler

Params = tuple[float, ...]
Emitter = Callable[["Compiler", F32, F32, Params], None]

ONE = np.float32(1)
HALF = np.float32(0.5)
ZERO = np.float32(0)
SQRT_2_OVER_PI = np.float32(0.79788456080286535587989211986876)
GELU_CUBIC = np.float32(0.044715)  # of the tanh approximation of GELU
GELU_QUICK = np.float32(1.702)  # x * sigmoid(1.702 x)
SQRT_HALF = np.float32(0.70710678118654752440)
SOFTPLUS_LINEAR = np.float32(20)  # above it softplus(x) is x in f32

# erf(x) = x P(x^2) / Q(x^2) on [-4, 4] (odd and even coefficients, highest first): the minimax
# fit used by Eigen and XLA, within 2 ulp of f32; |erf| is 1 in f32 beyond.
ERF_P = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
ERF_Q = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
    -1.42647390514189e-02,
)  # fmt: skip


def _ufunc(f: np.ufunc) -> Emitter:
    def emit(c: Compiler, x: F32, y: F32, params: Params) -> None:
        c.emit(f, x, y)

    return emit


def emit_clip(c: Compiler, x: F32, lo: np.float32, hi: np.float32, y: F32) -> None:
    """y = min(max(x, lo), hi): two ufuncs, since `np.clip` costs several times their set-up."""
    c.emit(np.maximum, x, lo, out=y)
    c.emit(np.minimum, y, hi, out=y)


def emit_sigmoid_denominator(c: Compiler, x: F32, t: F32, times: np.float32 = ONE) -> None:
    """t = 1 + exp(-times * x), the denominator of a sigmoid; t is not x."""
    c.emit(np.multiply, x, -times, t)
    c.emit(np.exp, t, t)
    c.emit(np.add, t, ONE, t)


def _sigmoid(c: Compiler, x: F32, y: F32, params: Params) -> None:
    t = c.scratch(x.shape)
    emit_sigmoid_denominator(c, x, t)
    c.emit(np.divide, ONE, t, y)


def _silu(c: Compiler, x: F32, y: F32, params: Params) -> None:
    t = c.scratch(x.shape)
    emit_sigmoid_denominator(c, x, t)
    c.emit(np.divide, x, t, y)


def _gelu_quick(c: Compiler, x: F32, y: F32, params: Params) -> None:
    t = c.scratch(x.shape)
    emit_sigmoid_denominator(c, x, t, GELU_QUICK)
    c.emit(np.divide, x, t, y)


def _gelu(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """x/2 (1 + tanh(sqrt(2/pi) x (1 + 0.044715 x^2)))"""
    t = c.scratch(x.shape)
    c.emit(np.multiply, x, x, t)
    c.emit(np.multiply, t, GELU_CUBIC, t)
    c.emit(np.add, t, ONE, t)
    c.emit(np.multiply, t, x, t)
    c.emit(np.multiply, t, SQRT_2_OVER_PI, t)
    c.emit(np.tanh, t, t)
    c.emit(np.add, t, ONE, t)
    c.emit(np.multiply, t, HALF, t)
    c.emit(np.multiply, t, x, y)


def erf_into(c: Compiler, x: F32, y: F32) -> None:
    """y = erf(x)."""
    z, p, q = c.scratch(x.shape), c.scratch(x.shape), c.scratch(x.shape)
    emit_clip(c, x, np.float32(-4), np.float32(4), z)
    square = c.scratch(x.shape)
    c.emit(np.multiply, z, z, square)
    for into, coefficients in ((p, ERF_P), (q, ERF_Q)):
        c.emit(into.fill, np.float32(coefficients[0]))
        for k in coefficients[1:]:
            c.emit(np.multiply, into, square, into)
            c.emit(np.add, into, np.float32(k), into)
    c.emit(np.multiply, p, z, p)
    c.emit(np.divide, p, q, p)
    emit_clip(c, p, -ONE, ONE, y)


def _gelu_erf(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """x/2 (1 + erf(x / sqrt 2))"""
    t = c.scratch(x.shape)
    c.emit(np.multiply, x, SQRT_HALF, t)
    erf_into(c, t, t)
    c.emit(np.add, t, ONE, t)
    c.emit(np.multiply, t, HALF, t)
    c.emit(np.multiply, t, x, y)


def _relu(c: Compiler, x: F32, y: F32, params: Params) -> None:
    c.emit(np.maximum, x, ZERO, out=y)


def _step(c: Compiler, x: F32, y: F32, params: Params) -> None:
    c.emit(np.greater, x, ZERO, y, casting="unsafe")


def _elu(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """x for x > 0, else exp(x) - 1: max(x, 0) + expm1(min(x, 0))"""
    t = c.scratch(x.shape)
    c.emit(np.minimum, x, ZERO, out=t)
    c.emit(np.expm1, t, t)
    c.emit(np.maximum, x, ZERO, out=y)
    c.emit(np.add, y, t, y)


def _hard(c: Compiler, x: F32, t: F32) -> None:
    """t = min(1, max(0, (x + 3) / 6))"""
    c.emit(np.add, x, np.float32(3), t)
    c.emit(np.divide, t, np.float32(6), t)
    emit_clip(c, t, ZERO, ONE, t)


def _hardsigmoid(c: Compiler, x: F32, y: F32, params: Params) -> None:
    _hard(c, x, y)


def _hardswish(c: Compiler, x: F32, y: F32, params: Params) -> None:
    t = c.scratch(x.shape)
    _hard(c, x, t)
    c.emit(np.multiply, x, t, y)


def _softplus(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """log(1 + exp(x)), and x itself above 20"""
    t = c.scratch(x.shape)
    c.emit(np.minimum, x, SOFTPLUS_LINEAR, out=t)
    c.emit(np.exp, t, t)
    c.emit(np.log1p, t, t)
    large = c.scratch(x.shape, np.bool_)
    c.emit(np.greater, x, SOFTPLUS_LINEAR, large)
    c.emit(np.copyto, t, x, where=large)
    c.emit(np.copyto, y, t)


def _round(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """To nearest, halves away from zero (C's roundf; NumPy rounds halves to even)."""
    t, whole = c.scratch(x.shape), c.scratch(x.shape)
    c.emit(np.trunc, x, whole)
    c.emit(np.subtract, x, whole, t)
    c.emit(np.multiply, t, np.float32(2), t)
    c.emit(np.trunc, t, t)  # -1, 0 or 1
    c.emit(np.add, whole, t, y)


def _xielu(c: Compiler, x: F32, y: F32, params: Params) -> None:
    """x > 0: a_p x^2 + b x; else (expm1(min(x, eps)) - x) a_n + b x (arXiv:2411.13010)"""
    alpha_n, alpha_p, beta, eps = (np.float32(p) for p in params)
    low, high = c.scratch(x.shape), c.scratch(x.shape)
    c.emit(np.minimum, x, eps, out=low)
    c.emit(np.expm1, low, low)
    c.emit(np.subtract, low, x, low)
    c.emit(np.multiply, low, alpha_n, low)
    c.emit(np.multiply, x, x, high)
    c.emit(np.multiply, high, alpha_p, high)
    positive = c.scratch(x.shape, np.bool_)
    c.emit(np.greater, x, ZERO, positive)
    c.emit(np.copyto, low, high, where=positive)
    c.emit(np.multiply, x, beta, high)
    c.emit(np.add, low, high, y)


UNARY: dict[UnaryOp, Emitter] = {
    UnaryOp.ABS: _ufunc(np.absolute),
    UnaryOp.SGN: _ufunc(np.sign),
    UnaryOp.NEG: _ufunc(np.negative),
    UnaryOp.STEP: _step,
    UnaryOp.TANH: _ufunc(np.tanh),
    UnaryOp.ELU: _elu,
    UnaryOp.RELU: _relu,
    UnaryOp.SIGMOID: _sigmoid,
    UnaryOp.GELU: _gelu,
    UnaryOp.GELU_QUICK: _gelu_quick,
    UnaryOp.SILU: _silu,
    UnaryOp.HARDSWISH: _hardswish,
    UnaryOp.HARDSIGMOID: _hardsigmoid,
    UnaryOp.EXP: _ufunc(np.exp),
    UnaryOp.EXPM1: _ufunc(np.expm1),
    UnaryOp.SOFTPLUS: _softplus,
    UnaryOp.GELU_ERF: _gelu_erf,
    UnaryOp.XIELU: _xielu,
    UnaryOp.FLOOR: _ufunc(np.floor),
    UnaryOp.CEIL: _ufunc(np.ceil),
    UnaryOp.ROUND: _round,
    UnaryOp.TRUNC: _ufunc(np.trunc),
}
