"""A layer of a model with and without its nodes joined: same values, fewer dispatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from mm_lab import weights
from wgpu_lab import Lab, rng, values

from wggml.backends.wgpu import fusion
from wggml.backends.wgpu.backend import WgpuBackend
from wggml.core import ops
from wggml.core.opcodes import GluOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import UsageError

WIDTH, HIDDEN, HEAD, CELLS = 256, 512, 32, 7
TYPES = [Type.Q4_1, Type.Q8_0, Type.Q4_K, Type.Q6_K, Type.F16, Type.F32]


@dataclass
class Layer:
    """Results of a layer: what an attention would read, and what the next layer reads."""

    q: Tensor
    k: Tensor
    v: Tensor
    h: Tensor
    out: Tensor

    def arrays(self) -> list[np.ndarray]:
        return [t.numpy().astype(np.float32) for t in (self.q, self.k, self.v, self.h, self.out)]


def build(
    lab: Lab,
    type_: Type,
    *,
    cache: Type = Type.F16,
    act: GluOp = GluOp.SWIGLU,
    factors: bool = False,
    up_first: bool = False,
) -> Layer:
    """Norm, projections with rotation and cache, a residual, norm, gated units, a residual, norm
    and a head; the rotated queries stand for the result of an attention."""
    ctx = lab.ctx

    def product(t: Tensor, m: int, seed: int) -> Tensor:
        return ops.mul_mat(ctx, weights(lab, type_, (t.ne[0], m), seed)[0], t)

    def norm(t: Tensor, seed: int) -> Tensor:
        w = lab.tensor(values((WIDTH,), seed), weights=True)
        return ops.mul(ctx, ops.rms_norm(ctx, t, 1e-5), w)

    x = lab.tensor(values((1, WIDTH), 1))
    pos = lab.tensor(np.array([5], np.int32), Type.I32)
    ids = lab.tensor(np.array([3], np.int64), Type.I64)
    caches = [lab.tensor(np.zeros((CELLS, WIDTH // 2)), cache) for _ in range(2)]
    ff = lab.tensor(rng(9).uniform(1, 4, HEAD // 2), weights=True) if factors else None
    a = norm(x, 2)
    q, k, v = product(a, WIDTH, 3), product(a, WIDTH // 2, 4), product(a, WIDTH // 2, 5)
    turn = ops.RopeParams(n_dims=HEAD - 8)
    q = ops.rope(ctx, ops.reshape(ctx, q, (HEAD, WIDTH // HEAD, 1)), pos, turn, freq_factors=ff)
    k = ops.reshape(ctx, k, (HEAD, WIDTH // 2 // HEAD, 1))
    k = ops.rope(ctx, k, pos, turn, freq_factors=ff)
    k = ops.set_rows(ctx, caches[0], ops.reshape(ctx, k, (WIDTH // 2, 1)), ids)
    v = ops.set_rows(ctx, caches[1], v, ids)
    h = ops.add(ctx, product(ops.reshape(ctx, q, (WIDTH, 1)), WIDTH, 6), x)
    f = norm(h, 7)
    first, second = product(f, HIDDEN, 8), product(f, HIDDEN, 9)
    gate, up = (second, first) if up_first else (first, second)
    y = ops.add(ctx, product(ops.glu_split(ctx, gate, up, act), WIDTH, 10), h)
    return Layer(q, k, v, y, product(norm(y, 11), WIDTH, 12))


def compute(lab: Lab, kinds: bool | list[str], **how: object) -> tuple[list[np.ndarray], int]:
    """Results and the number of dispatches."""
    layer = build(lab, **how)  # type: ignore[arg-type]
    b = WgpuBackend(lab.backend.device, fusion=kinds)
    graph = lab.graph(layer.q, layer.k, layer.v, layer.out)
    b.graph_compute(graph)
    return layer.arrays(), b.counters.dispatches


def agree(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * max(np.abs(b).max(), 1e-6))


@pytest.mark.parametrize("type_", TYPES)
def test_a_layer_gives_the_same_in_fewer_dispatches(lab: Lab, type_: Type) -> None:
    want, apart = compute(lab, False, type_=type_)
    assert apart >= 21  # one for each node, and copies of columns
    got, joined = compute(lab, True, type_=type_)
    agree(got, want)
    assert not np.isnan(got[0]).any() and np.abs(got[1][3]).sum() and not got[1][2].any()
    if lab.backend.device.profile.texel_reads and type_ not in (Type.F16, Type.F32):
        # norm | q, k, v, rotated, kept | o + residual | gate, up, unit | down + residual | head;
        # texts of other types are too long to be joined three at a time
        assert joined == 6 if type_ in (Type.Q4_1, Type.Q8_0) else joined <= 8


@pytest.mark.parametrize("type_", [Type.Q4_1, Type.Q5_1])
def test_few_bindings_leave_nodes_apart(one_lab: Lab, type_: Type) -> None:
    lab = Lab(one_lab.backend.device.with_mask("spec-defaults").init_backend())  # type: ignore[arg-type]
    agree(compute(lab, True, type_=type_)[0], compute(lab, False, type_=type_)[0])
    lab.free()


@pytest.mark.parametrize("kind", sorted(fusion.KINDS))
def test_each_kind_by_itself(lab: Lab, kind: str) -> None:
    want, apart = compute(lab, False, type_=Type.Q4_1)
    got, joined = compute(lab, [kind], type_=Type.Q4_1)
    agree(got, want)
    if kind != "scale":  # only behind a residual
        assert joined < apart


@pytest.mark.parametrize("act", [GluOp.SWIGLU, GluOp.GEGLU, GluOp.REGLU, GluOp.GEGLU_QUICK])
@pytest.mark.parametrize("up_first", [False, True])
def test_gated_units(lab: Lab, act: GluOp, up_first: bool) -> None:
    how = {"type_": Type.Q8_0, "act": act, "up_first": up_first}
    agree(compute(lab, True, **how)[0], compute(lab, False, **how)[0])


@pytest.mark.parametrize("cache", [Type.F16, Type.F32])
@pytest.mark.parametrize("factors", [False, True])
def test_caches_and_frequency_factors(lab: Lab, cache: Type, factors: bool) -> None:
    how = {"type_": Type.Q4_1, "cache": cache, "factors": factors}
    agree(compute(lab, True, **how)[0], compute(lab, False, **how)[0])


def test_what_a_user_reads_is_stored(lab: Lab) -> None:
    """The norm between products, a rotated key, a gate: each as an output."""
    for pick in ("k", "norm", "gate"):
        results = []
        for kinds in (True, False):
            layer = build(lab, Type.Q4_1)
            graph = lab.graph(layer.q, layer.k, layer.v, layer.out)
            node = {
                "k": layer.k.src[0].view_src,  # type: ignore[union-attr]
                "norm": layer.out.src[1],
                "gate": next(t for t in graph.nodes if t.op.name == "GLU").src[0],
            }[pick]
            assert node is not None
            node.set_output()
            WgpuBackend(lab.backend.device, fusion=kinds).graph_compute(graph)
            results.append([node.numpy(), *layer.arrays()])
        agree(*results)


def test_a_rotation_that_overwrites_the_input_runs_later(lab: Lab) -> None:
    """Rotated queries may be put where the normed input was, which k and v still read."""
    results = []
    for kinds in (True, False):
        layer = build(lab, Type.Q4_1)
        a = layer.q.src[0].view_src.src[1]  # type: ignore[union-attr]
        assert a is not None
        lab.place(a)
        layer.q.buffer, layer.q.data = a.buffer, a.data
        graph = lab.graph(layer.q, layer.k, layer.v, layer.out)
        # in an order where the products come first, as the backend itself would put them
        order = {"MUL_MAT": 0, "RESHAPE": 1, "ROPE": 2, "SET_ROWS": 3}
        first = graph.nodes.index(a) + 1
        last = graph.nodes.index(layer.v) + 1
        graph.nodes[first:last] = sorted(graph.nodes[first:last], key=lambda t: order[t.op.name])
        WgpuBackend(lab.backend.device, fusion=kinds).graph_compute(graph)
        results.append(layer.arrays())
    agree(*results)


def test_the_environment_chooses(one_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGGML_FUSION", "glu, norm")
    assert WgpuBackend(one_lab.backend.device).fusion == {"glu", "norm"}
    monkeypatch.setenv("WGGML_FUSION", "0")
    assert not WgpuBackend(one_lab.backend.device).fusion
    monkeypatch.setenv("WGGML_FUSION", "glue")
    with pytest.raises(UsageError, match="glue.*residual"):
        WgpuBackend(one_lab.backend.device)
