"""Types resolved ahead are those that cffi itself finds."""

from __future__ import annotations

import pytest

from wggml.backends.wgpu import c_types
from wggml.backends.wgpu.implementation import raw_api

ALL = [*c_types.POINTERS, *c_types.ARRAYS, *c_types.SCALARS, *c_types.FUNCTIONS]


def test_each_type_is_what_its_string_says() -> None:
    raw = raw_api()
    if raw is None:
        pytest.skip("this wgpu version's raw calls are not used")
    _, ffi = raw
    known = ffi._parsed_types
    assert all(text in known for text in ALL)
    for text in ALL:
        ahead = known.pop(text)
        ffi._typeof(text, consider_function_as_funcptr=True)  # parses it, as without us
        assert known[text] == ahead, text


def test_done_once() -> None:
    raw = raw_api()
    if raw is None:
        pytest.skip("this wgpu version's raw calls are not used")
    assert not c_types.resolve_ahead(raw[1])


@pytest.mark.parametrize("table", [None, [], {}])
def test_another_cffi_is_left_alone(table: object) -> None:
    class Other:
        _parsed_types = table

        def cdef(self, source: str) -> None:
            raise ValueError("unknown type")

    assert not c_types.resolve_ahead(Other())
    assert Other._parsed_types == table
