"""`Watcher`: knows which cases use which templates, and runs those that an edit concerns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING

from wggml.testing.watch.files import Files
from wggml.testing.watch.process import Outcome, Process

if TYPE_CHECKING:
    from wggml.testing.selection import Selection

FIRST_LIMIT = 120.0  # seconds a case may take while no shader is cached yet
LIMIT = 10.0  # and afterwards
# Times that a round may lose its process: a shader that every case uses would cost the limit each.
MAX_DEATHS = 2
POLL_SECONDS = 0.1

OnOutcome = Callable[[Outcome], object]


@dataclass(slots=True)
class Round:
    """What an edit led to: the templates `edited`, the verdicts on the cases that use them, how
    many of these were left out (after several had taken the process down, or because of the next
    edit), seconds from the moment the edit was seen."""

    edited: frozenset[str]
    outcomes: list[Outcome] = field(default_factory=list)
    left_out: int = 0
    seconds: float = 0.0

    def count(self, status: str) -> int:
        """How many cases came out that way."""
        return sum(o.status == status for o in self.outcomes)


class Watcher:
    """Cases of a selection on a device in a process of its own, kept warm between edits.

    Args:
        limit: seconds that a case may take before its process is ended and started again.
    """

    def __init__(
        self, selection: Selection, device: str, *, first_limit: float = FIRST_LIMIT,
        limit: float = LIMIT,
    ) -> None:  # fmt: skip
        self.first_limit, self.limit = first_limit, limit
        self._files = Files()
        self._process = Process(selection, device)
        self._last: dict[str, Outcome] = {}
        self._next: frozenset[str] = frozenset()  # edited while a round was running
        self.titles = {id: f"{id} [{text}]" for id, _, text in self._process.lines}

    @property
    def restarts(self) -> int:
        """How often the process was lost."""
        return self._process.starts - 1

    def first(self, on_outcome: OnOutcome | None = None) -> Round:
        """Run every case: which templates each uses is learnt here."""
        return self._round(frozenset(), list(self.titles), self.first_limit, on_outcome)

    def poll(self, on_outcome: OnOutcome | None = None) -> Round | None:
        """The round of an edit made since the last call, or None. The next edit ends it."""
        edited = self._next or self._files.changed()
        self._next = frozenset()
        if not edited:
            return None
        ids = [id for id in self.titles if self._concerns(id, edited)]
        return self._round(edited, self._in_order(ids), self.limit, on_outcome)

    def wait(self, timeout: float, on_outcome: OnOutcome | None = None) -> Round | None:
        """Poll until there was an edit, for `timeout` seconds at most."""
        end = monotonic() + timeout
        while monotonic() < end:
            done = self.poll(on_outcome)
            if done is not None:
                return done
            sleep(POLL_SECONDS)
        return None

    def close(self) -> None:
        self._process.close()

    def _concerns(self, id: str, edited: frozenset[str]) -> bool:
        last = self._last.get(id)
        return last is None or last.templates is None or bool(last.templates & edited)

    def _in_order(self, ids: list[str]) -> list[str]:
        """What failed last is being worked on and comes first; then one case of each kind, then
        the second ones: the first seconds tell most."""
        seen: Counter[object] = Counter()
        ranks = {}
        for id in ids:
            last = self._last.get(id)
            failed = last is None or last.status == "fail"
            kind = None if last is None else last.templates
            ranks[id] = (not failed, seen[kind])
            seen[kind] += 1
        return sorted(ids, key=ranks.__getitem__)

    def _round(
        self, edited: frozenset[str], ids: list[str], limit: float, on_outcome: OnOutcome | None
    ) -> Round:
        began, starts = perf_counter(), self._process.starts
        done = Round(edited)
        for id in ids:
            outcome = self._process.run(id, edited, limit)
            edited = frozenset()
            known = self._last.get(id)
            if outcome.templates is None and known is not None:  # died before it could tell
                outcome = replace(outcome, templates=known.templates)
            self._last[id] = outcome
            done.outcomes.append(outcome)
            if on_outcome is not None:
                on_outcome(outcome)
            self._next = self._files.changed()
            if self._next or self._process.starts - starts >= MAX_DEATHS:
                break
        for id in ids[len(done.outcomes) :]:  # any later edit concerns what was left out
            self._last.pop(id, None)
        done.left_out = len(ids) - len(done.outcomes)
        done.seconds = perf_counter() - began
        return done
