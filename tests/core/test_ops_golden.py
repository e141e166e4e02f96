"""Every recorded node made again by our constructors: same record, field by field."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.core import op_nodes
from tests.core.remake import REMAKE, Call, differences
from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor

# Ops without a constructor: no operation; unfinished in ggml, where it aborts; the user's own code.
WITHOUT = {Op.NONE, Op.FLASH_ATTN_BACK, Op.MAP_CUSTOM1, Op.MAP_CUSTOM2, Op.MAP_CUSTOM3, Op.CUSTOM}


@cache
def recorded() -> dict[Op, list[tuple[str, Tensor]]]:
    """Case id and node of everything recorded, by op."""
    found: dict[Op, list[tuple[str, Tensor]]] = {}
    for packed in op_nodes.read():
        for t in op_nodes.build(packed):
            if t.op != Op.NONE:
                found.setdefault(t.op, []).append((packed[0], t))
    return found


def remake(t: Tensor) -> Tensor:
    return REMAKE[t.op](Call(Context(1), t))


def test_every_op_has_a_constructor_and_recorded_nodes() -> None:
    assert set(REMAKE) == set(Op) - WITHOUT
    assert set(recorded()) == set(REMAKE)


@pytest.mark.parametrize("op", sorted(REMAKE), ids=lambda op: op.name)
def test_nodes_come_out_as_recorded(op: Op) -> None:
    wrong = [f"{case}: {d}" for case, t in recorded()[op] for d in differences(remake(t), t)]
    assert wrong == []


def test_the_committed_nodes_are_all_of_the_recorded_ones(shared_dir: Path) -> None:
    assert op_nodes.read() == list(op_nodes.pack_all(shared_dir / "oracle" / "ops"))
    assert sum(map(len, recorded().values())) == 5109


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("op", Op.SUB), ("ne", (1, 2, 3, 4)), ("nb", (4, 4, 4, 4)), ("flags", 4),
        ("op_params", bytes(60) + b"abcd"), ("src", []), ("view_offs", 4),
    ],
)  # fmt: skip
def test_a_difference_in_any_field_is_seen(field: str, value: object) -> None:
    case, t = recorded()[Op.ADD][0]
    made = remake(t)
    assert differences(made, t) == []
    setattr(made, field, value)
    assert [d.split(":")[0] for d in differences(made, t)] == [field], case


def test_a_depthwise_convolution_is_the_recorded_chain() -> None:
    cases = [c for c in op_nodes.read() if c[0].startswith("CONV_1D_DW/")]
    assert cases
    for packed in cases:
        *_, want = tensors = op_nodes.build(packed)
        col = next(t for t in tensors if t.op == Op.IM2COL)
        kernel, x = col.src[0], col.src[1]
        assert kernel is not None and x is not None and x.src[0] is not None
        stride, padding, dilation = (col.param_i32(i) for i in (0, 2, 4))
        ctx = Context(16)
        made = ops.conv_1d_dw(ctx, kernel, x.src[0], stride, padding, dilation)
        chain = [t for t in tensors if t.op != Op.NONE]
        assert [t.op for t in ctx] == [t.op for t in chain]
        assert made.ne == want.ne
        for a, b in zip(ctx, chain, strict=True):
            assert (a.type, a.ne, a.nb, a.op_params) == (b.type, b.ne, b.nb, b.op_params), packed[0]
