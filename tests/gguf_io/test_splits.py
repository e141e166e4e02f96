"""Models split over several files (report 51)."""

from __future__ import annotations

from pathlib import Path

import pytest

from wggml.errors import GGUFError
from wggml.gguf_io import ValueType as V
from wggml.gguf_io import open_gguf


def part(craft, no: int, count: int = 3, total: int = 3, name: str | None = None):
    c = craft(data=bytes([no]) * 32)
    c.add("split.no", V.UINT16, no).add("split.count", V.UINT16, count)
    c.add("split.tensors.count", V.INT32, total)
    return c.tensor(name or f"t{no}", [32], 24)


def name_of(no: int, count: int = 3) -> str:
    return f"model-{no:05d}-of-{count:05d}.gguf"


@pytest.fixture
def parts(tmp_path: Path, craft) -> list[Path]:
    return [part(craft, no).write(tmp_path / name_of(no + 1)) for no in range(3)]


def refused(path: Path, *texts: str) -> None:
    with pytest.raises(GGUFError) as caught:
        open_gguf(path)
    for text in texts:
        assert text in str(caught.value), caught.value


def test_first_part_finds_the_rest(parts: list[Path]) -> None:
    with open_gguf(parts[0]) as f:
        assert list(f.tensors) == ["t0", "t1", "t2"]
        assert [f.data(t)[0] for t in f.tensors] == [0, 1, 2]
        assert [t.part for t in f.tensors.values()] == [0, 1, 2]
        assert f.n_parts == 3
        assert f.file_bytes == sum(p.stat().st_size for p in parts)


def test_one_part_by_itself(parts: list[Path]) -> None:
    with open_gguf(parts[1], follow_splits=False) as f:
        assert list(f.tensors) == ["t1"]


def test_wrong_part_first(parts: list[Path]) -> None:
    refused(parts[1], "part 2 of 3", f"open {name_of(1)}")


def test_missing_part(parts: list[Path]) -> None:
    parts[2].unlink()
    refused(parts[0], "1 of 3 parts", "missing", name_of(3))


def test_renamed_first_part(parts: list[Path], tmp_path: Path) -> None:
    renamed = parts[0].rename(tmp_path / "model.gguf")
    refused(renamed, "first of 3 parts", "NAME-00001-of-00003.gguf")


def test_swapped_parts(parts: list[Path], tmp_path: Path) -> None:
    parts[1].rename(tmp_path / "x")
    parts[2].rename(parts[1])
    (tmp_path / "x").rename(parts[2])
    refused(parts[0], "should be part 2 of 3", "says that it is part 3 of 3")


def test_part_of_another_model(parts: list[Path], craft) -> None:
    part(craft, 1, name="t0").write(parts[1])
    refused(parts[0], "'t0' is in an earlier part too")


def test_wrong_total(parts: list[Path], craft) -> None:
    part(craft, 0, total=9).write(parts[0])
    refused(parts[0], "hold 3 tensors together, 9 were announced")


def test_truncated_later_part(parts: list[Path]) -> None:
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    refused(parts[0], name_of(2), "truncated")


def test_parts_joined_with_cat(parts: list[Path]) -> None:
    parts[0].write_bytes(b"".join(p.read_bytes() for p in parts))
    refused(parts[0], "second GGUF file", "Keep the parts apart")


@pytest.mark.parametrize("kind", [V.STRING, V.BOOL])
def test_split_keys_of_wrong_type(tmp_path: Path, craft, kind: V) -> None:
    c = craft().add("split.count", kind, True if kind is V.BOOL else "3")
    refused(c.write(tmp_path / "m.gguf"), "split.count is", "damaged")
