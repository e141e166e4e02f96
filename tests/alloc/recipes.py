"""Random graphs for allocator tests. A recipe is data: it can be built many times, and changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume
from hypothesis import strategies as st

from wggml.core.context import Context
from wggml.core.graph import Graph
from wggml.core.opcodes import EMPTY_OPS, Flag, Op
from wggml.core.tensor import Shape4, Tensor
from wggml.core.types import Type
from wggml.errors import AllocationError
from wggml.hal.interface import UNLIMITED, BufferType
from wggml.testing.plan_graphs import MockBuffer, MockBufferType

KINDS = (
    "leaf", "input", "param", "leaf_view", "scale", "add", "mul", "mul_mat", "rms_norm", "rope",
    "add_id", "soft_max", "view", "reshape", "cont", "cpy", "add_inplace", "self_add",
)  # fmt: skip
SIZES = (0, 1, 2, 8, 8, 24, 64, 200)


@dataclass(frozen=True)
class Step:
    """One tensor: what it is, which earlier tensors it reads (modulo their number), its size class,
    whether it has two rows, and its flags."""

    kind: str
    a: int
    b: int
    c: int
    size: int
    rows: bool
    flags: int


@dataclass(frozen=True)
class Recipe:
    """Steps, and which tensors are expanded (the last one always is)."""

    steps: tuple[Step, ...]
    heads: tuple[int, ...]

    def build(self, scale: int = 4) -> Graph:
        """A fresh graph; `scale` multiplies every size."""
        ctx = Context(len(self.steps) + 1)
        made: list[Tensor] = [ctx.new_tensor(Type.F32, (8 * scale,), name="t0")]
        for i, s in enumerate(self.steps):
            t = _make(ctx, s, made, scale)
            t.name = f"t{i + 1}"
            made.append(t)
        graph = Graph(len(made))
        for h in (*self.heads, len(made) - 1):
            graph.build_forward_expand(made[h % len(made)])
        return graph


def _make(ctx: Context, s: Step, made: list[Tensor], scale: int) -> Tensor:
    a, b, c = (made[-1 - i % len(made)] for i in (s.a, s.b, s.c))
    size = SIZES[s.size] * scale
    ne: Shape4 = (size // 2, 2, 1, 1) if s.rows and size > 1 else (size, 1, 1, 1)
    flags = s.flags

    def new(op: Op, sources: list[Tensor | None], shape: Shape4) -> Tensor:
        t = ctx.new_tensor(Type.F32, shape)
        t.op, t.src, t.flags = op, sources, flags
        return t

    def view(op: Op, sources: list[Tensor | None], of: Tensor, shape: Shape4, at: int) -> Tensor:
        t = ctx.new_view(of, Type.F32, shape, offset=at)
        t.op, t.src, t.flags = op, sources, flags
        return t

    half: Shape4 = (a.n_elements // 2, 1, 1, 1)
    at = 4 * (a.n_elements - half[0]) * s.rows
    table = {
        "leaf": lambda: new(Op.NONE, [], ne),
        "input": lambda: new(Op.NONE, [], ne).set_input(),
        "param": lambda: new(Op.NONE, [], ne).set_param(),
        "leaf_view": lambda: view(Op.NONE, [], a, half, at),
        "scale": lambda: new(Op.SCALE, [a], a.ne),
        "add": lambda: new(Op.ADD, [a, b], a.ne),
        "mul": lambda: new(Op.MUL, [a, None, b], b.ne),
        "mul_mat": lambda: new(Op.MUL_MAT, [a, b], ne),
        "rms_norm": lambda: new(Op.RMS_NORM, [a], a.ne),
        "rope": lambda: new(Op.ROPE, [a, b, c], a.ne),
        "add_id": lambda: new(Op.ADD_ID, [a, b, c], a.ne),
        "soft_max": lambda: new(Op.SOFT_MAX, [a, b], a.ne),
        "view": lambda: view(Op.VIEW, [a], a, half, at),
        "reshape": lambda: view(Op.RESHAPE, [a], a, (a.n_elements, 1, 1, 1), 0),
        "cont": lambda: new(Op.CONT, [a], a.ne),
        "cpy": lambda: view(Op.CPY, [b, a], a, a.ne, 0),
        "add_inplace": lambda: view(Op.ADD, [a, b], a, a.ne, 0),
        "self_add": lambda: new(Op.ADD, [a, a], a.ne),
    }
    return table[s.kind]()


def is_sound(recipe: Recipe) -> bool:
    """False when a node reads or writes, through a view, a tensor that is only computed after it.
    A leaf view can hide that one depends on the other; no allocator can make that right."""
    graph = recipe.build()
    position = {t: i for i, t in enumerate(graph.nodes)}
    return all(
        position.get(v.view_src, -1) < i
        for t, i in position.items()
        if t.op not in EMPTY_OPS
        for v in (t, *t.src)
        if v is not None and v.view_src is not None
    )


_flags = st.sampled_from([0] * 12 + [int(Flag.OUTPUT)] * 2 + [int(Flag.INPUT)])
_near = st.integers(0, 5) | st.integers(0, 40)
steps = st.builds(
    Step, st.sampled_from(KINDS), _near, _near, _near, st.integers(0, len(SIZES) - 1),
    st.booleans(), _flags,
)  # fmt: skip
recipes = st.builds(
    Recipe,
    st.lists(steps, min_size=1, max_size=40).map(tuple),
    st.lists(st.integers(0, 40), max_size=3).map(tuple),
).filter(is_sound)


@st.composite
def rewired(draw: st.DrawFn) -> tuple[Recipe, Recipe]:
    """A recipe and a variant of equal length in which some steps read other tensors, are other
    ops, have other flags, or are exchanged; sizes stay."""
    recipe = draw(recipes)
    changed = list(recipe.steps)
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(0, len(changed) - 1))
        j = draw(st.integers(0, len(changed) - 1))
        other = draw(steps)
        changed[i] = draw(
            st.sampled_from(
                [
                    replace(changed[i], a=other.a, b=other.b, c=other.c),
                    replace(changed[i], kind=other.kind),
                    replace(changed[i], flags=other.flags, rows=other.rows),
                    changed[j],
                ]
            )
        )
    variant = replace(recipe, steps=tuple(changed))
    assume(is_sound(variant))
    return recipe, variant


def mock_buft(
    name: str = "M", *, align: int = 32, max_size: int = UNLIMITED, fail_above: int | None = None
) -> MockBufferType:
    """Memory without bytes that logs requests."""
    spec = {
        "name": name, "align": align, "max_size": max_size, "host": False, "fail_above": fail_above,
    }  # fmt: skip
    return MockBufferType(spec, 0, [])


class LimitedBufferType(MockBufferType):
    """Gives at most `budget` bytes over all live buffers."""

    def __init__(self, budget: int) -> None:
        super().__init__({"name": "L", "align": 32, "max_size": None, "host": False}, 0, [])
        self.budget = budget

    def alloc_buffer(self, size: int) -> MockBuffer:
        used = sum(n if what == "a" else -n for what, _, n in self.log)
        if used + size > self.budget:
            raise AllocationError(f"only {self.budget - used} bytes are left")
        return super().alloc_buffer(size)


bufts: st.SearchStrategy[list[BufferType]] = st.lists(
    st.builds(
        lambda align, max_size: mock_buft(align=align, max_size=max_size),
        st.sampled_from([8, 32, 256]),
        st.sampled_from([512, 4096, UNLIMITED]),
    ),
    min_size=1,
    max_size=2,
).flatmap(lambda b: st.sampled_from([b, [*b, b[0]]]))
