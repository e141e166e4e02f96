"""Arithmetic with broadcasting, functions of one variable, gated units, scaling, filling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wggml.backends.cpu.arrays import F32, repeat_views, squeezed
from wggml.backends.cpu.functions import (
    ONE,
    UNARY,
    Emitter,
    emit_clip,
    emit_sigmoid_denominator,
)
from wggml.backends.cpu.ops._impl import OpImpl, floats, take_rows
from wggml.core.opcodes import GluOp, Op, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type

if TYPE_CHECKING:
    from wggml.backends.cpu.plan import Compiler


def emit_binary(c: Compiler, f: np.ufunc, a: F32, b: F32, d: F32) -> None:
    """d = f(a, b) where `b` repeats to the shape of `a` and `d`."""
    shape, small = repeat_views(a.shape, b)
    x, y, z = squeezed(a.reshape(shape), small, d.reshape(shape))
    c.emit(f, x, y, z)


def _binary(f: np.ufunc) -> OpImpl:
    def compile(c: Compiler, node: Tensor) -> None:
        a, b = node.src[0], node.src[1]
        assert a is not None and b is not None
        emit_binary(c, f, c.load(a), c.load(b), c.out(node))

    return OpImpl(compile, floats)


def _function(emitter: Emitter) -> OpImpl:
    def compile(c: Compiler, node: Tensor) -> None:
        a = node.src[0]
        assert a is not None
        x, y = squeezed(c.load(a), c.out(node))
        emitter(c, x, y, ())

    return OpImpl(compile, floats)


def _ufunc(f: np.ufunc) -> OpImpl:
    return _function(lambda c, x, y, params: c.emit(f, x, y))


def _unary(c: Compiler, node: Tensor) -> None:
    a, op = node.src[0], node.unary_op
    assert a is not None
    x, y = squeezed(c.load(a), c.out(node))
    params = tuple(node.param_f32(i) for i in (1, 2, 3, 4)) if op == UnaryOp.XIELU else ()
    UNARY[op](c, x, y, params)


def _unary_why_not(node: Tensor) -> str | None:
    known = node.param_i32(0) in UNARY
    return floats(node) if known else f"no unary function numbered {node.param_i32(0)}"


def _scale(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = squeezed(c.load(a), c.out(node))
    c.emit(np.multiply, x, np.float32(node.param_f32(0)), y)
    if node.param_f32(1) != 0.0:
        c.emit(np.add, y, np.float32(node.param_f32(1)), y)


def _clamp(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = squeezed(c.load(a), c.out(node))
    emit_clip(c, x, np.float32(node.param_f32(0)), np.float32(node.param_f32(1)), y)


def _leaky_relu(c: Compiler, node: Tensor) -> None:
    a = node.src[0]
    assert a is not None
    x, y = squeezed(c.load(a), c.out(node))
    t = c.scratch(x.shape)
    c.emit(np.minimum, x, np.float32(0), out=t)
    c.emit(np.multiply, t, np.float32(node.param_f32(0)), t)
    c.emit(np.maximum, x, np.float32(0), out=y)
    c.emit(np.add, y, t, y)


def _add1(c: Compiler, node: Tensor) -> None:
    a, b = node.src[0], node.src[1]
    assert a is not None and b is not None
    emit_binary(c, np.add, c.load(a), c.load(b)[:1, :1, :1, :1], c.out(node))


def _add_id(c: Compiler, node: Tensor) -> None:
    """out[token, slot] = a[token, slot] + b[ids[token, slot]]"""
    a, b, ids = node.src
    assert a is not None and b is not None and ids is not None
    x, y, rows = c.load(a)[0], c.out(node)[0], c.load(b)[0, 0]
    picked = c.scratch(x.shape)
    c.emit(take_rows, rows, c.array(ids)[0, 0], picked, node)
    c.emit(np.add, x, picked, y)


def _add_id_why_not(node: Tensor) -> str | None:
    a, b, ids = node.src
    assert a is not None and b is not None and ids is not None
    ok = ids.type == Type.I32 and a.type == b.type == node.type == Type.F32
    return None if ok else "anything but F32 with I32 ids"


def _fill(c: Compiler, node: Tensor) -> None:
    y = c.out(node)
    c.emit(y.fill, np.float32(node.param_f32(0)))


# ---- gated units --------------------------------------------------------------------------------


def _halves(c: Compiler, node: Tensor) -> tuple[F32, F32]:
    """(what goes through the activation, what it is multiplied with)"""
    a, b = node.src[0], node.src[1] if len(node.src) > 1 else None
    assert a is not None
    x = c.load(a)
    if b is not None:
        return x, c.load(b)
    n = node.ne[0]
    first, second = x[..., :n], x[..., n : 2 * n]
    return (second, first) if node.param_i32(1) else (first, second)


def _gate(c: Compiler, op: GluOp, gate: F32, up: F32, t: F32) -> F32:
    """t = activation(gate); returns what to multiply it with."""
    UNARY[_GATES[op]](c, gate, t, ())
    return up


def _limited(c: Compiler, node: Tensor, gate: F32, up: F32, t: F32) -> F32:
    """SWIGLU_OAI: x = min(gate, limit), x sigmoid(alpha x) * (1 + clamp(up, +-limit));
    SWIGLU_CLAMP: the same with alpha 1 and without the 1 +."""
    oai = node.glu_op == GluOp.SWIGLU_OAI
    alpha = np.float32(node.param_f32(2)) if oai else ONE
    limit = np.float32(node.param_f32(3))
    x, factor = c.scratch(t.shape), c.scratch(t.shape)
    c.emit(np.minimum, gate, limit, out=x)
    emit_sigmoid_denominator(c, x, t, alpha)
    c.emit(np.divide, x, t, t)
    emit_clip(c, up, -limit, limit, factor)
    if oai:
        c.emit(np.add, factor, ONE, factor)
    return factor


def _glu(c: Compiler, node: Tensor) -> None:
    gate, up = _halves(c, node)
    gate, up, y = squeezed(gate, up, c.out(node))
    t = c.scratch(y.shape)
    op = node.glu_op
    factor = _gate(c, op, gate, up, t) if op in _GATES else _limited(c, node, gate, up, t)
    c.emit(np.multiply, t, factor, y)


_GATES = {
    GluOp.REGLU: UnaryOp.RELU,
    GluOp.GEGLU: UnaryOp.GELU,
    GluOp.SWIGLU: UnaryOp.SILU,
    GluOp.GEGLU_ERF: UnaryOp.GELU_ERF,
    GluOp.GEGLU_QUICK: UnaryOp.GELU_QUICK,
}


OPS: dict[Op, OpImpl] = {
    Op.ADD: _binary(np.add),
    Op.SUB: _binary(np.subtract),
    Op.MUL: _binary(np.multiply),
    Op.DIV: _binary(np.divide),
    Op.SQR: _ufunc(np.square),
    Op.SQRT: _ufunc(np.sqrt),
    Op.LOG: _ufunc(np.log),
    Op.SIN: _ufunc(np.sin),
    Op.COS: _ufunc(np.cos),
    Op.UNARY: OpImpl(_unary, _unary_why_not),
    Op.GLU: OpImpl(_glu, floats),
    Op.SCALE: OpImpl(_scale, floats),
    Op.CLAMP: OpImpl(_clamp, floats),
    Op.LEAKY_RELU: OpImpl(_leaky_relu, floats),
    Op.ADD1: OpImpl(_add1, floats),
    Op.ADD_ID: OpImpl(_add_id, _add_id_why_not),
    Op.FILL: OpImpl(_fill, floats),
}
