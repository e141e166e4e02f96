"""Ops of one's own: WGSL for GPUs, NumPy for the CPU and as the reference of tests.

`register_op` returns a constructor that is used like those of `wggml.ops`; its nodes go through
planning, scheduling and both backends as any other. docs/custom-ops.md explains the WGSL side.
"""

from __future__ import annotations

import inspect
import keyword
import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

import numpy.typing as npt

from wggml.core.context import Context
from wggml.core.opcodes import Op
from wggml.core.ops._make import make, require_type
from wggml.core.tensor import Tensor
from wggml.core.types import Type
from wggml.errors import ShapeError, UsageError

Shape = tuple[int, ...]
Number = int | float
Reference = Callable[..., npt.NDArray[Any]]
# Sizes of every operand and parameters; what the tests of an op run.
Example = tuple[Sequence[Shape], Mapping[str, Number]]

ENV_MODULES = "WGGML_OP_MODULES"
TYPES = (Type.F32, Type.F16, Type.I32)
MAX_PARAMS = 15  # of the 16 words of op_params one tells which op it is
MAX_OPERANDS = 6  # and the result: every adapter binds at least 8 buffers
_RESERVED = re.compile(r"n|off_.*|src\d.*|dst_.*")
# one, odd, around a workgroup, several rows, many rows
_SHAPES: tuple[Shape, ...] = ((1,), (3,), (63, 2), (65, 1, 3), (257, 3), (7, 5, 3, 2), (2, 1, 400))


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOp:
    """A registered op. Calling it makes a node: `op(ctx, a, b, gain=2.0)`.

    Attributes are those of `register_op`; `number` stands for the op in `op_params`.
    """

    name: str
    wgsl: Path | str
    reference: Reference
    types: tuple[Type, ...]
    result: Type
    shape: Callable[..., Shape]
    params: Mapping[str, Number]
    workgroup_size: int
    workgroups: Callable[..., int | tuple[int, int, int]]
    strided: bool
    examples: tuple[Example, ...]
    values: tuple[float, float]
    max_err: float
    number: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", zlib.crc32(self.name.encode()) & 0x7FFFFFFF)

    def __call__(self, ctx: Context, *srcs: Tensor, **params: Number) -> Tensor:
        """The node. Raises `ShapeError` for operands of another number, type or shape, `UsageError`
        for a parameter that the op does not have."""
        if len(srcs) != len(self.types):
            raise ShapeError(f"{self.name} takes {len(self.types)} operands; got {len(srcs)}")
        for i, (src, type_) in enumerate(zip(srcs, self.types, strict=True)):
            require_type(Op.CUSTOM, (type_,), **{f"src{i} of {self.name}": src})
        unknown = params.keys() - self.params.keys()
        if unknown:
            raise UsageError(
                f"{self.name} has no parameter {sorted(unknown)}; it has {list(self.params)}"
            )
        values = {**self.params, **params}
        ne = self._shape_of(srcs, values)
        return make(ctx, Op.CUSTOM, list(srcs), self.result, ne, self._pack(values))

    def _shape_of(self, srcs: Sequence[Tensor], params: Mapping[str, Number]) -> Any:
        found = tuple(self.shape(*(s.ne for s in srcs), **params))
        if not 1 <= len(found) <= 4 or not all(isinstance(n, int) and n >= 0 for n in found):
            raise ShapeError(f"{self.name}: its shape rule gave {found}, not 1 to 4 whole sizes")
        return (*found, 1, 1, 1)[:4]

    def _pack(self, params: Mapping[str, Number]) -> bytes:
        kinds = ["f" if isinstance(default, float) else "i" for default in self.params.values()]
        try:
            words = struct.pack(f"<i{''.join(kinds)}", self.number, *params.values())
        except (struct.error, OverflowError) as e:
            raise ShapeError(f"{self.name}: parameters {dict(params)} do not fit: {e}") from e
        return words.ljust(64, b"\0")

    def params_of(self, node: Tensor) -> dict[str, Number]:
        """The parameters that a node of this op was made with."""
        return {
            name: node.param_f32(i) if isinstance(default, float) else node.param_i32(i)
            for i, (name, default) in enumerate(self.params.items(), 1)
        }

    @property
    def version(self) -> int:
        """Changes with the WGSL (for a file: with its time)."""
        if isinstance(self.wgsl, Path):
            return self.wgsl.stat().st_mtime_ns if self.wgsl.exists() else 0
        return zlib.crc32(self.wgsl.encode())

    @property
    def template(self) -> str:
        """Name of the WGSL template."""
        return self.wgsl.name if isinstance(self.wgsl, Path) else f"custom/{self.name}.wgsl"


_registered: dict[int, CustomOp] = {}


def register_op(
    name: str,
    *,
    wgsl: Path | str,
    reference: Reference,
    operands: int | Sequence[Type] = 1,
    result: Type = Type.F32,
    shape: Callable[..., Shape] | None = None,
    params: Mapping[str, Number] | None = None,
    workgroup_size: int = 64,
    workgroups: Callable[..., int | tuple[int, int, int]] | None = None,
    strided: bool = False,
    examples: Sequence[Example] | None = None,
    values: tuple[float, float] = (-1.0, 1.0),
    max_err: float = 1e-7,
) -> CustomOp:
    """Make `name` an op that graphs may contain. Registering a name again replaces it.

    Args:
        name: capitals, digits and underscores; unknown to ggml.
        wgsl: a file (`pathlib.Path`) or the text itself; docs/custom-ops.md says what it sees.
        reference: `reference(*arrays, **params)` returns the result as an array. Arrays have the
            shapes of `Tensor.numpy()`: innermost dimension last; F16 operands come as float32.
        operands: the types of the operands, or how many of type F32; types are F32, F16, I32.
        result: the type of the result.
        shape: `shape(*ne, **params)` gives the result's sizes, innermost first, from those of the
            operands (4 each); by default those of the first operand.
        params: names and default values of at most 15 parameters; an int stays an int.
        workgroup_size: what the WGSL says in `@workgroup_size`; `workgroup_size` in templates.
        workgroups: `workgroups(dst, *srcs, **params)`, of tensors: their number, or x, y, z; by
            default one invocation for each element of the result.
        strided: the WGSL obeys strides; else operands that are not contiguous run on the CPU.
        examples: operand shapes and parameters for tests; by default usual and odd shapes, the same
            for every operand.
        values: range of the operands' values in tests.
        max_err: normalised mean squared error that tests allow.

    Raises `UsageError` for a bad name, type, parameter, or a WGSL file that is not there.
    """
    types = (Type.F32,) * operands if isinstance(operands, int) else tuple(operands)
    defaults = dict(params or {})
    op = CustomOp(
        name=name, wgsl=wgsl.resolve() if isinstance(wgsl, Path) else wgsl, reference=reference,
        types=types, result=result, shape=shape or _as_first, params=defaults,
        workgroup_size=workgroup_size, workgroups=workgroups or _one_each(workgroup_size),
        strided=strided, values=values, max_err=max_err,
        examples=tuple(examples or [([s] * len(types), {}) for s in _SHAPES]),
    )  # fmt: skip
    _check(op)
    _registered[op.number] = op
    return op


def _as_first(*ne: Shape, **_params: Number) -> Shape:
    return ne[0]


def _one_each(size: int) -> Callable[..., int]:
    return lambda dst, *_srcs, **_params: -(-dst.n_elements // size)


def _check(op: CustomOp) -> None:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", op.name) or op.name in Op.__members__:
        raise UsageError(
            f"{op.name!r} cannot name an op: write capitals, digits and underscores, and no op of "
            "ggml's"
        )
    known = _registered.get(op.number)
    if known is not None and known.name != op.name:
        raise UsageError(f"the names {op.name} and {known.name} collide; choose another")
    if not 1 <= len(op.types) <= MAX_OPERANDS:
        raise UsageError(f"{op.name}: 1 to {MAX_OPERANDS} operands, not {len(op.types)}")
    for type_ in (*op.types, op.result):
        if type_ not in TYPES:
            raise UsageError(f"{op.name}: type {type_.name} is none of F32, F16, I32")
    for param in op.params:
        if not param.isidentifier() or keyword.iskeyword(param) or _RESERVED.fullmatch(param):
            raise UsageError(f"{op.name}: {param!r} cannot name a parameter of a shader")
    if len(op.params) > MAX_PARAMS:
        raise UsageError(f"{op.name}: at most {MAX_PARAMS} parameters, not {len(op.params)}")
    if isinstance(op.wgsl, Path):
        _check_file(op, op.wgsl)


def _check_file(op: CustomOp, path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"{op.name}: there is no file {path}")
    for other in _registered.values():
        if isinstance(other.wgsl, Path) and other.wgsl != path and other.wgsl.name == path.name:
            raise UsageError(
                f"{op.name}: {other.name} has a file {path.name} too ({other.wgsl}); rename one"
            )


def registered() -> list[CustomOp]:
    """All registered ops, in order."""
    return list(_registered.values())


def op_of(node: Tensor) -> CustomOp | None:
    """The op of a `CUSTOM` node, or None when it is not registered in this process."""
    return _registered.get(node.param_i32(0))


def why_not(node: Tensor) -> str | None:
    """A reason when this process does not know the op of a `CUSTOM` node."""
    if op_of(node) is None:
        return f"custom op number {node.param_i32(0)} is not registered in this process"
    return None


def unregister_op(name: str) -> None:
    """Forget an op; nodes of it no longer run. Raises `UsageError` when there is none."""
    number = next((k for k, op in _registered.items() if op.name == name), None)
    if number is None:
        raise UsageError(f"no op {name!r} is registered")
    del _registered[number]


# ---- what templates need ------------------------------------------------------------------------


def folders() -> tuple[Path, ...]:
    """Folders of the registered WGSL files."""
    found = (op.wgsl.parent for op in _registered.values() if isinstance(op.wgsl, Path))
    return tuple(dict.fromkeys(found))


def text_of(template: str) -> str | None:
    """The WGSL of a template that was registered as text."""
    for op in _registered.values():
        if op.template == template and isinstance(op.wgsl, str):
            return op.wgsl
    return None


# ---- modules of the command line ----------------------------------------------------------------


def load_module(path: str) -> list[CustomOp]:
    """Run a Python file and return the ops that it registers. Child processes of this one can load
    it too (`load_modules`). Raises `UsageError` when the file cannot be run, or registers none."""
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"--module {path}: there is no such file")
    before = dict(_registered)
    spec = util.spec_from_file_location(f"wggml_ops_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        line = next((f.lineno for f in reversed(inspect.trace()) if f.filename == str(file)), "?")
        raise UsageError(f"--module {path}, line {line}: {type(e).__name__}: {e}") from e
    found = [op for number, op in _registered.items() if before.get(number) is not op]
    if not found:
        raise UsageError(f"--module {path} registers no op; call wggml.register_op in it")
    kept = filter(None, os.environ.get(ENV_MODULES, "").split(os.pathsep))
    os.environ[ENV_MODULES] = os.pathsep.join(dict.fromkeys([*kept, str(file)]))
    return found


def load_modules() -> None:
    """Load in a child process what its parent loaded."""
    for path in filter(None, os.environ.get(ENV_MODULES, "").split(os.pathsep)):
        load_module(path)
