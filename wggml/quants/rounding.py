"""Rounding and scalar conversions that agree with C to the last bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wggml.quants.layouts import F32


def roundf(x: F32) -> F32:
    """C's `roundf`: to nearest, halves away from zero (NumPy rounds halves to even)."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(np.float32)


def nearest(x: F32) -> F32:
    """To nearest, halves to even: what adding and removing 1.5 * 2**23 does in f32."""
    return np.rint(x)


def reciprocal(d: F32) -> F32:
    """`1/d`, and 0 where `d` is 0 or so small (below 2.9e-39, 0 as f16) that `1/d` overflows."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse: F32 = np.float32(1) / d
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def to_f16(x: F32) -> npt.NDArray[np.float16]:
    """To nearest f16, halves to even; too large becomes infinite, as in C."""
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(np.float16)


def f16_to_f32(bits: npt.NDArray[np.uint16], out: F32) -> None:
    """f16 bit patterns -> f32, same shape. Infinities and NaN keep their meaning.

    Three times as fast as `astype`: shift exponent and mantissa into place, then multiply by
    2**112 to mend the exponent's bias (which also normalises subnormals, exactly).
    """
    wide = bits.view(np.int16).astype(np.int32)
    wide <<= 13
    wide &= np.int32(-0x70000001)  # sign and the 15 bits below the bias; no sign extension
    np.multiply(wide.view(np.float32), np.float32(2.0**112), out=out)
    special = (bits & 0x7C00) == 0x7C00
    if special.any():
        out[special] = bits[special].view(np.float16).astype(np.float32)


def f32_to_bf16(x: F32) -> npt.NDArray[np.uint16]:
    """To nearest bf16, halves to even; NaN stays NaN (made quiet)."""
    bits = x.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    nan = np.isnan(x)
    if nan.any():
        rounded[nan] = ((bits[nan] >> 16) | 64).astype(np.uint16)
    return rounded


def signed_max(x: F32) -> F32:
    """[B, n] -> [B, 1]: of each row the first value with the largest magnitude, with its sign;
    a row of zeros of either sign gives +0."""
    at = np.argmax(np.abs(x), axis=1)
    return np.take_along_axis(x, at[:, None], axis=1) + np.float32(0)
