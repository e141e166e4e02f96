"""Convolutions on drivers that read textures faster than buffers: image and kernel are copied to
textures first, four channels a texel. See `wggml.backends.wgpu.texels`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wggml.backends.wgpu import texels
from wggml.backends.wgpu.ops._operands import Bound, typed, workgroup
from wggml.backends.wgpu.ops._units import read
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS

if TYPE_CHECKING:
    from wggml.backends.wgpu.builder import PlanBuilder

# A value copied costs about what four products save.
PRODUCTS_A_VALUE = 4
AXES = "xyz"


def convolve(
    b: PlanBuilder,
    t: Tensor,
    kernel: Tensor,
    image: Tensor,
    params: Mapping[str, int],
    *,
    transposed: bool = False,
) -> bool:
    """Add the dispatches if this way pays off; False leaves the op to kernels that read buffers.

    `params`: those of conv.wgsl, with `channels`, `n_out` and `n_at`; transposed.wgsl's `stride`
    and `stride_y` when `transposed`.
    """
    n, n_out = params["n"], params["n_out"]
    quads = -(-params["channels"] // 4)
    x_texels = n * math.prod(params[f"n{a}"] for a in AXES) * quads
    taps = math.prod(params[f"k{a}"] for a in AXES)
    w_texels = n_out * taps * quads
    products = params["n_at"] * n_out * taps * quads
    if transposed:
        products //= params["stride"] * params["stride_y"]
    if not b.profile.texel_reads or products < PRODUCTS_A_VALUE * (x_texels + w_texels):
        return False
    b.staged = None  # what products keep there may be written over now
    x_view = b.device.texel_scratch.view(x_texels)
    w_view = b.device.texel_scratch.view(w_texels)
    if x_view is None or w_view is None:
        return False
    _stage(b, image, x_view, "x", "n", "n", quads, x_texels, params)
    _stage(b, kernel, w_view, "w", "k", "o", quads, w_texels, params)
    _sum(b, t, x_view, w_view, {**params, "quads": quads}, transposed)
    return True


def _stage(
    b: PlanBuilder, s: Tensor, view: Any, name: str, size: str, batch: str, quads: int, total: int,
    params: Mapping[str, int],
) -> None:  # fmt: skip
    """Copy operand `name`, whose sizes are called `size`x .., whose outermost step `batch`."""
    bound = Bound()
    read(b, bound, s, "x")
    wg = workgroup(b.profile)
    steps = {f"x_s{i}": params[f"{name}_s{i}"] for i in range(3)}
    b.dispatch(
        "conv/stage.wgsl",
        operands=[*bound.operands, b.texture(view, texels.ACTIVATIONS_OUT, name="out")],
        consts={**bound.consts, "wg": wg},
        params={
            **bound.params, **{f"size{i}": params[f"{size}{a}"] for i, a in enumerate(AXES)},
            "channels": params["channels"], "quads": quads, "total": total, **steps,
            "x_sc": params[f"{name}_sc"], "x_sn": params[f"{name}_s{batch}"],
        },
        groups=-(-total // wg),
        label=f"{s.op.name.lower()} to a texture",
    )  # fmt: skip


def _sum(
    b: PlanBuilder, t: Tensor, x: Any, w: Any, params: Mapping[str, int], transposed: bool
) -> None:
    at_once = next((r for r in (8, 4) if params["n_out"] >= r), 1)
    wg = 16  # few lanes, so that small images use all cores
    chunks = -(-params["n_at"] // wg)
    store = "whole" if TRAITS[t.type].type_size >= 4 else "atomic"
    dst, extra = typed(b, t, "dst", write=True, atomic=store == "atomic")
    used = {k: v for k, v in params.items() if not k.startswith(("x_s", "w_s"))}
    b.dispatch(
        "conv/texel.wgsl",
        operands=[
            b.texture(x, texels.ACTIVATIONS, name="x"), b.texture(w, texels.ACTIVATIONS, name="w"),
            dst,
        ],
        consts={
            "wg": wg, "R": at_once, "store": store, "dst_type": TRAITS[t.type].name,
            "transposed": transposed,
        },
        params={**extra, **used, "chunks": chunks},
        groups=chunks * -(-params["n_out"] // at_once),
        label=f"{t.op.name.lower()} through textures",
    )  # fmt: skip
