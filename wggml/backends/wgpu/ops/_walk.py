"""Index arithmetic for kernels that visit every element of a result.

`Walk` merges dimensions that all operands step through alike, so that contiguous tensors become one
row, and writes WGSL index expressions: a template finds `at_<name>` among its constants and the
strides among its parameters (`P.<name>_s<dim>`), see shaders/include/walk.wgsl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wggml.backends.wgpu.builder import MAX_GROUPS_PER_DIM
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import TRAITS


@dataclass(slots=True)
class Dim:
    """One loop: `n` steps; per operand a stride in elements and, where the operand is shorter and
    truly repeats, its own size (else 0)."""

    n: int
    stride: dict[str, int]
    period: dict[str, int]


@dataclass(slots=True)
class Walk:
    """Loops over `dims` (innermost first) for named operands; build it with `walk`."""

    dims: list[Dim]
    names: tuple[str, ...]
    unit: int = 1  # elements of the innermost dimension handled as one
    consts: dict[str, object] = field(default_factory=dict)
    params: dict[str, int | float] = field(default_factory=dict)

    @property
    def n_units(self) -> int:
        n = -(-self.dims[0].n // self.unit)
        for d in self.dims[1:]:
            n *= d.n
        return n

    def is_dense(self, name: str, unit: int) -> bool:
        """True when `unit` neighbours along the innermost dimension follow each other in memory
        and every row starts on a multiple of `unit` elements."""
        inner, *outer = self.dims
        if inner.n % unit or inner.stride[name] != 1 or inner.period[name] % unit:
            return False
        return all(d.stride[name] % unit == 0 for d in outer)

    def is_single(self, name: str) -> bool:
        """True when the operand has one value per row (innermost stride 0)."""
        return self.dims[0].stride[name] == 0


def strides_of(t: Tensor) -> Shape4:
    """Strides in elements. Only for types of one element a block."""
    size = TRAITS[t.type].type_size
    nb = t.nb
    return (nb[0] // size, nb[1] // size, nb[2] // size, nb[3] // size)


def walk(ne: Shape4, operands: Mapping[str, tuple[Sequence[int], Sequence[int]]]) -> Walk:
    """Loops over `ne` for operands given as (sizes, strides in elements); an operand whose size is
    smaller than `ne` repeats along that dimension."""
    dims: list[Dim] = []
    for i in range(4):
        if ne[i] == 1:
            continue
        d = Dim(ne[i], {}, {})
        for name, (own, strides) in operands.items():
            d.stride[name] = 0 if own[i] == 1 else strides[i]
            d.period[name] = 0 if own[i] in (1, ne[i]) else own[i]
        if dims and _mergeable(dims[-1], d):
            dims[-1].n *= d.n
        else:
            dims.append(d)
    if not dims:
        dims.append(Dim(1, dict.fromkeys(operands, 1), dict.fromkeys(operands, 0)))
    return Walk(dims, tuple(operands))


def _mergeable(a: Dim, b: Dim) -> bool:
    return all(
        b.stride[k] == a.stride[k] * a.n and not a.period[k] and not b.period[k] for k in a.stride
    )


def tensor_walk(ne: Shape4, operands: Mapping[str, Tensor]) -> Walk:
    """`walk` over the elements of tensors."""
    return walk(ne, {name: (t.ne, strides_of(t)) for name, t in operands.items()})


def finish(w: Walk, unit: int, workgroup: int) -> int | tuple[int, int, int]:
    """Fix the unit, fill `consts` and `params`, return the grid.

    Units of several dimensions go on a 3-D grid, which saves the divisions, unless a dimension is
    too long for it or rows are so short that most of a workgroup would idle.
    """
    w.unit = unit
    dims = w.dims
    n0 = -(-dims[0].n // unit)
    outer = 1
    for d in dims[2:]:
        outer *= d.n
    chunks = -(-n0 // workgroup)
    fits = max(chunks, outer, dims[1].n if len(dims) > 1 else 1) <= MAX_GROUPS_PER_DIM
    flat = len(dims) == 1 or not fits or n0 * 2 < workgroup
    w.consts.update(n_dims=len(dims), flat=flat, wg=workgroup, unit=unit)
    w.params["n0"] = n0
    for i, d in enumerate(dims[1:], 1):
        w.params[f"n{i}"] = d.n
    if flat:
        w.params["n_units"] = w.n_units
    for name in w.names:
        w.consts[f"at_{name}"] = _expression(w, name)
    if flat:
        return -(-w.n_units // workgroup)
    return (chunks, dims[1].n, outer)


def _expression(w: Walk, name: str) -> str:
    """WGSL of the element index, without the operand's offset, from i0 .. i3."""
    terms = []
    for i, d in enumerate(w.dims):
        stride = d.stride[name]
        if stride == 0:
            continue
        index = f"i{i}"
        if d.period[name]:
            w.params[f"{name}_n{i}"] = d.period[name]
            index = f"(i{i} % P.{name}_n{i})"
        if stride != 1:
            w.params[f"{name}_s{i}"] = stride
            index = f"{index} * P.{name}_s{i}"
        terms.append(index)
    return " + ".join(terms) or "0u"
