"""Losses and optimiser steps."""

from __future__ import annotations

from wggml.core.context import Context
from wggml.core.opcodes import Flag, Op
from wggml.core.ops._make import is_scalar, make, make_like, require, require_shape, require_type
from wggml.core.tensor import Tensor
from wggml.core.types import Type


def cross_entropy_loss(ctx: Context, logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over rows of -sum(labels * log_softmax(logits)); ne [1]. Labels are probabilities."""
    op = Op.CROSS_ENTROPY_LOSS
    require(logits.same_shape(labels), op, "both must have one shape", logits, labels)
    return make(ctx, op, [logits, labels], logits.type, (1, 1, 1, 1))


def cross_entropy_loss_back(ctx: Context, grad: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Gradient of `cross_entropy_loss`: (softmax(logits) - labels) * grad / rows."""
    op = Op.CROSS_ENTROPY_LOSS_BACK
    require(is_scalar(grad), op, "the gradient of a loss must have one element", grad)
    require(logits.same_shape(labels), op, "logits and labels must have one shape", logits, labels)
    return make_like(ctx, op, [grad, logits, labels], logits)


def opt_step_adamw(
    ctx: Context, a: Tensor, grad: Tensor, m: Tensor, v: Tensor, params: Tensor
) -> Tensor:
    """One AdamW step on the PARAM tensor `a` and its moments `m`, `v`, all in place.

    params: F32, 7 values: alpha, beta1, beta2, eps, weight decay, 1 / (1 - beta1^t),
    1 / (1 - beta2^t). The result is a view of `a`.
    """
    op = Op.OPT_STEP_ADAMW
    _trainable(op, a)
    require_shape(op, a.ne, grad=grad, m=m, v=v)
    require_type(op, (Type.F32,), params=params)
    require(params.n_elements == 7, op, "params must have 7 values", params)
    return make_like(ctx, op, [a, grad, m, v, params], a, inplace=True)


def opt_step_sgd(ctx: Context, a: Tensor, grad: Tensor, params: Tensor) -> Tensor:
    """One step a = a * (1 - alpha * decay) - alpha * grad on the PARAM tensor `a`, in place.

    params: F32, 2 values: alpha, weight decay. The result is a view of `a`.
    """
    op = Op.OPT_STEP_SGD
    _trainable(op, a)
    require_shape(op, a.ne, grad=grad)
    require_type(op, (Type.F32,), params=params)
    require(params.n_elements == 2, op, "params must have 2 values", params)
    return make_like(ctx, op, [a, grad, params], a, inplace=True)


def _trainable(op: Op, a: Tensor) -> None:
    rule = "the tensor must be trainable; call set_param() before building the graph"
    require(bool(a.flags & Flag.PARAM), op, rule, a)
