"""Whole arrays in and out of ggml's tensor types.

Work goes through in chunks that stay in the processor's second-level cache, so that the passes a
format takes over its codes cost little more than one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wggml.core.types import Type, blck_size, row_size, type_name, type_size
from wggml.errors import ShapeError, UnsupportedOpError, UsageError
from wggml.quants.kquants_search import energy
from wggml.quants.layouts import F32, LAYOUTS, U8, Records
from wggml.quants.plain import READERS, WRITERS
from wggml.quants.registry import FORMATS, IGNORE_WEIGHTS, BlockFormat

Bytes = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

# f32 values a chunk: 256 KiB of output. Measured flat between 16 Ki and 128 Ki values.
CHUNK = 65536


def can_dequantize(type: Type) -> bool:
    """True when `dequantize` reads `type`."""
    return type in READERS or type in FORMATS


def can_quantize(type: Type, *, weighted: bool = False) -> bool:
    """True when `quantize` writes `type`, without or with importance weights."""
    if weighted and type not in IGNORE_WEIGHTS:
        return type in FORMATS and FORMATS[type].weigh is not None
    return type in WRITERS or (type in FORMATS and FORMATS[type].write is not None)


def dequantize(data: Bytes, type: Type, n: int | None = None, out: F32 | None = None) -> F32:
    """The values of whole blocks of `type`, flat, as f32 [n].

    `data` is at least `n` values' worth of bytes; without `n`, all of it. `out`, if given, is a
    C-contiguous f32 array of `n` values of any shape, which is filled and returned. The result
    never shares memory with `data`. I64 and F64 are rounded to f32.

    Raises `ShapeError` for sizes that do not fit, `UnsupportedOpError` for a type that has no
    values (see `can_dequantize`).
    """
    raw = _as_bytes(data)
    n = _value_count(raw.size, type, n)
    if out is None:
        out = np.empty(n, np.float32)
    elif out.dtype != np.float32 or out.size != n or not out.flags.c_contiguous:
        raise ShapeError(
            f"dequantize {type_name(type)}: `out` is {out.dtype} {out.shape}; "
            f"it must be a C-contiguous float32 array of {n} values"
        )
    _read(raw[: row_size(type, n)], type, out.reshape(-1))
    return out


def dequantize_rows(raw: U8, type: Type, out: F32 | None = None) -> F32:
    """Rows of bytes [..., row_bytes] -> f32 [..., ne0]; rows may be strided.

    Errors as for `dequantize`.
    """
    if raw.dtype != np.uint8 or raw.ndim == 0:
        raise ShapeError(f"dequantize_rows: need uint8 rows, got {raw.dtype} {raw.shape}")
    ne0 = _value_count(raw.shape[-1], type, None)
    flat = dequantize(np.ascontiguousarray(raw).reshape(-1), type, out=out)
    return flat.reshape(*raw.shape[:-1], ne0)


def quantize(x: npt.NDArray[np.floating], type: Type, weights: npt.ArrayLike | None = None) -> U8:
    """f32 [..., ne0] -> bytes [..., row_bytes]: what ggml's scalar reference routine stores
    (for IQ1_M, which has none, its only one).

    `ne0` must be whole blocks. `weights` [ne0], or of the shape of x, say how much an error of each
    value matters (an importance matrix: mean squares of the activations a column meets); what ggml
    stores with them. IQ1_S, IQ2_XXS and IQ2_XS need them.

    Block formats hold finite values only (`UsageError` names the first that is not); F16 and BF16
    keep infinities and NaN. `UnsupportedOpError` for a type that is not written here, see
    `can_quantize`; `ShapeError` for sizes that do not fit.
    """
    if x.ndim == 0:
        raise ShapeError("quantize: a scalar has no rows; give an array [..., ne0]")
    if not can_quantize(type, weighted=weights is not None):
        raise _not_writable(type, weights is not None)
    row_bytes = row_size(type, x.shape[-1])
    values = np.ascontiguousarray(x, np.float32)
    shape = (*x.shape[:-1], row_bytes)
    if type in WRITERS:
        return WRITERS[type](values.reshape(-1)).reshape(shape)
    _check_finite(values, type)
    out = np.zeros(values.size // blck_size(type) * type_size(type), np.uint8)
    weigh = None if weights is None else _checked_weights(weights, x.shape)
    if weigh is not None and FORMATS[type].row_energy:
        rows = values.reshape(-1, x.shape[-1])
        sigma2 = energy(rows) / np.float32(x.shape[-1])
        weigh = (weigh.reshape(-1, x.shape[-1]) * np.sqrt(sigma2[:, None] + rows * rows)).astype(
            np.float32
        )
    _write(values.reshape(-1), type, FORMATS[type], out, weigh)
    return out.reshape(shape)


def _not_writable(type: Type, weighted: bool) -> UnsupportedOpError:
    if can_quantize(type, weighted=not weighted):
        other = "give weights [ne0]" if not weighted else "leave the weights out"
        how = "with" if weighted else "without"
        return UnsupportedOpError(
            f"quantize: {type_name(type)} is not written {how} importance weights; {other}"
        )
    return UnsupportedOpError(
        f"quantize: nothing here writes {type_name(type)}; writable types: "
        + ", ".join(type_name(t) for t in Type if can_quantize(t, weighted=weighted))
    )


def _checked_weights(weights: npt.ArrayLike, shape: tuple[int, ...]) -> F32:
    w = np.ascontiguousarray(weights, np.float32)
    if w.shape not in (shape, shape[-1:]):
        raise ShapeError(
            f"quantize: weights have shape {list(w.shape)}; they must have [{shape[-1]}], one for "
            f"each column, or {list(shape)}"
        )
    if not (np.isfinite(w) & (w >= 0)).all():
        raise UsageError("quantize: importance weights must be finite and not negative")
    return w


def _as_bytes(data: Bytes) -> U8:
    if isinstance(data, np.ndarray):
        if data.dtype != np.uint8:
            raise ShapeError(f"dequantize: data is {data.dtype}; view it as uint8 first")
        return np.ascontiguousarray(data).reshape(-1)
    return np.frombuffer(data, np.uint8)


def _value_count(nbytes: int, type: Type, n: int | None) -> int:
    if not can_dequantize(type):
        raise UnsupportedOpError(f"dequantize: nothing here reads {type_name(type)}")
    blocks, rest = divmod(nbytes, type_size(type))
    if n is None:
        if rest:
            raise ShapeError(
                f"dequantize {type_name(type)}: {nbytes} bytes are not whole blocks "
                f"of {type_size(type)} bytes"
            )
        return blocks * blck_size(type)
    if n < 0 or row_size(type, n) > nbytes:
        raise ShapeError(
            f"dequantize {type_name(type)}: {nbytes} bytes hold {blocks * blck_size(type)} "
            f"values, {n} were asked for"
        )
    return n


def _read(raw: U8, type: Type, out: F32) -> None:
    size, block = type_size(type), blck_size(type)
    step = max(1, CHUNK // block)
    plain = READERS.get(type)
    for b in range(0, out.size // block, step):
        part, into = raw[b * size : (b + step) * size], out[b * block : (b + step) * block]
        if plain:
            plain(part, into)
        else:
            FORMATS[type].read(part.view(LAYOUTS[type]), into.reshape(-1, block))


def _write(x: F32, type: Type, fmt: BlockFormat, out: U8, weights: F32 | None) -> None:
    size, block = type_size(type), blck_size(type)
    step = max(1, CHUNK // block)
    by_block = None if weights is None else weights.reshape(-1, block)  # of a row, or of all
    for b in range(0, x.size // block, step):
        records = out[b * size : (b + step) * size].view(LAYOUTS[type])
        part = x[b * block : (b + step) * block].reshape(-1, block)
        # sums and products past f32's range end in a scale that _check_scales refuses
        with np.errstate(all="ignore"):
            if by_block is not None and fmt.weigh is not None:
                fmt.weigh(part, records, by_block[np.arange(b, b + len(part)) % len(by_block)])
            else:
                assert fmt.write is not None
                fmt.write(part, records)
        _check_scales(records, type)


def _check_finite(x: F32, type: Type) -> None:
    finite = np.isfinite(x)
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise UsageError(
            f"quantize: value {x[at]} at {at} cannot be stored as {type_name(type)}, whose blocks "
            "hold finite values only; find where it comes from, or store f16 or f32"
        )


def _check_scales(records: Records, type: Type) -> None:
    layout = LAYOUTS[type]
    for name in ("d", "m", "dmin"):
        is_float = name in (layout.names or ()) and layout[name].kind == "f"
        if is_float and not np.isfinite(records[name]).all():
            raise UsageError(
                f"quantize: values are too large for {type_name(type)}: a block's scale `{name}` "
                "does not fit in 16 bits (65504 at most); scale the tensor down, or store f32"
            )
