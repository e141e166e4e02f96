"""GGUF files: mapped, checked when opened, decoded when asked."""

from __future__ import annotations

import contextlib
import difflib
import mmap
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wggml.core.types import row_size
from wggml.errors import GGUFError
from wggml.gguf_io import constants as c
from wggml.gguf_io.byteorder import to_little
from wggml.gguf_io.header import Header, TensorInfo, parse
from wggml.gguf_io.kv import KV
from wggml.gguf_io.sniff import is_part_name, part_hint
from wggml.gguf_io.splits import check_part, check_total, other_parts
from wggml.quants import dequantize


class GGUFFile:
    """An open GGUF file (or the files of a split model), read-only.

    Opening maps the file and checks all of its tables; tensor data is neither read nor copied.
    A context manager. Arrays from `data` stay valid after `close`; the map is then released with
    the last of them.
    """

    def __init__(self, path: str | Path, *, follow_splits: bool = True) -> None:
        """Open `path`. `follow_splits=False` reads one file of a split model by itself.

        Raises `GGUFError` that says what is wrong with the file and what to do.
        """
        self.path = Path(path)
        self._maps: list[mmap.mmap] = []
        self._parts: list[Header] = []
        self._file_bytes = 0
        try:
            self._open_parts(follow_splits)
        except BaseException:
            self.close()
            raise

    def _open_parts(self, follow_splits: bool) -> None:
        first = self._add_part(self.path)
        others = other_parts(first.kv, self.path) if follow_splits else []
        self.tensors: dict[str, TensorInfo] = dict(first.tensors)
        for no, path in enumerate(others, 1):
            part = self._add_part(path)
            check_part(part.kv, path, no, len(others) + 1)
            twice = self.tensors.keys() & part.tensors.keys()
            if twice:
                raise GGUFError(f"{path}: tensor {min(twice)!r} is in an earlier part too")
            self.tensors.update(part.tensors)
        if others:
            check_total(first.kv, self.path, len(self.tensors))

    def _add_part(self, path: Path) -> Header:
        buf = _map(path)
        self._maps.append(buf)
        self._file_bytes += len(buf)
        header = parse(buf, path, part=len(self._parts))
        self._parts.append(header)
        return header

    @property
    def kv(self) -> KV:
        """Metadata by key (of the first file of a split model); values decode when asked for."""
        return self._parts[0].kv

    @property
    def version(self) -> int:
        """GGUF version, 2 or 3."""
        return self._parts[0].version

    @property
    def alignment(self) -> int:
        """Bytes that tensor data is aligned to."""
        return self._parts[0].alignment

    @property
    def byte_order(self) -> str:
        """`"little"` or `"big"`; `data` gives little-endian bytes either way."""
        return self._parts[0].byte_order

    @property
    def data_start(self) -> int:
        """Byte offset of the tensor data in the first file."""
        return self._parts[0].data_start

    @property
    def n_tensors(self) -> int:
        return len(self.tensors)

    @property
    def n_parts(self) -> int:
        """Files the model is split over."""
        return len(self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(t.nbytes for t in self.tensors.values())

    @property
    def file_bytes(self) -> int:
        """Size of the file (of all files of a split model)."""
        return self._file_bytes

    @property
    def architecture(self) -> str:
        """`general.architecture`; `GGUFError` when the file has none."""
        value = self.require(c.KEY_ARCHITECTURE)
        if not isinstance(value, str):
            raise GGUFError(f"{self.path}: {c.KEY_ARCHITECTURE} is {value!r}; it must be a string")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """Metadata value of `key`, or `default`."""
        return self.kv.get(key, default)

    def arch_get(self, key: str, default: Any = None) -> Any:
        """Metadata value of `<architecture>.<key>`, or `default`."""
        return self.kv.get(f"{self.architecture}.{key}", default)

    def require(self, key: str) -> Any:
        """Metadata value of `key`; `GGUFError` with near names when it is missing."""
        if key in self.kv:
            return self.kv[key]
        raise GGUFError(f"{self.path}: metadata {key!r} is missing{_near(key, list(self.kv))}")

    def kv_type(self, key: str) -> c.ValueType:
        """Type of a metadata value (`ARRAY` for arrays; `kv.entry(key).item` for their items)."""
        return self.kv.entry(key).type

    def require_tensor(self, name: str) -> TensorInfo:
        """The tensor called `name`; `GGUFError` with architecture and near names if missing."""
        if name in self.tensors:
            return self.tensors[name]
        arch = self.kv.get(c.KEY_ARCHITECTURE, "unknown")
        raise GGUFError(
            f"{self.path}: architecture {arch!r} needs tensor {name!r}, which this file does not "
            f"have among its {self.n_tensors}{_near(name, list(self.tensors))}; the file is whole, "
            "so it is another variant of the model, or was converted by a tool that names it "
            "differently"
        )

    def data(self, tensor: TensorInfo | str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor, uint8 [nbytes]: a read-only view of the map, no copy.

        (Big-endian files give a byte-swapped copy, or `GGUFError` for formats that cannot be
        swapped.)
        """
        info = self.require_tensor(tensor) if isinstance(tensor, str) else tensor
        if not self._maps:
            raise GGUFError(f"{self.path} is closed; read tensor {info.name!r} before closing it")
        if not info.nbytes:
            return np.empty(0, np.uint8)
        raw = np.frombuffer(self._maps[info.part], np.uint8, info.nbytes, info.offset)
        if self._parts[info.part].byte_order == "big":
            return to_little(raw, info.type, f"{self.path}: tensor {info.name!r}")
        return raw

    def rows(self, tensor: TensorInfo | str) -> npt.NDArray[np.uint8]:
        """`data` as uint8 [ne3 * ne2 * ne1, bytes of a row]."""
        info = self.require_tensor(tensor) if isinstance(tensor, str) else tensor
        ne = info.ne
        return self.data(info).reshape(ne[3] * ne[2] * ne[1], row_size(info.type, ne[0]))

    def read_f32(self, tensor: TensorInfo | str) -> npt.NDArray[np.float32]:
        """The values of a tensor as a fresh f32 array of NumPy shape `info.shape`."""
        info = self.require_tensor(tensor) if isinstance(tensor, str) else tensor
        return dequantize(self.data(info), info.type, info.n_elements).reshape(info.shape)

    def close(self) -> None:
        """Give the map back (arrays handed out before keep it alive). May be called twice."""
        for part in self._parts:
            part.kv.close()
        for buf in self._maps:
            with contextlib.suppress(BufferError):  # arrays over the map: it goes with the last
                buf.close()
        self._maps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GGUFFile {self.path} tensors={self.n_tensors} keys={len(self.kv)}>"


def open_gguf(path: str | Path, *, follow_splits: bool = True) -> GGUFFile:
    """Open a GGUF file; see `GGUFFile`."""
    return GGUFFile(path, follow_splits=follow_splits)


def _map(path: Path) -> mmap.mmap:
    if path.is_dir():
        inside = sorted(p.name for p in path.glob("*.gguf"))
        hint = f"it contains {', '.join(inside[:5])}" if inside else "no GGUF file is in it"
        raise GGUFError(f"{path} is a directory, not a GGUF file; {hint}")
    try:
        with open(path, "rb") as f:
            if f.seek(0, 2) == 0:
                raise GGUFError(f"{path} is empty (0 bytes): a failed download? download it again")
            return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise GGUFError(f"{path} does not exist{_beside(path)}") from None
    except (OSError, ValueError) as e:
        raise GGUFError(f"{path} cannot be read: {e}") from e


def _beside(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent} either"
    pieces = sorted(p for p in path.parent.glob(f"{path.name}.*") if is_part_name(p))
    if pieces:
        return f", but {pieces[0].name} does: {part_hint(pieces[0])}"
    return _near(path.name, [p.name for p in path.parent.glob("*.gguf")])


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; near names: {', '.join(near)}" if near else ""
