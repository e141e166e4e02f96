"""Small problems with a gradient, at least one for every rule of `wggml.core.gradients`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import GluOp, PoolOp, RopeMode, TriType, UnaryOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type

Values = npt.NDArray[np.generic]


@dataclass(slots=True)
class Problem:
    """Tensors of one case and what they hold."""

    ctx: Context = field(default_factory=lambda: Context(512))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    params: list[Tensor] = field(default_factory=list)
    values: dict[Tensor, Values] = field(default_factory=dict)

    def param(self, *ne: int, lo: float = -1.5, hi: float = 1.5, type_: Type = Type.F32) -> Tensor:
        """A trainable tensor whose values are all different and spread over [lo, hi].

        They lie further apart than the steps of finite differences, so that kinks and maxima
        (placed between values) are not crossed.
        """
        t = self.ctx.new_tensor(type_, ne, name=f"param {len(self.params)}").set_param()
        grid = np.linspace(lo, hi, t.n_elements)
        self.values[t] = self.rng.permutation(grid).reshape(t.ne[::-1]).astype(np.float32)
        self.params.append(t)
        return t

    def constant(self, *ne: int, lo: float = -1.0, hi: float = 1.0) -> Tensor:
        t = self.ctx.new_tensor(Type.F32, ne)
        self.values[t] = self.rng.uniform(lo, hi, t.ne[::-1]).astype(np.float32)
        return t

    def ints(self, *values: int) -> Tensor:
        t = self.ctx.new_tensor(Type.I32, (len(values),))
        self.values[t] = np.array(values, np.int32)
        return t


Case = Callable[[Problem], Tensor]


def _unary(kind: UnaryOp) -> Case:
    return lambda p: ops.unary(p.ctx, p.param(4, 5), kind)


def _wide(kind: UnaryOp) -> Case:
    """Values over the kinks at -3 and 3."""
    return lambda p: ops.unary(p.ctx, p.param(4, 6, lo=-5.0, hi=5.0), kind)


def _both(make: Callable[[Context, Tensor, Tensor], Tensor], *ne: int, lo: float = -1.5) -> Case:
    """A binary op whose second operand is repeated."""
    return lambda p: make(p.ctx, p.param(4, 3, 2, lo=lo), p.param(*ne, lo=lo))


def _mul_mat(w: tuple[int, ...], x: tuple[int, ...]) -> Case:
    return lambda p: ops.mul_mat(p.ctx, p.param(*w), p.param(*x))


def _same_twice(p: Problem) -> Tensor:
    x = p.param(4, 3)
    return ops.add(p.ctx, ops.mul(p.ctx, x, x), ops.sub(p.ctx, ops.sqr(p.ctx, x), x))


def _transposed_product(p: Problem) -> Tensor:
    w, x = p.param(4, 3), p.param(2, 4)
    return ops.mul_mat(p.ctx, w, ops.transpose(p.ctx, x))


def _permuted_gradient(p: Problem) -> Tensor:
    """A gradient that is a permuted view reaches rules that need contiguous ones."""
    x = ops.scale(p.ctx, ops.silu(p.ctx, p.param(4, 3, 2)), 0.7)
    return ops.sqr(p.ctx, ops.cont(p.ctx, ops.permute(p.ctx, x, 1, 2, 0, 3)))


def _view(p: Problem) -> Tensor:
    x = ops.sqr(p.ctx, p.param(6, 4))
    part = ops.view(p.ctx, x, (3, 2), (x.nb[1] * 2,), 8)
    return ops.sqr(p.ctx, part)


def _views_that_overlap(p: Problem) -> Tensor:
    x = p.param(6, 3)
    a = ops.view(p.ctx, x, (6, 2))
    b = ops.view(p.ctx, x, (6, 2), offset=x.nb[1])
    return ops.mul(p.ctx, a, b)


def _view_of_f16(p: Problem) -> Tensor:
    x = ops.cast(p.ctx, p.param(8, 2), Type.F16)
    part = ops.view(p.ctx, x, (4, 2), (x.nb[1],), 8)
    return ops.mul_mat(p.ctx, part, p.param(4, 3))


def _view_of_a_permuted_gradient(p: Problem) -> Tensor:
    x = ops.sqr(p.ctx, p.param(4, 3))
    y = ops.cont(p.ctx, ops.transpose(p.ctx, x))
    part = ops.view(p.ctx, x, (2, 3), (x.nb[1],))
    first = ops.mul(p.ctx, y, p.constant(3, 4))
    return ops.add(p.ctx, ops.sum(p.ctx, first), ops.sum(p.ctx, ops.sqr(p.ctx, part)))


def _reshape(p: Problem) -> Tensor:
    return ops.sqr(p.ctx, ops.reshape(p.ctx, p.param(4, 3), (2, 6)))


def _cont_reshaped(p: Problem) -> Tensor:
    x = ops.transpose(p.ctx, p.param(4, 3))
    return ops.sqr(p.ctx, ops.cont(p.ctx, x, (2, 6)))


def _cpy(p: Problem) -> Tensor:
    target = p.constant(2, 6)
    return ops.sqr(p.ctx, ops.cpy(p.ctx, ops.sqr(p.ctx, p.param(4, 3)), target))


def _block(make: Callable[..., Tensor]) -> Case:
    def case(p: Problem) -> Tensor:
        x, y = ops.sqr(p.ctx, p.param(5, 4)), ops.sqr(p.ctx, p.param(2, 3))
        return ops.sqr(p.ctx, make(p.ctx, x, y, (x.nb[1], x.nb[2], x.nb[3]), x.nb[1] + 8))

    return case


def _sum_and_more(p: Problem) -> Tensor:
    x = p.param(4, 3, lo=-1.0)
    first = ops.sum(p.ctx, ops.sqr(p.ctx, x))
    return ops.add(p.ctx, first, ops.mul(p.ctx, ops.sum(p.ctx, x), p.param(1)))


def _known_before_sum(p: Problem) -> Tensor:
    """SUM meets a gradient that is there already, whichever of its two users comes first."""
    x = p.param(4, 3)
    total = ops.sum(p.ctx, x)
    return ops.add(p.ctx, ops.sum(p.ctx, ops.sqr(p.ctx, x)), ops.sqr(p.ctx, total))


def _get_rows(p: Problem) -> Tensor:
    return ops.sqr(p.ctx, ops.get_rows(p.ctx, p.param(4, 5), p.ints(3, 0, 3)))


def _soft_max(p: Problem) -> Tensor:
    mask = p.constant(4, 3)
    return ops.soft_max(p.ctx, p.param(4, 3, 2), mask, 0.8)


def _soft_max_sinks(p: Problem) -> Tensor:
    mask = p.constant(4, 3)
    return ops.soft_max(p.ctx, p.param(4, 3, 2), mask, 0.8, 4.0, sinks=p.constant(2))


def _masked(make: Callable[..., Tensor]) -> Case:
    """Softmax behind the mask, so that infinities do not reach the loss."""
    return lambda p: ops.soft_max(p.ctx, make(p.ctx, p.param(4, 3), 1))


def _rope(mode: RopeMode, **settings: object) -> Case:
    def case(p: Problem) -> Tensor:
        many = mode & RopeMode.MROPE
        positions = p.ints(*range(1, 13)) if many else p.ints(2, 0, 5)
        params = ops.RopeParams(n_dims=8, mode=mode, **settings)  # type: ignore[arg-type]
        return ops.rope(p.ctx, p.param(16, 2, 3), positions, params)

    return case


def _rope_factors(p: Problem) -> Tensor:
    params = ops.RopeParams(n_dims=8, mode=RopeMode.NEOX, ext_factor=0.5, n_ctx_orig=64)
    factors = p.constant(4, lo=0.5, hi=2.0)
    return ops.rope(p.ctx, p.param(8, 2, 3), p.ints(2, 0, 5), params, freq_factors=factors)


def _conv_2d(p: Problem) -> Tensor:
    kernel, x = p.param(2, 3, 2, 3), p.param(5, 4, 2, 2)
    col = ops.im2col(p.ctx, kernel, x, padding=(1, 0), stride=(2, 1), type_=Type.F32)
    rows = ops.reshape(p.ctx, col, (12, col.n_elements // 12))
    return ops.mul_mat(p.ctx, rows, ops.reshape(p.ctx, kernel, (12, 3)))


def _pool(kind: PoolOp) -> Case:
    return lambda p: ops.pool_2d(p.ctx, p.param(5, 4, 2), kind, (2, 2), (2, 1), (1, 0))


def _cross_entropy(p: Problem) -> Tensor:
    labels = p.constant(5, 3, lo=0.0)
    values = p.values[labels]
    p.values[labels] = values / values.sum(-1, keepdims=True)
    return ops.cross_entropy_loss(p.ctx, p.param(5, 3), labels)


def _mlp(p: Problem) -> Tensor:
    """Two layers with biases, normalisation and cross entropy: a whole net."""
    x = p.constant(6, 4)
    h = ops.add(p.ctx, ops.mul_mat(p.ctx, p.param(6, 5), x), p.param(5))
    h = ops.mul(p.ctx, ops.rms_norm(p.ctx, ops.silu(p.ctx, h), 1e-5), p.param(5))
    logits = ops.add(p.ctx, ops.mul_mat(p.ctx, p.param(5, 3), h), p.param(3))
    labels = p.constant(3, 4, lo=0.0)
    p.values[labels] = np.eye(3, dtype=np.float32)[[0, 2, 1, 2]].reshape(1, 1, 4, 3)
    return ops.cross_entropy_loss(p.ctx, logits, labels)


def _attention(p: Problem) -> Tensor:
    """Grouped heads: two queries share one key head."""
    q, k, v = p.param(4, 3, 2), p.param(4, 3, 1), p.param(3, 4, 1)
    scores = ops.mul_mat(p.ctx, k, q)
    scores = ops.soft_max(p.ctx, ops.diag_mask_inf(p.ctx, scores, 0), None, 0.5)
    mixed = ops.mul_mat(p.ctx, v, scores)
    return ops.cont(p.ctx, ops.permute(p.ctx, mixed, 0, 2, 1, 3), (8, 3))


CASES: dict[str, Case] = {
    "dup": lambda p: ops.dup(p.ctx, p.param(4, 3)),
    "add": _both(ops.add, 4, 3, 2),
    "add a row": _both(ops.add, 4),
    "add along dimension 2": _both(ops.add, 1, 1, 2),
    "add1": _both(ops.add1, 1),
    "acc": _block(ops.acc),
    "sub": _both(ops.sub, 4, 3, 2),
    "sub a row": _both(ops.sub, 4),
    "mul": _both(ops.mul, 4, 3, 2),
    "mul by a column": _both(ops.mul, 1, 3),
    "div": _both(ops.div, 4, 3, 2, lo=0.5),
    "div by a row": _both(ops.div, 4, lo=0.5),
    "one operand twice": _same_twice,
    "sqr": lambda p: ops.sqr(p.ctx, p.param(4, 3)),
    "sqrt": lambda p: ops.sqrt(p.ctx, p.param(4, 3, lo=0.3)),
    "log": lambda p: ops.log(p.ctx, p.param(4, 3, lo=0.3)),
    "sin": lambda p: ops.sin(p.ctx, p.param(4, 3)),
    "cos": lambda p: ops.cos(p.ctx, p.param(4, 3)),
    "sum": lambda p: ops.sum(p.ctx, ops.sqr(p.ctx, p.param(4, 3))),
    "sum and more": _sum_and_more,
    "sum of what has a gradient": _known_before_sum,
    "sum_rows": lambda p: ops.sqr(p.ctx, ops.sum_rows(p.ctx, p.param(4, 3))),
    "mean": lambda p: ops.sqr(p.ctx, ops.mean(p.ctx, p.param(4, 3))),
    "repeat": lambda p: ops.repeat(p.ctx, p.param(2, 3), (4, 3, 2)),
    "repeat_back": lambda p: ops.repeat_back(p.ctx, p.param(4, 3, 2), (2, 1)),
    "concat": lambda p: ops.sqr(p.ctx, ops.concat(p.ctx, p.param(4, 2), p.param(4, 3), 1)),
    "concat rows": lambda p: ops.sqr(p.ctx, ops.concat(p.ctx, p.param(4, 2), p.param(3, 2), 0)),
    "norm": lambda p: ops.norm(p.ctx, p.param(6, 3), 1e-3),
    "rms_norm": lambda p: ops.rms_norm(p.ctx, p.param(6, 3), 1e-3),
    "l2_norm": lambda p: ops.l2_norm(p.ctx, p.param(6, 3), 1e-2),
    "cumsum": lambda p: ops.cumsum(p.ctx, p.param(6, 3)),
    "pad": lambda p: ops.sqr(p.ctx, ops.pad(p.ctx, p.param(4, 3, 2), (1, 2), (2, 0, 1))),
    "roll": lambda p: ops.sqr(p.ctx, ops.roll(p.ctx, p.param(4, 3), (1, -2))),
    "tri": lambda p: ops.tri(p.ctx, p.param(4, 4, 2), TriType.LOWER),
    "mul_mat": _mul_mat((4, 3), (4, 2)),
    "mul_mat by one matrix a group": _mul_mat((4, 3, 2), (4, 2, 6)),
    "mul_mat by one matrix for all": _mul_mat((4, 3), (4, 2, 2, 3)),
    "mul_mat over both outer dimensions": _mul_mat((4, 3, 2, 1), (4, 2, 4, 3)),
    "mul_mat of what is transposed": _transposed_product,
    "scale": lambda p: ops.scale_bias(p.ctx, p.param(4, 3), -1.7, 0.4),
    "set": _block(ops.set),
    "cpy": _cpy,
    "cast to f16 and back": lambda p: ops.cast(
        p.ctx, ops.cast(p.ctx, p.param(4, 3), Type.F16), Type.F32
    ),
    "cont": _cont_reshaped,
    "reshape": _reshape,
    "view": _view,
    "views that overlap": _views_that_overlap,
    "view of f16": _view_of_f16,
    "view of what has a permuted gradient": _view_of_a_permuted_gradient,
    "permute": lambda p: ops.sqr(p.ctx, ops.permute(p.ctx, p.param(4, 3, 2), 2, 0, 1, 3)),
    "transpose": lambda p: ops.sqr(p.ctx, ops.transpose(p.ctx, p.param(4, 3))),
    "permuted gradient": _permuted_gradient,
    "get_rows": _get_rows,
    "diag_mask_inf": _masked(ops.diag_mask_inf),
    "diag_mask_zero": lambda p: ops.diag_mask_zero(p.ctx, p.param(4, 3, 2), 1),
    "soft_max": _soft_max,
    "soft_max with sinks and slopes": _soft_max_sinks,
    "rope": _rope(RopeMode.NORMAL),
    "rope neox": _rope(RopeMode.NEOX, attn_factor=0.7),
    "rope from an offset": _rope(RopeMode.NORMAL, offset=8),
    "rope mrope": _rope(RopeMode.MROPE, sections=(1, 1, 1, 1)),
    "rope imrope": _rope(RopeMode.IMROPE, sections=(1, 1, 1, 1)),
    "rope vision": _rope(RopeMode.VISION, sections=(4, 4, 0, 0)),
    "rope yarn and factors": _rope_factors,
    "clamp": lambda p: ops.clamp(p.ctx, p.param(4, 5), -0.5, 0.8),
    "im2col": _conv_2d,
    "pool_2d max": _pool(PoolOp.MAX),
    "pool_2d avg": _pool(PoolOp.AVG),
    "leaky_relu": lambda p: ops.leaky_relu(p.ctx, p.param(4, 5), 0.2),
    "abs": _unary(UnaryOp.ABS),
    "neg": _unary(UnaryOp.NEG),
    "relu": _unary(UnaryOp.RELU),
    "silu": _unary(UnaryOp.SILU),
    "exp": _unary(UnaryOp.EXP),
    "expm1": _unary(UnaryOp.EXPM1),
    "softplus": _unary(UnaryOp.SOFTPLUS),
    "sigmoid": _unary(UnaryOp.SIGMOID),
    "tanh": _unary(UnaryOp.TANH),
    "elu": _unary(UnaryOp.ELU),
    "gelu": _unary(UnaryOp.GELU),
    "gelu_quick": _unary(UnaryOp.GELU_QUICK),
    "hardsigmoid": _wide(UnaryOp.HARDSIGMOID),
    "hardswish": _wide(UnaryOp.HARDSWISH),
    "cross_entropy_loss": _cross_entropy,
    "swiglu": lambda p: ops.glu_split(p.ctx, p.param(4, 3), p.param(4, 3), GluOp.SWIGLU),
    "reglu": lambda p: ops.glu_split(p.ctx, p.param(4, 3), p.param(4, 3), GluOp.REGLU),
    "geglu": lambda p: ops.glu_split(p.ctx, p.param(4, 3), p.param(4, 3), GluOp.GEGLU),
    "geglu_quick": lambda p: ops.glu(p.ctx, p.param(8, 3), GluOp.GEGLU_QUICK),
    "swiglu of halves": lambda p: ops.glu(p.ctx, p.param(8, 3), GluOp.SWIGLU),
    "swiglu of swapped halves": lambda p: ops.glu(p.ctx, p.param(8, 3), GluOp.SWIGLU, swapped=True),
    "a net": _mlp,
    "attention": _attention,
}
