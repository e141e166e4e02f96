"""How many threads BLAS uses: NumPy itself runs in one."""

from __future__ import annotations

from typing import Any

from wggml.errors import UsageError


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
