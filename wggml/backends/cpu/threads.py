"""How many threads BLAS uses: NumPy itself runs in one."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from wggml.errors import UsageError

# OpenBLAS gives fewer values to one thread (`get_gemv_optimal_nthreads` of its interface/gemv.c).
OPENBLAS_THREADS_FROM = 460800


@cache
def threads_from() -> int:
    """Values of a matrix from which BLAS multiplies it with a vector in several threads; 0 where
    that is not known or one thread is all there is."""
    if (os.cpu_count() or 1) < 2 or os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        return 0
    config: Any = np.show_config(mode="dicts")
    name = str(config.get("Build Dependencies", {}).get("blas", {}).get("name", ""))
    return OPENBLAS_THREADS_FROM if "openblas" in name else 0


class BlasThreads:
    """Sets the thread count of the BLAS library behind NumPy.

    The count belongs to the process: another backend may have changed it, so it is asked for
    (microseconds), never remembered. Looking the libraries up takes milliseconds and is done once.
    """

    def __init__(self) -> None:
        self._libraries: list[Any] | None = None

    def set(self, n: int) -> None:
        """Use `n` threads; `UsageError` when `n` is not positive."""
        if n < 1:
            raise UsageError(f"the number of threads is {n}; it must be at least 1")
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController

            found = ThreadpoolController().select(user_api="blas")
            self._libraries = list(found.lib_controllers)
        for library in self._libraries:
            if library.num_threads != n:
                library.set_num_threads(n)
