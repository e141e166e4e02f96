"""Bringing the inputs of a split to its backend.

The way is chosen once, when a plan has been allocated; a run only calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from wggml.core.opcodes import Flag
from wggml.core.tensor import Tensor
from wggml.hal.interface import Buffer, BufferUsage, Bytes, Event
from wggml.sched.experts import ExpertUse, find_expert_use, used_experts
from wggml.sched.split import Plan, Rewire, Split

if TYPE_CHECKING:
    from wggml.sched.run import Runner


Bring = Callable[["Runner", "InputCopy"], None]


class Way(Enum):
    """How the bytes of an input get to the copy, when the backend itself has no way."""

    UPLOAD = "from host memory"
    DOWNLOAD = "to host memory"
    THROUGH_HOST = "through the host"


def _unprepared(run: Runner, c: InputCopy) -> None:
    raise AssertionError(f"no way was chosen for the copy of {c.src.name!r}")


@dataclass(slots=True, eq=False)
class InputCopy:
    """One input of one split.

    Attributes:
        src, dst: the original and its copy; `src_id`, `dst_id` are their backends.
        nbytes: size of either.
        way: the way that always works.
        user: the user may overwrite `src` as soon as the run has been started.
        host_weight: `src` is a weight in host memory.
        host: the bytes of `src` in place, when they can be seen.
        experts: set when only some experts of the weight are needed.
        event: recorded when the runs that read `dst` before are done.
        bring: makes the copy; `fallback` is its way when the backends have none between them.
    """

    src: Tensor
    dst: Tensor
    src_id: int
    dst_id: int
    nbytes: int
    way: Way
    user: bool = False
    host_weight: bool = False
    host: Bytes | None = None
    experts: ExpertUse | None = None
    event: Event | None = None
    bring: Bring = field(default=_unprepared)
    fallback: Bring = field(default=_unprepared)
    _staging: Bytes | None = None

    def source_bytes(self) -> Bytes:
        """The bytes of `src`, which has been computed."""
        return _home(self.src).get_tensor(self.src) if self.host is None else self.host

    def staging(self) -> Bytes:
        """Host memory for the bytes on their way, kept for the next run."""
        if self._staging is None:
            self._staging = np.empty(self.nbytes, np.uint8)
        return self._staging


def prepare_copies(
    plan: Plan, split: Split, readers: Mapping[Tensor, Sequence[Rewire]], event: Event | None
) -> list[InputCopy]:
    """The copies to make before an allocated split runs, host weights last: a copy callback may
    then look at everything else the split reads.

    `readers` are the rewirings by copy; `event` is recorded when the split's backend is done.
    """
    copies = [_prepare(plan, split, s, readers) for s in split.inputs if s.nbytes]
    for c in copies:
        c.event = event
    return sorted(copies, key=lambda c: c.host_weight)


def _prepare(
    plan: Plan, split: Split, s: Tensor, readers: Mapping[Tensor, Sequence[Rewire]]
) -> InputCopy:
    dst = plan.copy_of(s, split.backend_id)
    home = _home(s)
    from_host = home.buft.is_host
    if from_host:
        way = Way.UPLOAD
    else:
        way = Way.DOWNLOAD if _home(dst).buft.is_host else Way.THROUGH_HOST
    c = InputCopy(s, dst, plan.assignment.id_of(s), split.backend_id, s.nbytes, way)
    c.user = bool(s.flags & Flag.INPUT)
    c.host = home.host_bytes(s) if from_host else None
    c.host_weight = from_host and home.usage is BufferUsage.WEIGHTS
    if c.host_weight and c.host is not None and not c.user:
        c.experts = find_expert_use(plan, split, s, readers.get(dst, ()))
    c.bring, c.fallback = _choose(c), WAYS[way]
    return c


def _home(t: Tensor) -> Buffer:
    return t._buffer_or_raise("copy")


# ---- the ways: each is called as `copy.bring(run, copy)` -----------------------------------------


def _bring_activation(run: Runner, c: InputCopy) -> None:
    backends = run.backends
    if not backends[c.dst_id].copy_tensor_async(backends[c.src_id], c.src, c.dst):
        c.fallback(run, c)


def _upload(run: Runner, c: InputCopy) -> None:
    # in stream order on the other side, so nothing there has to be waited for
    run.settle(c.src_id)
    run.backends[c.dst_id].set_tensor_async(c.dst, c.source_bytes())


def _download(run: Runner, c: InputCopy) -> None:
    """Only begins; `Runner.finish_downloads` ends it."""
    run.backends[c.src_id].get_tensor_async(c.src, c.staging())
    run.downloads.append(c)


def _through_host(run: Runner, c: InputCopy) -> None:
    run.wait(c.src_id)
    run.settle_reader(c)
    home = _home(c.dst)
    if not home.copy_from(c.src, c.dst):
        home.set_tensor(c.dst, c.source_bytes())


def _bring_experts(run: Runner, c: InputCopy) -> None:
    use, host = c.experts, c.host
    assert use is not None and host is not None
    ranges = run.expert_ranges.get(use.key)
    if ranges is None:
        ranges = run.expert_ranges[use.key] = used_experts(use, _read_ids(run, use))
    run.settle(c.src_id)
    backend, size = run.backends[c.dst_id], use.expert_bytes
    for first, end in ranges:
        window = host[first * size : min(end * size, c.nbytes)]
        backend.set_tensor_async(c.dst, window, first * size)


def _read_ids(run: Runner, use: ExpertUse) -> Bytes:
    out = np.empty(use.ids.nbytes, np.uint8)
    run.backends[use.backend_id].get_tensor_async(use.ids, out)
    run.wait(use.backend_id)
    return out


WAYS: dict[Way, Bring] = {
    Way.UPLOAD: _upload,
    Way.DOWNLOAD: _download,
    Way.THROUGH_HOST: _through_host,
}


def _choose(c: InputCopy) -> Bring:
    if c.experts is not None:
        return _bring_experts
    if not c.user:
        return _bring_activation
    # what a user may overwrite must have left when the run has been started
    return _upload if c.way is Way.UPLOAD else _through_host
