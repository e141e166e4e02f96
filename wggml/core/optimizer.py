"""Optimiser steps at the end of a backward graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import Flag
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError

Moments = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW:
    """Settings of AdamW (Loshchilov and Hutter, 2019); defaults are ggml's."""

    alpha: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def values(self, step: int) -> npt.NDArray[np.float32]:
        """The 7 values the step's tensor of parameters holds in step number `step` (from 1)."""
        if step < 1:
            raise ShapeError(f"AdamW steps count from 1, got {step}")
        h1 = 1.0 / (1.0 - self.beta1**step)
        h2 = 1.0 / (1.0 - self.beta2**step)
        return np.array(
            [self.alpha, self.beta1, self.beta2, self.eps, self.weight_decay, h1, h2], np.float32
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD:
    """Settings of stochastic gradient descent; defaults are ggml's."""

    alpha: float = 0.001
    weight_decay: float = 0.0

    def values(self) -> npt.NDArray[np.float32]:
        """The 2 values the step's tensor of parameters holds."""
        return np.array([self.alpha, self.weight_decay], np.float32)


def params_of(graph: Graph) -> list[Tensor]:
    """Trainable tensors of a graph that have a gradient, in node order."""
    return [t for t in graph.nodes if t.flags & Flag.PARAM and t in graph.grads]


def new_moments(ctx: Context, graph: Graph) -> dict[Tensor, Moments]:
    """First and second moments (F32) for `params_of(graph)`, made in a context that outlives the
    graph. They start as zeros: see `backward.graph_reset`."""
    moments = {}
    for t in params_of(graph):
        m = ctx.new_tensor(Type.F32, t.ne, name=f"AdamW m for {t.name}")
        v = ctx.new_tensor(Type.F32, t.ne, name=f"AdamW v for {t.name}")
        moments[t] = (m, v)
    return moments


def build_adamw_steps(
    ctx: Context, graph: Graph, params: Tensor, moments: Mapping[Tensor, Moments]
) -> list[Tensor]:
    """Append one AdamW step for each trainable tensor with a gradient.

    params: F32 [7], to be filled with `AdamW.values(step)` before each run.
    """
    steps = []
    for t in reversed(params_of(graph)):
        if t not in moments:
            raise ShapeError(f"the trainable tensor {t.name!r} has no moments; call new_moments")
        step = ops.opt_step_adamw(ctx, t, graph.grads[t], *moments[t], params)
        steps.append(graph.build_forward_expand(step.set_name(f"AdamW step for {t.name}")))
    return steps


def build_sgd_steps(ctx: Context, graph: Graph, params: Tensor) -> list[Tensor]:
    """Append one SGD step for each trainable tensor with a gradient.

    params: F32 [2], to be filled with `SGD.values()`.
    """
    steps = []
    for t in reversed(params_of(graph)):
        step = ops.opt_step_sgd(ctx, t, graph.grads[t], params)
        steps.append(graph.build_forward_expand(step.set_name(f"SGD step for {t.name}")))
    return steps
