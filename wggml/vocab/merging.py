"""Greedy pair merging, shared by BPE (lowest rank first) and SPM (highest score first)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Priority = Callable[[str, str], float]
"""Priority of joining two neighbouring symbols: the lowest goes first, `NEVER` forbids it."""

NEVER = float("inf")

_HEAP_FROM = 96
"""Symbols from which the heap is used; below, rescanning a short list in C is faster."""


def merge_symbols(symbols: list[str], priority: Priority) -> list[str]:
    """Join neighbours until no pair may be joined; the best pair goes first, ties go left.

    `symbols` may be changed. O(n^2) moves of list elements for short inputs, O(n log n) above
    `_HEAP_FROM` symbols, with the same result.
    """
    if len(symbols) < 2:
        return symbols
    if len(symbols) >= _HEAP_FROM:
        return _merge_heap(symbols, priority)
    return _merge_scan(symbols, priority)


def _merge_scan(symbols: list[str], priority: Priority) -> list[str]:
    ranks = list(map(priority, symbols, symbols[1:]))
    while ranks:
        best = min(ranks)
        if best == NEVER:
            break
        at = ranks.index(best)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        del ranks[at]
        if at:
            ranks[at - 1] = priority(symbols[at - 1], symbols[at])
        if at < len(ranks):
            ranks[at] = priority(symbols[at], symbols[at + 1])
    return symbols


def _merge_heap(symbols: list[str], priority: Priority) -> list[str]:
    """The same with a doubly linked list and a heap of candidate pairs.

    An entry is (priority, left, right, joined length). It is stale when either symbol has been
    swallowed (empty) or one of them has grown (another joined length).
    """
    n = len(symbols)
    before = list(range(-1, n - 1))
    after = [*range(1, n), -1]
    heap = [
        (rank, i, i + 1, len(symbols[i]) + len(symbols[i + 1]))
        for i, rank in enumerate(map(priority, symbols, symbols[1:]))
        if rank != NEVER
    ]
    heapify(heap)

    def push(left: int, right: int) -> None:
        rank = priority(symbols[left], symbols[right])
        if rank != NEVER:
            heappush(heap, (rank, left, right, len(symbols[left]) + len(symbols[right])))

    while heap:
        _, left, right, size = heappop(heap)
        a, b = symbols[left], symbols[right]
        if not a or not b or len(a) + len(b) != size:
            continue
        symbols[left], symbols[right] = a + b, ""
        after[left] = following = after[right]
        if following >= 0:
            before[following] = left
            push(left, following)
        if before[left] >= 0:
            push(before[left], left)
    return [symbol for symbol in symbols if symbol]
