"""The thread count reaches the BLAS library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import threadpoolctl
from graphs import cpu

from wggml.errors import UsageError


def blas_threads() -> set[int]:
    return {i["num_threads"] for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with threadpoolctl.threadpool_limits():
        yield


def test_extension_sets_the_threads() -> None:
    if not blas_threads():
        pytest.skip("this NumPy has no BLAS that threadpoolctl knows")
    backend = cpu()
    set_n_threads = backend.extension("set_n_threads")
    assert set_n_threads is not None
    other = cpu()
    for n in (1, 2, 1):
        set_n_threads(n)
        assert blas_threads() == {n}
        other.set_n_threads(3 - n)
        set_n_threads(n)
        assert blas_threads() == {n}
    with pytest.raises(UsageError, match="number of threads is 0"):
        set_n_threads(0)
    assert backend.extension("unheard_of") is None
