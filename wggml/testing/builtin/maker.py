"""`Maker`: tensors with contents, for cases of the built-in table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wggml.core import ops
from wggml.core.arrays import to_bytes
from wggml.core.context import Context
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type
from wggml.quants.layouts import LAYOUTS
from wggml.testing.opdata import Bytes

Values = npt.NDArray[np.generic]
Shape = Sequence[int]
MAX_TENSORS = 256


class Maker:
    """Makes the tensors of one case in a context of its own, and remembers what they hold.

    Contents come from a generator with the seed given, so a case is the same on every run.
    """

    def __init__(self, seed: int) -> None:
        self.ctx = Context(MAX_TENSORS, name="built-in case")
        self.rng = np.random.default_rng(seed)
        self.contents: dict[Tensor, Bytes] = {}
        self.compared: list[Tensor] = []

    def array(self, values: npt.ArrayLike, type_: Type = Type.F32) -> Tensor:
        """A leaf with these values; `ne` is the shape reversed."""
        a = np.asarray(values)
        t = self.ctx.new_tensor(type_, a.shape[::-1] or (1,))
        self.contents[t] = to_bytes(a, t)
        return t.set_name(f"leaf {len(self.contents) - 1}")

    def leaf(self, ne: Shape, type_: Type = Type.F32, lo: float = -1.0, hi: float = 1.0) -> Tensor:
        """A leaf of any type: block formats with random codes and small scales, others with
        values spread over [lo, hi]."""
        traits = TRAITS[type_]
        if traits.is_quantized:
            t = self.ctx.new_tensor(type_, ne, name=f"leaf {len(self.contents)}")
            self.contents[t] = random_blocks(self.rng, type_, t.nbytes // traits.type_size)
            return t
        shape = tuple(ne)[::-1]
        if traits.dtype is not None and traits.dtype.kind == "i":
            return self.array(self.rng.integers(int(lo), int(hi) + 1, shape), type_)
        return self.array(self.rng.uniform(lo, hi, shape).astype(np.float32), type_)

    def ints(self, ne: Shape, hi: int, type_: Type = Type.I32) -> Tensor:
        """Indices from 0 to `hi` - 1."""
        return self.array(self.rng.integers(0, hi, tuple(ne)[::-1]), type_)

    def distinct(self, ne: Shape, hi: int, type_: Type = Type.I32) -> Tensor:
        """Indices below `hi`, of which no row has one twice."""
        rows = int(np.prod(ne[1:], dtype=np.int64))
        picks = [self.rng.permutation(hi)[: ne[0]] for _ in range(rows)]
        return self.array(np.array(picks).reshape(tuple(ne)[::-1]), type_)

    def levels(self, ne: Shape, lo: float = -1.0, hi: float = 1.0) -> Tensor:
        """F32 values that are all different, further apart than rounding moves them."""
        n = int(np.prod(ne, dtype=np.int64))
        grid = self.rng.permutation(np.linspace(lo, hi, n)).astype(np.float32)
        return self.array(grid.reshape(tuple(ne)[::-1]))

    def permuted(
        self, ne: Shape, axes: Sequence[int], type_: Type = Type.F32, **how: float
    ) -> Tensor:
        """A tensor of shape `ne` that is `ops.permute(leaf, *axes)`."""
        shape = (*ne, 1, 1, 1)[:4]
        return ops.permute(self.ctx, self.leaf([shape[i] for i in axes], type_, **how), *axes)

    def strided(self, ne: Shape, type_: Type = Type.F32, **how: float) -> Tensor:
        """A tensor of shape `ne` whose rows, matrices and volumes have gaps between them: a window
        of a larger leaf that starts past its first block."""
        ne0, ne1, ne2, ne3 = (*ne, 1, 1, 1)[:4]
        block = TRAITS[type_].blck_size
        big = self.leaf((ne0 + 2 * block, ne1 + 1, ne2 + 1, ne3), type_, **how)
        offset = big.nb[0] + big.nb[1]
        return ops.view(self.ctx, big, (ne0, ne1, ne2, ne3), big.nb[1:], offset)

    def padded(self, ne: Shape, type_: Type = Type.F32, **how: float) -> Tensor:
        """A tensor of shape `ne` with a gap behind each row, and nowhere else."""
        ne0, *rest = (*ne, 1, 1, 1)[:4]
        big = self.leaf((ne0 + TRAITS[type_].blck_size, *rest), type_, **how)
        return ops.view(self.ctx, big, (ne0, *rest), big.nb[1:])

    def laid(self, layout: str, ne: Shape, type_: Type = Type.F32, **how: float) -> Tensor:
        """A tensor of shape `ne` in a named layout.

        `dense`; `strided`; `padded`; `transposed` (dimensions 0 and 1 exchanged in memory); `permuted` (1
        and 2 exchanged); or a permutation such as `2013`.
        """
        if layout == "dense":
            return self.leaf(ne, type_, **how)
        if layout == "strided":
            return self.strided(ne, type_, **how)
        if layout == "padded":
            return self.padded(ne, type_, **how)
        axes = {"transposed": "1023", "permuted": "0213"}.get(layout, layout)
        return self.permuted(ne, [int(c) for c in axes], type_, **how)

    def compare(self, t: Tensor) -> Tensor:
        """Compare `t` too, besides the results of the nodes; returns it."""
        self.compared.append(t)
        return t


def random_blocks(rng: np.random.Generator, type_: Type, n: int) -> Bytes:
    """`n` blocks of random codes, so that every code of the format occurs, with small scales."""
    blocks = rng.integers(0, 256, (n, TRAITS[type_].type_size), np.uint8)
    records = blocks.reshape(-1).view(LAYOUTS[type_])
    scale = rng.uniform(0.005, 0.02, n).astype(np.float16)
    if type_ == Type.IQ1_M:  # its f16 is spread over the high nibbles of four uint16
        parts = records["scales"].copy().view(np.uint16).reshape(n, 4) & 0x0FFF
        bits = scale.view(np.uint16)[:, None] >> np.arange(0, 16, 4, dtype=np.uint16) & 0xF
        records["scales"] = (parts | bits << 12).astype(np.uint16).view("V8").reshape(n)
    elif type_ == Type.MXFP4:  # a power of two, 2^(e - 127)
        records["e"] = rng.integers(118, 126, n)
    elif type_ == Type.NVFP4:  # four unsigned bytes of 4 bits exponent, 3 bits mantissa
        records["d"] = rng.integers(0x08, 0x30, (n, 4), np.uint8).view("V4").reshape(n)
    else:
        records["d"] = scale
    for name in {"m", "dmin"} & set(records.dtype.names or ()):
        records[name] = rng.uniform(-0.02, 0.02, n).astype(np.float16)
    return blocks.reshape(-1)
