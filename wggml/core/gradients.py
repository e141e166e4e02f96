"""Gradient rules: for each differentiable op, what its result's gradient adds to its sources'.

Rules make ordinary nodes by the op constructors. They follow ggml's, and go further where ggml
stops the process (broadcast divisors and subtrahends, gradients that are permuted views, products
batched over both outer dimensions) or has no rule (TANH, SIGMOID, GELU and other activations, gated
units of row halves, CLAMP, CONCAT, NORM, L2_NORM, CUMSUM, PAD, ROLL, TRI).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from wggml.core import derivatives, ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import GluOp, Op, PoolOp, TriType
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import UnsupportedOpError


@dataclass(slots=True)
class Backward:
    """A backward graph in the making: `needed` are the tensors a gradient is wanted for."""

    ctx: Context
    graph: Graph
    needed: set[Tensor]

    def wants(self, t: Tensor | None) -> bool:
        return t is not None and t in self.needed

    def _store(self, src: Tensor, grad: Tensor) -> None:
        self.graph.grads[src] = grad.set_name(f"grad for {src.name}")
        self.graph.build_forward_expand(grad)

    def add(self, src: Tensor, grad: Tensor) -> None:
        """Add `grad` to the gradient of `src`, in place when `src` has an accumulator."""
        old = self.graph.grads.get(src)
        if old is None:
            self._store(src, grad)
        else:
            inplace = src in self.graph.grad_accs
            self._store(src, ops.add(self.ctx, old, grad, inplace=inplace))

    def sub(self, src: Tensor, grad: Tensor) -> None:
        """Subtract `grad` from the gradient of `src`."""
        old = self.graph.grads.get(src)
        if old is None:
            self._store(src, ops.neg(self.ctx, grad))
        else:
            inplace = src in self.graph.grad_accs
            self._store(src, ops.sub(self.ctx, old, grad, inplace=inplace))

    def add_block(self, src: Tensor, grad: Tensor, nb: tuple[int, int, int], offset: int) -> None:
        """Add `grad` to a block of the F32 gradient of `src`, at strides and offset in bytes."""
        old = self.graph.grads.get(src)
        inplace = src in self.graph.grad_accs
        if old is None:
            # not src * 0, which would make NaN of infinities in src
            old = ops.repeat(self.ctx, ops.arange(self.ctx, 0.0, 1.0), src.ne)
        elif not old.is_contiguous():
            old = ops.cont(self.ctx, old)
        self._store(src, ops.acc(self.ctx, old, grad, nb, offset, inplace=inplace))

    def contiguous(self, t: Tensor) -> Tensor:
        return t if t.is_contiguous() else ops.cont(self.ctx, t)

    def reshaped(self, t: Tensor, ne: Shape4) -> Tensor:
        return t if t.ne == ne else ops.reshape(self.ctx, self.contiguous(t), ne)

    def folded(self, t: Tensor, like: Tensor) -> Tensor:
        """The gradient of an operand that was repeated: tiles summed to the shape of `like`."""
        return t if t.same_shape(like) else ops.repeat_back(self.ctx, t, like)


Rule = Callable[[Backward, Tensor, Tensor], None]  # (graph in the making, node, its gradient)


def _src(node: Tensor, i: int) -> Tensor:
    t = node.src[i]
    assert t is not None
    return t


def _no_gradient(node: Tensor, i: int, what: str) -> UnsupportedOpError:
    t = _src(node, i)
    return UnsupportedOpError(
        f"{node.op.name} {node.name!r} passes no gradient to its {what} {t.name!r}; take set_param "
        "off what it depends on"
    )


def _refuse(b: Backward, node: Tensor, i: int, what: str) -> None:
    if i < len(node.src) and b.wants(node.src[i]):
        raise _no_gradient(node, i, what)


# ---- arithmetic ---------------------------------------------------------------------------------


def _pass_on(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), grad)


def _add(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, grad)
    if b.wants(y):
        b.add(y, b.folded(grad, y))


def _add1(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, grad)
    if b.wants(y):
        b.add(y, ops.sum_all(b.ctx, grad))  # ggml takes the mean here, which its own source doubts


def _sub(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, grad)
    if b.wants(y):
        b.sub(y, b.folded(grad, y))


def _mul(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, ops.mul(b.ctx, grad, y))
    if b.wants(y):
        b.add(y, b.folded(ops.mul(b.ctx, x, grad), y))


def _div(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, ops.div(b.ctx, grad, y))
    if b.wants(y):
        b.sub(y, b.folded(ops.mul(b.ctx, grad, ops.div(b.ctx, node, y)), y))


def _sqr(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.scale(b.ctx, ops.mul(b.ctx, x, grad), 2.0))


def _sqrt(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.scale(b.ctx, ops.div(b.ctx, grad, node), 0.5))


def _log(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.div(b.ctx, grad, x))


def _sin(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.mul(b.ctx, grad, ops.cos(b.ctx, x)))


def _cos(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.sub(x, ops.mul(b.ctx, grad, ops.sin(b.ctx, x)))


def _scale(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.scale(b.ctx, grad, node.param_f32(0)))


def _clamp(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    inside = derivatives.within(b.ctx, b.contiguous(x), node.param_f32(0), node.param_f32(1))
    b.add(x, ops.mul(b.ctx, grad, inside))


def _leaky_relu(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, slope = _src(node, 0), node.param_f32(0)
    factor = ops.scale_bias(b.ctx, ops.step(b.ctx, b.contiguous(x)), 1.0 - slope, slope)
    b.add(x, ops.mul(b.ctx, grad, factor))


# ---- reductions and repetition ------------------------------------------------------------------


def _sum(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    known = x in b.graph.grads  # then the one value is broadcast by the addition
    b.add(x, grad if known else ops.repeat(b.ctx, grad, x))


def _sum_rows(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.repeat(b.ctx, grad, x))


def _mean(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.repeat(b.ctx, ops.scale(b.ctx, grad, 1.0 / x.ne[0]), x))


def _cumsum(b: Backward, node: Tensor, grad: Tensor) -> None:
    # element i reaches sums i, i + 1, ...: all of them but those before i
    x = _src(node, 0)
    before = ops.sub(b.ctx, ops.cumsum(b.ctx, grad), grad)
    total = ops.repeat(b.ctx, ops.sum_rows(b.ctx, grad), x)
    b.add(x, ops.sub(b.ctx, total, before))


def _repeat(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.repeat_back(b.ctx, grad, x))


def _repeat_back(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.repeat(b.ctx, grad, x))


# ---- norms, softmax, losses ---------------------------------------------------------------------


def _rms_norm(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    b.add(x, ops.rms_norm_back(b.ctx, grad, x, node.param_f32(0)))


def _norm(b: Backward, node: Tensor, grad: Tensor) -> None:
    # norm(x) = rms_norm(x - mean(x)), and the gradient of x - mean(x) is g - mean(g)
    x = _src(node, 0)
    centred = ops.sub(b.ctx, x, ops.mean(b.ctx, x))
    g = ops.rms_norm_back(b.ctx, grad, centred, node.param_f32(0))
    b.add(x, ops.sub(b.ctx, g, ops.mean(b.ctx, g)))


def _l2_norm(b: Backward, node: Tensor, grad: Tensor) -> None:
    # n^(-1/2) rms_norm(x) with eps^2 / n under its root, for rows longer than eps
    x, eps = _src(node, 0), node.param_f32(0)
    n = x.ne[0]
    g = ops.scale(b.ctx, grad, n**-0.5)
    b.add(x, ops.rms_norm_back(b.ctx, g, x, eps * eps / n))


def _soft_max(b: Backward, node: Tensor, grad: Tensor) -> None:
    _refuse(b, node, 1, "mask")
    _refuse(b, node, 2, "sinks")
    x = _src(node, 0)
    if b.wants(x):
        # ALiBi slopes only weigh the mask, so max_bias does not enter
        b.add(x, ops.soft_max_back(b.ctx, grad, node, node.param_f32(0)))


def _cross_entropy_loss(b: Backward, node: Tensor, grad: Tensor) -> None:
    _refuse(b, node, 1, "labels")
    logits = _src(node, 0)
    b.add(logits, ops.cross_entropy_loss_back(b.ctx, grad, logits, _src(node, 1)))


# ---- products -----------------------------------------------------------------------------------


def _mul_mat(b: Backward, node: Tensor, grad: Tensor) -> None:
    # node [m, n, P, Q], w [k, m, p, q], x [k, n, P, Q]
    w, x = _src(node, 0), _src(node, 1)
    if b.wants(w):
        rows = ops.cont(b.ctx, x) if x.is_transposed() else x
        b.add(w, _fold_batches(b, ops.out_prod(b.ctx, rows, grad), w))
    if b.wants(x):
        b.add(x, ops.out_prod(b.ctx, w, ops.transpose(b.ctx, grad)))


def _fold_batches(b: Backward, t: Tensor, like: Tensor) -> Tensor:
    """Sum [k, m, P, Q] to [k, m, p, q]: P / p and Q / q neighbours shared one matrix."""
    k, m, p, q = like.ne
    for inner, n, outer in ((k * m, p, t.ne[3]), (k * m * p, q, 1)):
        shared = t.n_elements // (inner * n * outer)
        if shared > 1:
            t = ops.reshape(b.ctx, t, (inner, shared, n * outer))
            t = ops.repeat_back(b.ctx, t, (inner, 1, n * outer))
    return b.reshaped(t, like.ne)


# ---- moving and viewing -------------------------------------------------------------------------


def _block_of(b: Backward, node: Tensor, grad: Tensor) -> Tensor:
    """The part of `grad` where an ACC or SET node put its second source."""
    nb = (node.param_i32(0), node.param_i32(1), node.param_i32(2))
    return ops.view(b.ctx, grad, _src(node, 1).ne, nb, node.param_i32(3))


def _acc(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    if b.wants(x):
        b.add(x, grad)
    if b.wants(y):
        b.add(y, ops.cont(b.ctx, _block_of(b, node, grad)))


def _set(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, y = _src(node, 0), _src(node, 1)
    block = _block_of(b, node, grad)
    if b.wants(x):
        nb = (node.param_i32(0), node.param_i32(1), node.param_i32(2))
        erased = ops.neg(b.ctx, block)
        b.add(x, ops.acc(b.ctx, grad, erased, nb, node.param_i32(3)))
    if b.wants(y):
        b.add(y, ops.cont(b.ctx, block))


def _reshaped(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    if b.wants(x):
        b.add(x, b.reshaped(grad, x.ne))


def _view(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    if not x.is_contiguous():
        raise UnsupportedOpError(
            f"VIEW {node.name!r} looks into {x.name!r}, which is not contiguous (strides "
            f"{list(x.nb)}): its gradient has another layout; take ops.cont of it first"
        )
    (offset,) = struct.unpack_from("<Q", node.op_params)
    size = TRAITS[x.type].type_size
    scaled = [v // size * TRAITS[Type.F32].type_size for v in (*node.nb[1:], offset)]
    b.add_block(x, grad, (scaled[0], scaled[1], scaled[2]), scaled[3])


def _permute(b: Backward, node: Tensor, grad: Tensor) -> None:
    back = [0] * 4
    for i in range(4):
        back[node.param_i32(i)] = i
    b.add(_src(node, 0), ops.permute(b.ctx, grad, *back))


def _transpose(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.transpose(b.ctx, grad))


def _concat(b: Backward, node: Tensor, grad: Tensor) -> None:
    dim, offset = node.param_i32(0), 0
    for x in (_src(node, 0), _src(node, 1)):
        if b.wants(x):
            part = ops.view(b.ctx, grad, x.ne, grad.nb[1:], offset)
            b.add(x, ops.cont(b.ctx, part))
        offset += x.ne[dim] * grad.nb[dim]


def _pad(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    if node.param_i32(8):
        raise UnsupportedOpError(f"circular PAD {node.name!r} has no gradient rule; repeat instead")
    offset = sum(node.param_i32(2 * i) * grad.nb[i] for i in range(4))
    b.add(x, ops.cont(b.ctx, ops.view(b.ctx, grad, x.ne, grad.nb[1:], offset)))


def _roll(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.roll(b.ctx, grad, [-node.param_i32(i) for i in range(4)]))


def _tri(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.tri(b.ctx, grad, TriType(node.param_i32(0))))


def _get_rows(b: Backward, node: Tensor, grad: Tensor) -> None:
    x = _src(node, 0)
    if b.wants(x):
        b.add(x, ops.get_rows_back(b.ctx, grad, _src(node, 1), x))


def _diag_mask(b: Backward, node: Tensor, grad: Tensor) -> None:
    b.add(_src(node, 0), ops.diag_mask_zero(b.ctx, grad, node.param_i32(0)))


def _rope(b: Backward, node: Tensor, grad: Tensor) -> None:
    _refuse(b, node, 2, "frequency factors")
    params, factors = ops.RopeParams.of(node), node.src[2]
    if b.wants(node.src[0]):
        x_grad = ops.rope_back(b.ctx, grad, _src(node, 1), params, freq_factors=factors)
        b.add(_src(node, 0), x_grad)


def _im2col(b: Backward, node: Tensor, grad: Tensor) -> None:
    i = node.param_i32
    kernel, x = _src(node, 0), _src(node, 1)
    if b.wants(x):
        x_grad = ops.im2col_back(
            b.ctx, grad, kernel, x.ne, stride=(i(0), i(1)), padding=(i(2), i(3)),
            dilation=(i(4), i(5)), is_2d=i(6) == 1,
        )  # fmt: skip
        b.add(x, x_grad)


def _pool_2d(b: Backward, node: Tensor, grad: Tensor) -> None:
    i = node.param_i32
    x = _src(node, 0)
    kind, kernel, stride, padding = PoolOp(i(0)), (i(1), i(2)), (i(3), i(4)), (i(5), i(6))
    b.add(x, ops.pool_2d_back(b.ctx, grad, x, kind, kernel, stride, padding))


# ---- unary functions and gated units ------------------------------------------------------------


def _unary(b: Backward, node: Tensor, grad: Tensor) -> None:
    if node.unary_op in derivatives.FLAT_UNARY:
        return
    derivative = derivatives.UNARY.get(node.unary_op)
    if derivative is None:
        known = ", ".join(u.name for u in derivatives.UNARY)
        raise UnsupportedOpError(
            f"the unary function {node.unary_op.name} of {node.name!r} has no gradient rule; those "
            f"with one: {known}"
        )
    x = _src(node, 0)
    b.add(x, derivative(b.ctx, x, node, grad))


def _glu(b: Backward, node: Tensor, grad: Tensor) -> None:
    kind = node.glu_op
    if kind not in derivatives.GLU_ACTS:
        raise UnsupportedOpError(
            f"the gated unit {kind.name} of {node.name!r} has no gradient rule; those with one: "
            f"{', '.join(g.name for g in derivatives.GLU_ACTS)}"
        )
    if node.src[1] is None:
        _glu_halves(b, node, grad)
        return
    gate, up = _src(node, 0), _src(node, 1)
    if b.wants(gate):
        b.add(gate, _gate_gradient(b, kind, gate, up, grad))
    if b.wants(up):
        b.add(up, ops.mul(b.ctx, ops.unary(b.ctx, gate, derivatives.GLU_ACTS[kind]), grad))


def _gate_gradient(b: Backward, kind: GluOp, gate: Tensor, up: Tensor, grad: Tensor) -> Tensor:
    of_act = ops.mul(b.ctx, grad, up)
    return derivatives.UNARY[derivatives.GLU_ACTS[kind]](b.ctx, gate, gate, of_act)


def _glu_halves(b: Backward, node: Tensor, grad: Tensor) -> None:
    x, kind, swapped = _src(node, 0), node.glu_op, node.param_i32(1)
    half = x.ne[0] // 2
    halves = [
        ops.cont(b.ctx, ops.view(b.ctx, x, node.ne, x.nb[1:], i * half * x.nb[0])) for i in (0, 1)
    ]
    gate, up = halves[::-1] if swapped else halves
    of_gate = _gate_gradient(b, kind, gate, up, grad)
    of_up = ops.mul(b.ctx, ops.unary(b.ctx, gate, derivatives.GLU_ACTS[kind]), grad)
    pair = (of_up, of_gate) if swapped else (of_gate, of_up)
    b.add(x, ops.concat(b.ctx, *pair, 0))


def _nothing(b: Backward, node: Tensor, grad: Tensor) -> None:
    """A leaf: the gradient has arrived."""


RULES: dict[Op, Rule] = {
    Op.NONE: _nothing,
    Op.DUP: _pass_on,
    Op.ADD: _add,
    Op.ADD1: _add1,
    Op.ACC: _acc,
    Op.SUB: _sub,
    Op.MUL: _mul,
    Op.DIV: _div,
    Op.SQR: _sqr,
    Op.SQRT: _sqrt,
    Op.LOG: _log,
    Op.SIN: _sin,
    Op.COS: _cos,
    Op.SUM: _sum,
    Op.SUM_ROWS: _sum_rows,
    Op.CUMSUM: _cumsum,
    Op.MEAN: _mean,
    Op.REPEAT: _repeat,
    Op.REPEAT_BACK: _repeat_back,
    Op.CONCAT: _concat,
    Op.NORM: _norm,
    Op.RMS_NORM: _rms_norm,
    Op.L2_NORM: _l2_norm,
    Op.MUL_MAT: _mul_mat,
    Op.SCALE: _scale,
    Op.SET: _set,
    Op.CPY: _reshaped,
    Op.CONT: _reshaped,
    Op.RESHAPE: _reshaped,
    Op.VIEW: _view,
    Op.PERMUTE: _permute,
    Op.TRANSPOSE: _transpose,
    Op.GET_ROWS: _get_rows,
    Op.DIAG_MASK_INF: _diag_mask,
    Op.DIAG_MASK_ZERO: _diag_mask,
    Op.SOFT_MAX: _soft_max,
    Op.ROPE: _rope,
    Op.CLAMP: _clamp,
    Op.IM2COL: _im2col,
    Op.POOL_2D: _pool_2d,
    Op.PAD: _pad,
    Op.ROLL: _roll,
    Op.LEAKY_RELU: _leaky_relu,
    Op.TRI: _tri,
    Op.UNARY: _unary,
    Op.CROSS_ENTROPY_LOSS: _cross_entropy_loss,
    Op.GLU: _glu,
}

# Rules that take a gradient of any layout; the others get a contiguous one.
ANY_LAYOUT = frozenset(
    {
        Op.NONE, Op.DUP, Op.ADD, Op.ADD1, Op.MUL, Op.DIV, Op.SQR, Op.SQRT, Op.LOG, Op.SIN, Op.COS,
        Op.MUL_MAT, Op.PERMUTE, Op.TRANSPOSE, Op.CPY, Op.CONT, Op.RESHAPE,
    }
)  # fmt: skip


def apply(b: Backward, node: Tensor) -> None:
    """Add what `node`'s gradient (if it has one) means for its sources.

    Raises `UnsupportedOpError` for an op without a rule.
    """
    grad = b.graph.grads.get(node)
    if grad is None or not any(b.wants(s) for s in node.src):
        return
    rule = RULES.get(node.op)
    if rule is None:
        known = ", ".join(op.name for op in RULES if op != Op.NONE)
        raise UnsupportedOpError(
            f"{node.op.name} {node.name!r} has no gradient rule, and a trainable tensor or the "
            f"loss depends on it; ops with one: {known}"
        )
    rule(b, node, grad if node.op in ANY_LAYOUT else b.contiguous(grad))
