"""`Context`: a pool of tensor records of a size fixed when it is made. It never holds data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wggml.core.tensor import MAX_DIMS, Shape4, Tensor, contiguous_nb
from wggml.core.types import Type
from wggml.errors import ContextFullError, ShapeError

DEFAULT_MAX_TENSORS = 2048


class Context:
    """Makes tensors and remembers them in creation order.

    Args:
        max_tensors: how many tensors it can make; one more raises `ContextFullError`.
        name: used in messages.
    """

    __slots__ = ("__weakref__", "max_tensors", "name", "tensors")

    def __init__(self, max_tensors: int = DEFAULT_MAX_TENSORS, *, name: str = "context") -> None:
        self.max_tensors = max_tensors
        self.name = name
        self.tensors: list[Tensor] = []

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def get_tensor(self, name: str) -> Tensor | None:
        """The first tensor of that name, or None."""
        return next((t for t in self.tensors if t.name == name), None)

    def reset(self) -> None:
        """Forget all tensors, so that the pool can be filled anew."""
        self.tensors.clear()

    def _add(self, t: Tensor, what: str) -> Tensor:
        if len(self.tensors) >= self.max_tensors:
            raise ContextFullError(
                f"{self.name} is full: it was made for {self.max_tensors} tensors and {what} asks "
                "for one more; make it with a larger max_tensors"
            )
        self.tensors.append(t)
        return t

    def new_tensor(self, type_: Type, ne: Sequence[int], *, name: str = "") -> Tensor:
        """A contiguous tensor without an operation; `ne` has 1-4 sizes, innermost first."""
        shape = pad_shape(ne)
        t = Tensor(type_, shape, contiguous_nb(type_, shape), ctx=self)
        if name:
            t.set_name(name)
        return self._add(t, f"tensor {name!r}" if name else "a new tensor")

    def new_view(
        self, src: Tensor, type_: Type, ne: Shape4, nb: Shape4 | None = None, offset: int = 0
    ) -> Tensor:
        """A record that looks into `src` (or into the root that `src` itself views) at `offset`
        bytes from the start of `src`. Raises `ShapeError` when it reaches past its root's end."""
        root, offs = src, offset
        if src.view_src is not None:
            root, offs = src.view_src, offset + src.view_offs
        t = Tensor(
            type_, ne, nb or contiguous_nb(type_, ne), view_src=root, view_offs=offs, ctx=self
        )
        if t.nbytes and t.nbytes + offs > root.nbytes:
            raise ShapeError(
                f"a view of {root.name!r} with ne {list(ne)} at byte {offs} ends at byte "
                f"{t.nbytes + offs}, past the {root.nbytes} bytes of its root"
            )
        return self._add(t, f"a view of {src.name!r}")

    def view_tensor(self, src: Tensor) -> Tensor:
        """A view with exactly the layout of `src`, named `<src> (view)`."""
        t = self.new_view(src, src.type, src.ne, src.nb)
        return t.set_name(f"{src.name} (view)")

    def dup_tensor(self, src: Tensor) -> Tensor:
        """A fresh contiguous tensor with the type and shape of `src`."""
        return self.new_tensor(src.type, src.ne)


def pad_shape(ne: Sequence[int]) -> Shape4:
    """`ne` filled up with ones to 4 sizes; `ShapeError` for 0 or more than 4 or negative sizes."""
    if not 1 <= len(ne) <= MAX_DIMS or any(n < 0 for n in ne):
        raise ShapeError(f"a shape needs 1 to 4 sizes that are not negative, got {list(ne)}")
    n = [int(x) for x in ne] + [1] * (MAX_DIMS - len(ne))
    return (n[0], n[1], n[2], n[3])
