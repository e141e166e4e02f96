"""Element-wise ops: arithmetic with broadcasting, unary functions, gated units, scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wggml.backends.wgpu.family import OpImpl
from wggml.backends.wgpu.ops import _blocks
from wggml.backends.wgpu.ops._mm_inputs import stage_ahead
from wggml.backends.wgpu.ops._operands import (
    Bound,
    bind_elementwise,
    optional,
    source,
    why_not_types,
)
from wggml.backends.wgpu.ops.norm import emit_after_add
from wggml.backends.wgpu.profile import DeviceProfile
from wggml.core.opcodes import GluOp, Op, UnaryOp
from wggml.core.tensor import Tensor

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# WGSL over `x` of type V (f32 or vec4<f32>); helpers are in shaders/include/math.wgsl.
UNARY: dict[UnaryOp, str] = {
    UnaryOp.ABS: "abs(x)",
    UnaryOp.SGN: "sign(x)",
    UnaryOp.NEG: "-x",
    UnaryOp.STEP: "select(V(0.0), V(1.0), x > V(0.0))",
    UnaryOp.TANH: "tanh_safe(x)",
    UnaryOp.ELU: "select(expm1(x), x, x > V(0.0))",
    UnaryOp.RELU: "max(x, V(0.0))",
    UnaryOp.SIGMOID: "sigmoid(x)",
    UnaryOp.GELU: "gelu(x)",
    UnaryOp.GELU_QUICK: "gelu_quick(x)",
    UnaryOp.SILU: "x * sigmoid(x)",
    UnaryOp.HARDSWISH: "x * clamp((x + V(3.0)) / 6.0, V(0.0), V(1.0))",
    UnaryOp.HARDSIGMOID: "clamp((x + V(3.0)) / 6.0, V(0.0), V(1.0))",
    UnaryOp.EXP: "exp(x)",
    UnaryOp.EXPM1: "expm1(x)",
    UnaryOp.SOFTPLUS: "select(log(V(1.0) + exp(min(x, V(20.0)))), x, x > V(20.0))",
    UnaryOp.GELU_ERF: "gelu_erf(x)",
    # p0 alpha_n, p1 alpha_p, p2 beta, p3 eps
    UnaryOp.XIELU: "select((expm1(min(x, V(P.p3))) - x) * P.p0, P.p1 * x * x, x > V(0.0))"
    " + P.p2 * x",
    UnaryOp.FLOOR: "floor(x)",
    UnaryOp.CEIL: "ceil(x)",
    UnaryOp.ROUND: "round_away(x)",
    UnaryOp.TRUNC: "trunc(x)",
}

SIMPLE: dict[Op, str] = {
    Op.SQR: "x * x",
    Op.SQRT: "sqrt(x)",
    Op.LOG: "log(x)",
    Op.SIN: "sin_of(x)",
    Op.COS: "cos_of(x)",
    Op.SCALE: "x * P.p0 + V(P.p1)",
    Op.CLAMP: "clamp(x, V(P.p0), V(P.p1))",
    Op.LEAKY_RELU: "max(x, V(0.0)) + P.p0 * min(x, V(0.0))",
}
# Float parameters of an op: p0 .. pn are op_params from this index on.
PARAMS: dict[Op, tuple[int, int]] = {
    Op.SCALE: (0, 2), Op.CLAMP: (0, 2), Op.LEAKY_RELU: (0, 1),
}  # fmt: skip

# WGSL over gate `x` and `y`.
GLU: dict[GluOp, str] = {
    GluOp.REGLU: "max(x, V(0.0)) * y",
    GluOp.GEGLU: "gelu(x) * y",
    GluOp.SWIGLU: "x * sigmoid(x) * y",
    # p0 alpha, p1 limit
    GluOp.SWIGLU_OAI: "min(x, V(P.p1)) * sigmoid(P.p0 * min(x, V(P.p1)))"
    " * (clamp(y, V(-P.p1), V(P.p1)) + V(1.0))",
    GluOp.GEGLU_ERF: "gelu_erf(x) * y",
    GluOp.GEGLU_QUICK: "gelu_quick(x) * y",
    GluOp.SWIGLU_CLAMP: "min(x, V(P.p1)) * sigmoid(min(x, V(P.p1))) * clamp(y, V(-P.p1), V(P.p1))",
}

BINARY: dict[Op, str] = {Op.ADD: "+", Op.ADD1: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/"}


def _why_not(profile: DeviceProfile, t: Tensor) -> str | None:
    if t.op == Op.ADD and source(t, 0).type in _blocks.READABLE:
        return _blocks.why_not_add(profile, t)
    return why_not_types(t)


def _add(b: PlanBuilder, shader: str, bound: Bound, label: str, **consts: object) -> None:
    b.dispatch(
        f"elementwise/{shader}.wgsl",
        operands=bound.operands,
        consts={**bound.consts, **consts},
        params=bound.params,
        groups=bound.groups,
        label=label,
    )


def _emit_binary(b: PlanBuilder, t: Tensor) -> None:
    if t.op == Op.ADD and emit_after_add(b, t):
        return
    a, c = source(t, 0), source(t, 1)
    if a.type in _blocks.READABLE:
        _blocks.emit_add(b, t)
        return
    bound = bind_elementwise(b, t, {"src0": a, "src1": c})
    bound.consts.pop("src0_vtype")
    _add(b, "binary", bound, t.op.name.lower(), operator=BINARY[t.op])


def _unary(b: PlanBuilder, t: Tensor, function: str, params: list[float], label: str) -> None:
    a = source(t, 0)
    bound = bind_elementwise(b, t, {"src0": a})
    bound.consts.pop("src0_vtype")
    bound.params.update({f"p{i}": v for i, v in enumerate(params)})
    _add(b, "unary", bound, label, function=function)


def _emit_unary(b: PlanBuilder, t: Tensor) -> None:
    params = [t.param_f32(i) for i in range(1, 5)] if t.unary_op == UnaryOp.XIELU else []
    _unary(b, t, UNARY[t.unary_op], params, t.unary_op.name.lower())


def _emit_simple(b: PlanBuilder, t: Tensor) -> None:
    first, count = PARAMS.get(t.op, (0, 0))
    params = [t.param_f32(first + i) for i in range(count)]
    _unary(b, t, SIMPLE[t.op], params, t.op.name.lower())


def _why_not_glu(profile: DeviceProfile, t: Tensor) -> str | None:
    if t.glu_op not in GLU:
        return f"gated unit {t.glu_op.name}"
    return why_not_types(t)


def _halves(a: Tensor, swapped: bool) -> tuple[Tensor, Tensor]:
    """Gate and up as views of the two halves of each row."""
    n = a.ne[0] // 2
    ne = (n, a.ne[1], a.ne[2], a.ne[3])
    parts = []
    for i in (1, 0) if swapped else (0, 1):
        part = Tensor(a.type, ne, a.nb, view_src=a.view_src or a)
        part.view_offs = a.view_offs + i * n * a.nb[0]
        part.buffer, part.name = a.buffer, a.name
        assert a.data is not None
        part.data = a.data + i * n * a.nb[0]
        parts.append(part)
    return parts[0], parts[1]


def glu_params(t: Tensor) -> dict[str, float]:
    """Parameters that the text of `t`'s unit in `GLU` refers to."""
    if t.glu_op in (GluOp.SWIGLU_OAI, GluOp.SWIGLU_CLAMP):
        return {"p0": t.param_f32(2), "p1": t.param_f32(3)}
    return {}


def _emit_glu(b: PlanBuilder, t: Tensor) -> None:
    a, up = source(t, 0), optional(t, 1)
    gate, up = (a, up) if up is not None else _halves(a, bool(t.param_i32(1)))
    bound = bind_elementwise(b, t, {"gate": gate, "up": up})
    bound.consts.pop("gate_vtype")
    bound.consts.pop("up_vtype")
    bound.params.update(glu_params(t))
    # one row of vec4s is what a product's texture holds: it can be written on the way
    row = bound.consts["vtype"] == "vec4<f32>" and bound.consts["n_dims"] == 1
    staged = stage_ahead(b, t, 1) if row else None
    if staged is not None:
        bound.operands.append(staged)
    stage = staged is not None
    _add(b, "glu", bound, t.glu_op.name.lower(), function=GLU[t.glu_op], stage=stage)


FAMILY: dict[Op, OpImpl] = {
    **{op: OpImpl(_why_not, _emit_binary) for op in BINARY},
    **{op: OpImpl(_why_not, _emit_simple) for op in SIMPLE},
    Op.UNARY: OpImpl(_why_not, _emit_unary),
    Op.GLU: OpImpl(_why_not_glu, _emit_glu),
}
