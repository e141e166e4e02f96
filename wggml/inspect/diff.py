"""Two devices, node by node: each node of a model's graph runs on one of them as part of the model,
and on the other one by itself, with the same inputs. So the first node that differs is the one that
is wrong, not one that a wrong one feeds.

Kernels that compute several nodes at once only run when those nodes come together, so stretches of
the graph are compared as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wggml.core.tensor import Tensor
from wggml.hal.interface import Backend
from wggml.inspect.windows import Window, survivors, window_case
from wggml.inspect.words import op_label, weight_of
from wggml.testing.capture import capture_case, capture_inputs
from wggml.testing.metrics import nmse
from wggml.testing.opcases import CaseResult, run_case
from wggml.testing.opdata import Bytes, OpCase, is_real
from wggml.testing.placing import read_bytes

if TYPE_CHECKING:
    from wggml.llama import Llama

WINDOW, STRIDE = 36, 24  # nodes of a stretch, and from one to the next
# A stretch may differ by this much, or by this many times the worst of its nodes by themselves. (In
# f32 they differ by 1e-13; a limit such as that of one product, 5e-4, would let 2 % pass.)
WINDOW_LIMIT, WINDOW_GROWTH = 1e-5, 16
Progress = Callable[[float, str], None]


@dataclass(slots=True)
class NodeDiff:
    """A node that passed its op's limit.

    Attributes:
        name, op, step: the node and its place in the order of execution; `phase` is the graph:
            `prompt` or `generation`.
        error, limit: by the op's metric (normalised mean squared error); infinite for NaN.
        reason: in words.
        together: the nodes that have to run together for it to show, in order; empty where the
            node fails by itself.
        case: what `wggml test-ops --cases` runs to see it again.
    """

    name: str
    op: str
    step: int
    phase: str
    error: float
    limit: float
    reason: str
    together: list[str]
    case: OpCase


@dataclass(slots=True)
class OpDiff:
    """All compared nodes of one op: the worst error and where."""

    op: str
    count: int = 0
    worst: float = 0.0
    node: str = ""
    limit: float = 0.0


@dataclass(slots=True)
class Diff:
    """What was compared.

    Attributes:
        a, b: names of the devices; `a` is taken for right.
        nodes, windows: how many were compared.
        ops: by op name.
        failed: nodes that differ, the first one first; only one unless all were asked for.
        unsupported: reason -> number of nodes that b does not run.
        logits: error of the whole model's logits on b, and whether the likeliest token is the
            same; None where that was not asked for.
    """

    a: str
    b: str
    nodes: int = 0
    windows: int = 0
    ops: dict[str, OpDiff] = field(default_factory=dict)
    failed: list[NodeDiff] = field(default_factory=list)
    unsupported: dict[str, int] = field(default_factory=dict)
    logits: tuple[float, bool] | None = None

    @property
    def first(self) -> NodeDiff | None:
        """The first node that differs."""
        return self.failed[0] if self.failed else None


class _Stop(Exception):
    """Enough is known."""


def diff(
    llama: Llama,
    b: Backend,
    tokens: Sequence[int],
    *,
    windows: bool = True,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Diff:
    """Feed `tokens` to `llama` (device a), then one more token, and compare every node with `b`.

    Args:
        windows: compare stretches of nodes as well, where `b` fuses and merges.
        keep_going: go on after the first node that differs.

    The context is emptied before and after; its own hooks rest meanwhile.
    """
    context = llama.context
    names = " + ".join(x.name for x in context.backends)
    out = Diff(names, b.name)
    walk = _Walk(llama, b, out, windows=windows, keep_going=keep_going, progress=progress)
    context.kv.clear()
    hooks = context.sched.eval_callback
    try:
        context.sched.set_eval_callback(walk.observe)
        walk.begin("prompt")
        logits = llama.eval(tokens)
        walk.begin("generation")
        llama.eval([int(np.argmax(logits[-1]))], position=len(tokens))
    except _Stop:
        pass
    finally:
        context.sched.set_eval_callback(hooks)
        context.kv.clear()
    return out


def compare_logits(a: Llama, b: Llama, tokens: Sequence[int]) -> tuple[float, bool]:
    """Error of the logits after `tokens` on two devices with the same model, computed as always;
    and whether both find the same token likeliest."""
    rows = []
    for llama in (a, b):
        llama.context.kv.clear()
        rows.append(llama.eval(tokens)[-1].astype(np.float64))
        llama.context.kv.clear()
    return nmse(rows[1], rows[0]), int(np.argmax(rows[0])) == int(np.argmax(rows[1]))


class _Walk:
    """The evaluation callback: `ask` comes before a node runs, the answer after."""

    def __init__(
        self,
        llama: Llama,
        b: Backend,
        out: Diff,
        *,
        windows: bool,
        keep_going: bool,
        progress: Progress | None,
    ) -> None:
        self.sched = llama.context.sched
        self.b = b
        self.out = out
        self.windows = windows
        self.keep_going = keep_going
        self.progress = progress
        self.phase = ""
        self._inputs: dict[Tensor, Bytes] = {}
        self._steps: dict[Tensor, int] = {}
        self._errors: dict[Tensor, float] = {}  # of nodes by themselves
        self._to_open: dict[Tensor, list[Window]] = {}
        self._open: list[Window] = []
        self._graph: object = None

    def begin(self, phase: str) -> None:
        self.phase = phase
        self._graph = None

    def observe(self, t: Tensor, ask: bool) -> bool:
        if self.sched.plan is not self._graph:
            self._graph = self.sched.plan
            self._begin_graph()
        if not ask:
            self._compare(t, read_bytes(t))
            return True
        if t in self._to_open:
            # a view may begin a stretch, so this comes before the question whether t computes
            self._open_windows(t)
        if not is_real(t) or t.is_empty():
            return False
        self._inputs = capture_inputs(t)
        return True

    def _begin_graph(self) -> None:
        plan = self.sched.plan
        assert plan is not None
        order = [t for split in plan.splits for t in split.graph.nodes]
        self._steps = {t: i for i, t in enumerate(order)}
        self._to_open, self._open, self._errors = {}, [], {}
        if self.windows:
            for split in plan.splits:
                for part in self._runnable(split.graph.nodes):
                    self._plan_windows(part)

    def _runnable(self, nodes: Sequence[Tensor]) -> list[list[Tensor]]:
        """Stretches that b runs as a whole."""
        parts: list[list[Tensor]] = [[]]
        for t in nodes:
            if is_real(t) and not self.b.supports_op(t):
                parts.append([])
            else:
                parts[-1].append(t)
        return [p for p in parts if sum(map(is_real, p)) > 1]

    def _plan_windows(self, nodes: list[Tensor]) -> None:
        for begin in range(0, max(len(nodes) - (WINDOW - STRIDE), 1), STRIDE):
            part = nodes[begin : begin + WINDOW]
            last = max(i for i, t in enumerate(part) if is_real(t))
            self._to_open.setdefault(part[0], []).append(Window(part[: last + 1]))

    def _open_windows(self, t: Tensor) -> None:
        for window in self._to_open.pop(t):
            window.capture_inputs()
            self._open.append(window)

    # ---- one node -----------------------------------------------------------------------------

    def _compare(self, t: Tensor, result: Bytes) -> None:
        step = self._steps[t]
        if self.progress is not None:
            self.progress(step / len(self._steps), f"{self.phase}: {op_label(t)} {t.name}")
        case = capture_case(
            t, inputs=self._inputs, reference=result, id=f"{self.phase}/{step}/{t.name}"
        )
        verdict = run_case(case, self.b, sentinels=False, weights_buffer=weight_of(t) is not None)
        if verdict.status == "unsupported":
            reason = f"{op_label(t)}: {verdict.reason.partition(': ')[2]}"
            self.out.unsupported[reason] = self.out.unsupported.get(reason, 0) + 1
        else:
            self._note(t, case, verdict.error)
            if verdict.status == "fail":
                self._fail(t, case, verdict.error, verdict.reason, [])
        self._follow_windows(t, result)

    def _note(self, t: Tensor, case: OpCase, error: float) -> None:
        self.out.nodes += 1
        self._errors[t] = error
        row = self.out.ops.setdefault(op_label(t), OpDiff(op_label(t)))
        row.count += 1
        row.limit = max(row.limit, case.max_err)
        if error >= row.worst:
            row.worst, row.node = error, t.name

    def _fail(
        self, t: Tensor, case: OpCase, error: float, reason: str, together: list[str]
    ) -> None:
        step = self._steps[t]
        self.out.failed.append(
            NodeDiff(
                t.name, op_label(t), step, self.phase, error, case.max_err, reason, together, case
            )
        )
        if not self.keep_going:
            raise _Stop

    # ---- stretches ----------------------------------------------------------------------------

    def _follow_windows(self, t: Tensor, result: Bytes) -> None:
        for window in self._open:
            window.results[t] = result
        done = [w for w in self._open if w.nodes[-1] is t]
        self._open = [w for w in self._open if w.nodes[-1] is not t]
        for window in done:
            self._compare_window(window)

    def _compare_window(self, window: Window) -> None:
        n = len(window.nodes)
        outputs = survivors(window, 0, n)
        self.out.windows += 1
        if not outputs or self._runs_right(window, 0, n, outputs):
            return
        end = self._shortest(window)
        first = end - 1
        outputs = survivors(window, 0, end)
        while first > 0 and self._runs_right(window, first, end, [window.nodes[end - 1]]):
            first -= 1
        t = window.nodes[end - 1]
        verdict = self._run(window, first, end, [t])
        if verdict.status != "fail":  # it takes all that is handed on to see it
            first = 0
            verdict = self._run(window, 0, end, outputs)
        names = [x.name for x in window.nodes[first:end] if is_real(x)]
        self._fail(t, verdict.case, verdict.error, verdict.reason, names)

    def _shortest(self, window: Window) -> int:
        """End of the shortest beginning of a wrong window that is wrong, by bisection."""
        right, wrong = 0, len(window.nodes)
        while wrong - right > 1:
            end = (right + wrong) // 2
            outputs = survivors(window, 0, end)
            if not outputs or self._runs_right(window, 0, end, outputs):
                right = end
            else:
                wrong = end
        return wrong

    def _run(self, window: Window, first: int, end: int, outputs: Sequence[Tensor]) -> CaseResult:
        nodes = window.nodes[first:end]
        name = f"{self.phase}/{self._steps[nodes[0]]}..{self._steps[nodes[-1]]}/{nodes[-1].name}"
        alone = max((self._errors.get(t, 0.0) for t in nodes), default=0.0)
        limit = max(WINDOW_LIMIT, WINDOW_GROWTH * alone)
        case = window_case(window, first, end, outputs, name, limit)
        return run_case(case, self.b, sentinels=False, weights_buffer=True)

    def _runs_right(self, window: Window, first: int, end: int, outputs: Sequence[Tensor]) -> bool:
        return self._run(window, first, end, outputs).status != "fail"
