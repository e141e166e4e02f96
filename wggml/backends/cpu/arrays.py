"""Tensors as NumPy windows on their buffer's memory, and conversions to and from f32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wggml.backends.cpu.buffer import CpuBuffer
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.errors import UnsupportedOpError

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

FLOATS = frozenset({Type.F32, Type.F16, Type.BF16})

# The ufunc methods, untyped: the stubs admit fewer positional arguments than NumPy does, and
# keywords would double the cost of a call on a short row.
reduce_max: Any = np.maximum.reduce
reduce_sum: Any = np.add.reduce
accumulate_sum: Any = np.add.accumulate
accumulate_product: Any = np.multiply.accumulate

F16_FINITE_BITS = np.int32(-0x70000001)  # sign and the 15 bits below an f32's exponent bias
F16_REBIAS = np.float32(2.0**112)
F16_INF, F16_MINUS_INF = 0x7C00, 0xFC00  # bits of the infinities; NaN of either sign lie above


def home_of(t: Tensor) -> CpuBuffer:
    """The host buffer that holds `t`; `UnsupportedOpError` when it lies elsewhere."""
    buffer = t.placed_in
    if not isinstance(buffer, CpuBuffer):
        where = "nowhere (not allocated)" if buffer is None else f"a {buffer.buft.name} buffer"
        raise UnsupportedOpError(
            f"the CPU backend cannot reach tensor {t.name!r}, which lies in {where}; "
            "run the graph through a scheduler, which copies it"
        )
    return buffer


def place_of(t: Tensor) -> int:
    """Byte offset of `t` in its buffer."""
    if t.data is not None:
        return t.data
    if t.view_src is not None and t.view_src.data is not None:
        return t.view_src.data + t.view_offs
    raise UnsupportedOpError(f"tensor {t.name!r} has no place in a buffer; allocate it first")


def native(t: Tensor) -> Array:
    """Plain types: a window [i3, i2, i1, i0] in the tensor's dtype (bf16 as uint16).

    Block types: uint8 [i3, i2, i1, row bytes]; blocks of a row must follow each other.
    """
    traits = TRAITS[t.type]
    memory, at = home_of(t).memory, place_of(t)
    ne, nb = t.ne, t.nb
    if traits.dtype is not None:
        shape, strides = (ne[3], ne[2], ne[1], ne[0]), (nb[3], nb[2], nb[1], nb[0])
        return np.ndarray(shape, traits.dtype, buffer=memory, offset=at, strides=strides)
    if not t.is_contiguous_rows():
        raise UnsupportedOpError(f"tensor {t.name!r}: the blocks of a row must follow each other")
    row = ne[0] // traits.blck_size * traits.type_size
    shape, strides = (ne[3], ne[2], ne[1], row), (nb[3], nb[2], nb[1], 1)
    return np.ndarray(shape, np.uint8, buffer=memory, offset=at, strides=strides)


def blocks(t: Tensor) -> U8:
    """Any type as bytes: [i3, i2, i1, block, byte of the block], through all strides."""
    traits = TRAITS[t.type]
    memory, at = home_of(t).memory, place_of(t)
    ne, nb = t.ne, t.nb
    shape = (ne[3], ne[2], ne[1], ne[0] // traits.blck_size, traits.type_size)
    strides = (nb[3], nb[2], nb[1], nb[0], 1)
    return np.ndarray(shape, np.uint8, buffer=memory, offset=at, strides=strides)


def overlap(a: Array, b: Array) -> bool:
    """True when the byte ranges of two arrays meet (they may still interleave)."""
    return bool(np.may_share_memory(a, b))


# ---- conversions: each fills `out` and makes nothing of the operand's size ----------------------


def f16_to_f32(src: Array, out: F32) -> None:
    """f16 of any strides -> contiguous f32 of the same shape.

    The bits are shifted into place and the exponent's bias mended by one multiplication, which
    also normalises subnormals exactly: 20 us for 49 k values where a cast takes 93. Infinities and
    NaN, which this would turn into large numbers, are then redone by a cast.
    """
    bits = out.view(np.int32)
    signed = src.view(np.int16)
    np.copyto(bits, signed)
    np.left_shift(bits, 13, bits)
    np.bitwise_and(bits, F16_FINITE_BITS, bits)
    np.multiply(out, F16_REBIAS, out)
    if src.size and (
        reduce_max(signed, None) >= F16_INF
        or reduce_max(src.view(np.uint16), None) >= F16_MINUS_INF
    ):
        np.copyto(out, src)


def bf16_to_f32(src: Array, out: F32) -> None:
    """bf16 bits (uint16, any strides) -> contiguous f32 of the same shape."""
    bits = out.view(np.uint32)
    np.copyto(bits, src)
    np.left_shift(bits, 16, bits)


def f32_to_f16(src: F32, out: Array) -> None:
    """To nearest, halves to even; too large becomes infinite."""
    np.copyto(out, src, casting="same_kind")


def f32_to_bf16(src: F32, out: Array) -> None:
    """To nearest, halves to even; NaN stays NaN."""
    bits = np.ascontiguousarray(src).view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += bits
    rounded += 0x7FFF
    rounded >>= 16
    nan = np.isnan(src)
    if nan.any():
        rounded[nan] = (bits[nan] >> 16) | 64
    np.copyto(out, rounded, casting="unsafe")


def dequantize_into(rows: U8, type_: Type, out: F32) -> None:
    """Block rows [..., row bytes] -> contiguous f32 [..., values]."""
    from wggml.quants import dequantize_rows

    dequantize_rows(rows, type_, out=out)


def read_into(src: Array, type_: Type, out: F32) -> None:
    """A window of any readable type (see `native`) -> contiguous f32 [.., values]."""
    if type_ == Type.F16:
        f16_to_f32(src, out)
    elif type_ == Type.BF16:
        bf16_to_f32(src, out)
    elif TRAITS[type_].dtype is not None:
        np.copyto(out, src, casting="unsafe")
    else:
        dequantize_into(src, type_, out)


def quantize_into(src: F32, type_: Type, out: U8) -> None:
    """f32 [..., values] -> block rows [..., row bytes], as ggml's reference routine rounds."""
    from wggml.quants import quantize

    np.copyto(out, quantize(src, type_))


@cache
def readable(type_: Type) -> bool:
    """True when tensors of this type can be read as f32."""
    from wggml.quants import can_dequantize

    return type_ in FLOATS or (TRAITS[type_].is_quantized and can_dequantize(type_))


@cache
def writable(type_: Type) -> bool:
    """True when f32 results can be stored in this type."""
    from wggml.quants import can_quantize

    return type_ in FLOATS or (TRAITS[type_].is_quantized and can_quantize(type_))


# ---- shapes -------------------------------------------------------------------------------------


def repeat_views(big: Sequence[int], small: Array) -> tuple[tuple[int, ...], Array]:
    """How `small` broadcasts over an array of shape `big` whose sizes are multiples of its own.

    Returns a shape for the big arrays (dimensions split where `small` repeats, so that reshaping
    is a view) and a view of `small` that NumPy broadcasts to it.
    """
    shape: list[int] = []
    part: list[int] = []
    for n, m in zip(big, small.shape, strict=True):
        if m in (1, n):
            shape.append(n)
            part.append(m)
        else:
            shape += [n // m, m]
            part += [1, m]
    return tuple(shape), small.reshape(part)


def squeezed(*arrays: Array) -> list[Array]:
    """The same arrays with fewer dimensions, so that a ufunc's set-up is short: one dimension if
    all are contiguous and of one shape, else without the sizes that are 1 in all of them."""
    first = arrays[0]
    if all(a.shape == first.shape and a.flags.c_contiguous for a in arrays):
        return [a.reshape(-1) for a in arrays]
    ndim = max(a.ndim for a in arrays)
    padded = [a.reshape((1,) * (ndim - a.ndim) + a.shape) for a in arrays]
    drop = tuple(i for i in range(ndim) if all(a.shape[i] == 1 for a in padded))
    return [a.squeeze(drop) for a in padded]
