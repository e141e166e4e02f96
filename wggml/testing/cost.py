"""What a node asks of a device at least: bytes to and from memory, floating-point operations."""

from __future__ import annotations

from collections.abc import Callable

from wggml.core.opcodes import Op
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS

Count = Callable[[Tensor], int]


def _src(t: Tensor, i: int) -> Tensor:
    s = t.src[i]
    assert s is not None
    return s


def _values_bytes(t: Tensor) -> int:
    """Bytes of the values themselves, without the gaps of a view."""
    traits = TRAITS[t.type]
    return t.n_elements // traits.blck_size * traits.type_size


def _rows_read(t: Tensor) -> int:
    a, ids = _src(t, 0), _src(t, 1)
    row = _values_bytes(a) // max(a.n_rows, 1)
    return row * ids.n_elements + _values_bytes(ids) + _values_bytes(t)


def _rows_written(t: Tensor) -> int:
    rows, ids = _src(t, 0), _src(t, 1)
    row = _values_bytes(t) // max(t.n_rows, 1)
    return _values_bytes(rows) + _values_bytes(ids) + row * rows.n_rows


def _experts_read(t: Tensor) -> int:
    """Each expert that can be in use once."""
    a, b, ids = (_src(t, i) for i in range(3))
    used = min(a.ne[2], ids.n_elements)
    return _values_bytes(a) // a.ne[2] * used + sum(map(_values_bytes, (b, ids, t)))


BYTES: dict[Op, Count] = {
    Op.GET_ROWS: _rows_read,
    Op.SET_ROWS: _rows_written,
    Op.MUL_MAT_ID: _experts_read,
    Op.CPY: lambda t: _values_bytes(_src(t, 0)) + _values_bytes(t),
}

# Multiply-adds count as two. Element functions count as one operation an element, sorting and
# copying as none.
FLOPS: dict[Op, Count] = {
    Op.MUL_MAT: lambda t: 2 * t.n_elements * _src(t, 0).ne[0],
    Op.MUL_MAT_ID: lambda t: 2 * t.n_elements * _src(t, 0).ne[0],
    Op.OUT_PROD: lambda t: 2 * t.n_elements * _src(t, 0).ne[1],
    Op.FLASH_ATTN_EXT: lambda t: 2 * t.n_rows * _src(t, 1).ne[1] * (_src(t, 1).ne[0] + t.ne[0]),
    Op.CONV_2D: lambda t: 2 * t.n_elements * _src(t, 0).n_elements // t.ne[2],
    Op.CONV_3D: lambda t: 2 * t.n_elements * _src(t, 0).n_elements // max(t.param_i32(11), 1),
    Op.CONV_2D_DW: lambda t: 2 * t.n_elements * _src(t, 0).ne[0] * _src(t, 0).ne[1],
    Op.SSM_CONV: lambda t: 2 * t.n_elements * _src(t, 1).ne[0],
    Op.SSM_SCAN: lambda t: 5 * _src(t, 1).n_elements * _src(t, 0).ne[0],
    Op.RWKV_WKV6: lambda t: 6 * _src(t, 0).n_elements * _src(t, 0).ne[0],
    Op.RWKV_WKV7: lambda t: 8 * _src(t, 0).n_elements * _src(t, 0).ne[0],
    Op.GATED_LINEAR_ATTN: lambda t: 5 * _src(t, 0).n_elements * _src(t, 0).ne[0],
    **dict.fromkeys((Op.NORM, Op.RMS_NORM, Op.L2_NORM, Op.SOFT_MAX), lambda t: 4 * t.n_elements),
    **dict.fromkeys(
        (Op.SUM, Op.SUM_ROWS, Op.MEAN, Op.CUMSUM), lambda t: _src(t, 0).n_elements
    ),
    **dict.fromkeys(
        (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SCALE, Op.UNARY, Op.SQR), lambda t: t.n_elements
    ),
    Op.GLU: lambda t: 2 * t.n_elements,
    Op.ROPE: lambda t: 3 * t.n_elements,
}  # fmt: skip


def node_bytes(t: Tensor) -> int:
    """Bytes of operands, each once, and of the result."""
    count = BYTES.get(t.op)
    if count is not None:
        return count(t)
    sources = {s for s in t.src if s is not None and s is not t}
    return sum(map(_values_bytes, sources)) + _values_bytes(t)


def node_flops(t: Tensor) -> int:
    """Floating-point operations; 0 where none are meant to count."""
    count = FLOPS.get(t.op)
    return 0 if count is None else count(t)
