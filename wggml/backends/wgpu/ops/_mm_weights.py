"""How a matrix product's first operand is read: from packed regions, blocks, or plain values.

The kernels address weights in units: blocks for block formats, quads (16 bytes) for plain types
whose rows are aligned, else single elements. See shaders/mul_mat/fetch.wgsl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wggml.backends.wgpu import packing, texels, weights
from wggml.backends.wgpu.codebooks import CODEBOOKS, codebook
from wggml.core.tensor import Tensor
from wggml.core.types import TRAITS, Type

if TYPE_CHECKING:
    from wggml.backends.wgpu.buffer import WgpuBuffer
    from wggml.backends.wgpu.builder import Operand, PlanBuilder

PLAIN = frozenset({Type.F32, Type.F16, Type.BF16})
QUAD = 16


@dataclass(frozen=True, slots=True)
class WeightView:
    """Operand 0 of a matrix product as the kernels see it.

    Attributes:
        t: the tensor, [k, rows, n2, n3].
        mode: `packed`, `texel`, `native`, `quad` or `elem`.
        unit: bytes of a unit in the file's layout.
        strides: units from one row, matrix, stack of matrices to the next.
        row_units: units that a row spans.
        first: unit number of `t`'s first row, counted from the packed root (0 for other modes).
    """

    t: Tensor
    mode: str
    unit: int
    strides: tuple[int, int, int]
    row_units: int
    first: int = 0

    @property
    def consts(self) -> dict[str, object]:
        """Template constants."""
        fields = packing.FIELDS.get(self.t.type, ())
        return {
            "w_type": TRAITS[self.t.type].name,
            "w_mode": self.mode,
            "w_fields": tuple(tuple(f) for f in fields),
            "w_block": TRAITS[self.t.type].type_size,
        }

    @property
    def bytes_per_unit(self) -> int:
        """Bytes of one unit in the widest operand; bindings do not limit textures."""
        if self.mode == "packed":
            return max(f.stride for f in packing.FIELDS[self.t.type])
        return 1 if self.mode == "texel" else self.unit

    def units(self, rows: int, n2: int, n3: int) -> int:
        """Units from the first of `rows` rows in `n2` x `n3` matrices to the end of the last."""
        s1, s2, s3 = self.strides
        return (rows - 1) * s1 + (n2 - 1) * s2 + (n3 - 1) * s3 + self.row_units

    def bind(self, b: PlanBuilder, start: int, count: int) -> tuple[list[Operand], dict[str, int]]:
        """Operands that show `count` units from unit `start` of `t` on (and the codebook of types
        that have one), and the parameters that tell where in them the first unit lies."""
        operands, params = self._bind_units(b, start, count)
        if self.t.type in CODEBOOKS:
            elem = CODEBOOKS[self.t.type]
            operands.append(b.constant(codebook(self.t.type), elem, name="w_grid"))
        return operands, params

    def _bind_units(
        self, b: PlanBuilder, start: int, count: int
    ) -> tuple[list[Operand], dict[str, int]]:
        if self.mode == "packed":
            return self._bind_packed(b, self.first + start, count)
        if self.mode == "texel":
            return self._bind_texels(b, self.first + start)
        assert self.t.data is not None
        offset = start * self.unit
        if self.mode == "quad":
            op = b.operand(self.t, "vec4<u32>", name="w", byte_offset=offset, nbytes=count * QUAD)
            return [op], {"w_off": 0, "w_byte": 0}
        rest = (self.t.data + offset) % 4
        op = b.operand(
            self.t, "u32", name="w", byte_offset=offset - rest, nbytes=rest + count * self.unit
        )
        return [op], {"w_off": 0, "w_byte": rest}

    def _bind_packed(
        self, b: PlanBuilder, start: int, count: int
    ) -> tuple[list[Operand], dict[str, int]]:
        root = packing.packed_root(self.t)
        assert root is not None and root.data is not None
        lay = packing.layout(root.type, root.ne)
        rest = start % lay.granule
        begin = start - rest
        operands = []
        for r in lay.regions:
            f = r.field
            offset = root.data + r.offset + begin * f.stride
            elem = "u32" if f.elem in ("half", "byte") else f.elem
            nbytes = -(-(rest + count) * f.stride // 4) * 4
            operands.append(
                b.raw_operand(root.buffer, offset, nbytes, elem, f"w_{f.name}")  # type: ignore[arg-type]
            )
        return operands, {"w_off": rest, "w_byte": 0}

    def _bind_texels(self, b: PlanBuilder, start: int) -> tuple[list[Operand], dict[str, int]]:
        store = texels.texels_of(self.t)
        assert store is not None
        home: WgpuBuffer = self.t.placed_in  # type: ignore[assignment]
        operands = [
            b.texture(view, elem, name=f"w_{name}", buffer=home) for name, elem, view in store.views
        ]
        return operands, {"w_off": start, "w_byte": 0}


def view_weights(b: PlanBuilder, t: Tensor) -> WeightView:
    """Choose how `t` (placed) is read; the same answer for as long as a plan is built."""
    found = b.weight_views.get(t)
    if found is None:
        found = b.weight_views[t] = _view(b, t)
    return found


def _view(b: PlanBuilder, t: Tensor) -> WeightView:
    traits = TRAITS[t.type]
    size = traits.type_size
    if t.type in PLAIN:
        return _view_plain(b, t)
    strides = (t.nb[1] // size, t.nb[2] // size, t.nb[3] // size)
    row_units = t.ne[0] // traits.blck_size
    if weights.is_packed(t):
        mode = "texel" if texels.is_in_texels(t) else "packed"
        return WeightView(t, mode, size, strides, row_units, t.view_offs // size)
    return WeightView(t, "native", size, strides, row_units)


def _view_plain(b: PlanBuilder, t: Tensor) -> WeightView:
    size = TRAITS[t.type].type_size
    if texels.is_in_texels(t) and t.view_offs % QUAD == 0 and not any(nb % QUAD for nb in t.nb[1:]):
        strides = (t.nb[1] // QUAD, t.nb[2] // QUAD, t.nb[3] // QUAD)
        return WeightView(t, "texel", QUAD, strides, t.ne[0] * size // QUAD, t.view_offs // QUAD)
    aligned = all(nb % QUAD == 0 for ne, nb in zip(t.ne[1:], t.nb[1:], strict=True) if ne > 1)
    if aligned and t.ne[0] % 4 == 0 and b.starts_on(t, QUAD):
        row = -(-t.ne[0] * size // QUAD)
        return WeightView(t, "quad", QUAD, (t.nb[1] // QUAD, t.nb[2] // QUAD, t.nb[3] // QUAD), row)
    return WeightView(t, "elem", size, (t.nb[1] // size, t.nb[2] // size, t.nb[3] // size), t.ne[0])
