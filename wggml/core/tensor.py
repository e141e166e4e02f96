"""`Tensor`: the record of an instruction. It holds no data; an allocator gives it a place."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from wggml.core.opcodes import Flag, GluOp, Op, UnaryOp
from wggml.core.types import TRAITS, Type
from wggml.errors import AllocationError, ShapeError

if TYPE_CHECKING:
    from wggml.core.context import Context
    from wggml.hal.interface import Buffer

MAX_DIMS = 4
MAX_SRC = 10
MAX_NAME = 63  # characters; longer names are cut, as ggml does
NO_PARAMS = bytes(64)

Shape4 = tuple[int, int, int, int]


class Tensor:
    """One node or leaf of a graph; identity is its key (no `==` by value).

    Attributes:
        type: element type.
        ne: elements per dimension, innermost first, always 4 entries.
        nb: byte strides; `nb[0]` is the size of one block.
        op, op_params: the instruction and its 64 bytes of parameters (16 little-endian int32;
            floats bit-cast).
        flags: `Flag` bits.
        src: operands in order; None marks an absent optional one. At most 10.
        view_src, view_offs: the root tensor this one looks into and the byte offset there; a view
            of a view is stored as a view of its root.
        buffer: the backend buffer it was placed in. A view may leave this None: use `placed_in`.
        data: byte offset within that buffer, None while unplaced.
        name: at most 63 characters.
        extra: free for the backend that owns `buffer`.
        ctx: the context it was made in.
    """

    __slots__ = (
        "__weakref__", "buffer", "ctx", "data", "extra", "flags", "name", "nb", "ne", "op",
        "op_params", "src", "type", "view_offs", "view_src",
    )  # fmt: skip

    def __init__(
        self,
        type_: Type,
        ne: Shape4,
        nb: Shape4,
        *,
        view_src: Tensor | None = None,
        view_offs: int = 0,
        ctx: Context | None = None,
    ) -> None:
        self.type = type_
        self.ne = ne
        self.nb = nb
        self.op = Op.NONE
        self.op_params = NO_PARAMS
        self.flags = 0
        self.src: list[Tensor | None] = []
        self.view_src = view_src
        self.view_offs = view_offs
        self.buffer: Buffer | None = None
        self.data: int | None = None
        self.name = ""
        self.extra: Any = None
        self.ctx = ctx
        if view_src is not None and view_src.data is not None:
            self.data = view_src.data + view_offs

    # ---- sizes ------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last one (0 if any dimension is 0)."""
        ne, nb = self.ne, self.nb
        if min(ne) <= 0:
            return 0
        blck = TRAITS[self.type].blck_size
        head = TRAITS[self.type].type_size if blck == 1 else ne[0] * nb[0] // blck
        first = (ne[0] - 1) * nb[0] if blck == 1 else 0
        return head + first + (ne[1] - 1) * nb[1] + (ne[2] - 1) * nb[2] + (ne[3] - 1) * nb[3]

    @property
    def n_elements(self) -> int:
        """Product of `ne`."""
        ne = self.ne
        return ne[0] * ne[1] * ne[2] * ne[3]

    @property
    def n_rows(self) -> int:
        """Rows of `ne[0]` elements."""
        ne = self.ne
        return ne[1] * ne[2] * ne[3]

    @property
    def n_dims(self) -> int:
        """Dimensions without trailing ones, at least 1."""
        for i in (3, 2, 1):
            if self.ne[i] > 1:
                return i + 1
        return 1

    # ---- layout -----------------------------------------------------------------------------

    def is_contiguous(self, from_dim: int = 0) -> bool:
        """True when dimensions above `from_dim` follow each other without gaps or permutation.

        `from_dim=0` asks for the whole tensor, 1 and 2 allow a gap after dimension 0 or 1.
        """
        traits = TRAITS[self.type]
        next_nb = traits.type_size
        ne, nb = self.ne, self.nb
        if ne[0] != traits.blck_size and nb[0] != next_nb:
            return False
        next_nb *= ne[0] // traits.blck_size
        for i in (1, 2, 3):
            if i > from_dim:
                if ne[i] != 1 and nb[i] != next_nb:
                    return False
                next_nb *= ne[i]
            else:
                next_nb = ne[i] * nb[i]
        return True

    def is_contiguous_rows(self) -> bool:
        """True when the elements of each row follow each other."""
        traits = TRAITS[self.type]
        return self.ne[0] == traits.blck_size or self.nb[0] == traits.type_size

    def is_transposed(self) -> bool:
        return self.nb[0] > self.nb[1]

    def is_permuted(self) -> bool:
        nb = self.nb
        return nb[0] > nb[1] or nb[1] > nb[2] or nb[2] > nb[3]

    def is_empty(self) -> bool:
        return 0 in self.ne

    def same_layout(self, other: Tensor) -> bool:
        """Same type, `ne` and `nb`."""
        return self.type == other.type and self.ne == other.ne and self.nb == other.nb

    def same_shape(self, other: Tensor) -> bool:
        return self.ne == other.ne

    def can_repeat_to(self, other: Tensor) -> bool:
        """True when every dimension of `other` is a multiple of this one's (broadcasting)."""
        if 0 in self.ne:
            return 0 in other.ne
        return all(b % a == 0 for a, b in zip(self.ne, other.ne, strict=True))

    # ---- parameters -------------------------------------------------------------------------

    def param_i32(self, i: int) -> int:
        """`op_params[i]` as int32."""
        return int(struct.unpack_from("<i", self.op_params, 4 * i)[0])

    def param_f32(self, i: int) -> float:
        """`op_params[i]` as float32."""
        return float(struct.unpack_from("<f", self.op_params, 4 * i)[0])

    @property
    def unary_op(self) -> UnaryOp:
        return UnaryOp(self.param_i32(0))

    @property
    def glu_op(self) -> GluOp:
        return GluOp(self.param_i32(0))

    # ---- names and flags --------------------------------------------------------------------

    def set_name(self, name: str) -> Tensor:
        """Give the tensor a name (cut at 63 characters) and return it."""
        self.name = name[:MAX_NAME]
        return self

    def set_input(self) -> Tensor:
        """Mark as written by the user before each run; returns the tensor."""
        self.flags |= int(Flag.INPUT)
        return self

    def set_output(self) -> Tensor:
        """Mark as read by the user after a run: its memory is never reused; returns the tensor."""
        self.flags |= int(Flag.OUTPUT)
        return self

    def set_param(self) -> Tensor:
        """Mark as a trainable weight; returns the tensor."""
        self.flags |= int(Flag.PARAM)
        return self

    def set_loss(self) -> Tensor:
        """Mark as the loss of a backward graph; must be one F32 value. Returns the tensor."""
        if self.n_elements != 1 or self.type != Type.F32:
            raise ShapeError(
                f"the loss {self.name!r} has type {self.type.name} and ne {list(self.ne)}; it must "
                "be one F32 value, so reduce it first, by ops.sum or cross_entropy_loss for example"
            )
        self.flags |= int(Flag.LOSS)
        return self

    # ---- placement and data -----------------------------------------------------------------

    @property
    def placed_in(self) -> Buffer | None:
        """The buffer that holds its bytes: its own, or that of the root it views."""
        if self.view_src is not None and self.view_src.buffer is not None:
            return self.view_src.buffer
        return self.buffer

    def _buffer_or_raise(self, what: str) -> Buffer:
        buffer = self.placed_in
        if buffer is None or self.data is None:
            raise AllocationError(
                f"cannot {what} tensor {self.name!r} (op {self.op.name}, ne {list(self.ne)}): it "
                "has no memory yet; allocate its context or its graph first"
            )
        return buffer

    def set(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Write `array` (C order, shape `ne` reversed with leading ones optional).

        Floating arrays are converted to the tensor's type, quantised types included. Raises
        `ShapeError` when the element count differs, `AllocationError` when the tensor is unplaced.
        """
        from wggml.core.arrays import to_bytes

        buffer = self._buffer_or_raise("write")
        if not self.is_contiguous():
            raise ShapeError(
                f"tensor {self.name!r} with strides {self.nb} is not contiguous; write its root"
            )
        buffer.set_tensor(self, to_bytes(array, self))
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the values, shape `ne` reversed without leading ones; bf16, f16 and quantised
        types come as float32, others as stored."""
        from wggml.core.arrays import to_array

        buffer = self._buffer_or_raise("read")
        return to_array(buffer.get_tensor(self), self)

    # ---- operators: sugar over the op constructors --------------------------------------------

    def __matmul__(self, other: Tensor) -> Tensor:
        from wggml.core import sugar

        return sugar.matmul(self, other)

    def __add__(self, other: Tensor | float) -> Tensor:
        from wggml.core import sugar

        return sugar.add(self, other)

    def __sub__(self, other: Tensor | float) -> Tensor:
        from wggml.core import sugar

        return sugar.sub(self, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        from wggml.core import sugar

        return sugar.mul(self, other)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        from wggml.core import sugar

        return sugar.div(self, other)

    def __neg__(self) -> Tensor:
        from wggml.core import sugar

        return sugar.neg(self)

    def sum(self) -> Tensor:
        """The sum of all elements, ne [1]."""
        from wggml.core import sugar

        return sugar.total(self)

    def __radd__(self, other: float) -> Tensor:
        return self + other

    def __rmul__(self, other: float) -> Tensor:
        return self * other

    def __rsub__(self, other: float) -> Tensor:
        return (-self) + other

    @property
    def T(self) -> Tensor:
        from wggml.core import sugar

        return sugar.transposed(self)

    def __repr__(self) -> str:
        op = f" {self.op.name}" if self.op != Op.NONE else ""
        return f"<Tensor {self.name!r}{op} {TRAITS[self.type].name} ne={list(self.ne)}>"


def contiguous_nb(type_: Type, ne: Shape4) -> Shape4:
    """Byte strides of a contiguous tensor; `ne[0]` must be whole blocks (`ShapeError`)."""
    traits = TRAITS[type_]
    blocks, rest = divmod(ne[0], traits.blck_size)
    if rest:
        raise ShapeError(
            f"a {traits.name} row needs a multiple of {traits.blck_size} values, got {ne[0]} "
            f"(ne {list(ne)})"
        )
    nb1 = traits.type_size * blocks
    nb2 = nb1 * ne[1]
    return (traits.type_size, nb1, nb2, nb2 * ne[2])
