"""Run many operator cases on one backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter

from wggml.hal.interface import Backend
from wggml.testing.opcases import CaseResult, run_case
from wggml.testing.opdata import OpCase
from wggml.testing.placing import WEIGHT_OPS


def run_cases(
    cases: Iterable[OpCase],
    backend: Backend,
    *,
    on_result: Callable[[CaseResult], object] | None = None,
    sentinels: bool = True,
    weights: bool = True,
    runs: int = 1,
) -> list[CaseResult]:
    """The verdict on every case, in order; `on_result` gets each as it comes.

    A device with a profile masked down is made by `WgpuDevice.with_mask(words)`. `weights` runs
    cases whose operands may be a model's weights once more with these in a WEIGHTS buffer, where
    a backend may lay them out in its own way; the worse verdict counts. `runs` is as in
    `run_case`. What was judged so far is lost when `on_result` raises; a caller that is to keep it
    collects it there.
    """
    results: list[CaseResult] = []
    for case in cases:
        result = _run(case, backend, sentinels, weights, runs)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def _run(case: OpCase, backend: Backend, sentinels: bool, weights: bool, runs: int) -> CaseResult:
    began = perf_counter()
    result = run_case(case, backend, sentinels=sentinels, runs=runs)
    if weights and result.status == "pass" and any(t.op in WEIGHT_OPS for t in case.tensors):
        again = run_case(case, backend, sentinels=sentinels, weights_buffer=True, runs=runs)
        error = max(result.error, again.error)
        result = replace(again, error=error)
        if again.status != "pass":
            result.reason = f"{again.reason} (operand in a WEIGHTS buffer)"
    result.seconds = perf_counter() - began
    return result
