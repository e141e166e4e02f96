"""`NodeHooks`: look at tensors of a running graph by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from wggml.core.tensor import Tensor
from wggml.errors import UsageError
from wggml.sched import Sched

NodeFunction = Callable[[Tensor, npt.NDArray[Any]], object]


class NodeHook:
    """One registered function; `remove` it, or use it as a context manager."""

    __slots__ = ("_hooks", "function", "pattern")

    def __init__(self, hooks: NodeHooks, pattern: re.Pattern[str], function: NodeFunction) -> None:
        self._hooks = hooks
        self.pattern = pattern
        self.function = function

    def remove(self) -> None:
        """Call the function no more. Removing it twice is allowed."""
        self._hooks.remove(self)

    def __enter__(self) -> NodeHook:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class NodeHooks:
    """The hooks of one scheduler. While there are none, computing costs nothing more."""

    def __init__(self, sched: Sched) -> None:
        self._sched = sched
        self._hooks: list[NodeHook] = []

    def add(self, pattern: str, function: NodeFunction) -> NodeHook:
        """Call `function(t, values)` right after a node whose name contains the regular
        expression `pattern` was computed; `values` is an array of the reversed shape
        ([ne3, ne2, ne1, ne0] without leading ones), the caller's to keep.

        Nodes that are looked at are computed up to and waited for, so that fused kernels around
        them come apart. What the function raises ends the decode. Raises `UsageError` for a
        pattern that is no regular expression.
        """
        try:
            compiled = re.compile(pattern)
        except re.error as e:
            raise UsageError(f"{pattern!r} is no regular expression: {e}") from e
        hook = NodeHook(self, compiled, function)
        self._hooks.append(hook)
        self._sched.set_eval_callback(self._observe)
        return hook

    def remove(self, hook: NodeHook) -> None:
        """Forget a hook."""
        if hook in self._hooks:
            self._hooks.remove(hook)
        if not self._hooks:
            self._sched.set_eval_callback(None)

    def _observe(self, t: Tensor, ask: bool) -> bool:
        found = [h for h in self._hooks if h.pattern.search(t.name)]
        if ask:
            return bool(found)
        values = t.numpy() if found else None
        for hook in found:
            assert values is not None
            hook.function(t, values)
        return True
