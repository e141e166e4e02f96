"""A `GraphPlan` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from wggml.inspect.data import GraphPlan, MemoryBuffer, MemoryMap, explain_cause
from wggml.units import nbytes_text

SHADES = " ░▒▓█"
MAP_WIDTH, MAP_HEIGHT = 88, 10
SHOWN_COPIES = 8


def plan_text(plan: GraphPlan) -> str:
    """Memory, splits and ops, each as a few lines."""
    lines = [plan.title, *plan.notes, ""]
    lines += _memory_lines(plan)
    lines += ["", *_split_lines(plan)]
    lines += ["", *_op_lines(plan)]
    return "\n".join(lines)


def _memory_lines(plan: GraphPlan) -> Iterator[str]:
    names = [b.name for b in plan.splits.backends]
    for f in plan.fixed:
        yield f"{f.what:16} {names[f.backend]:12} {nbytes_text(f.nbytes):>12}"
    for i, b in enumerate(plan.memory.buffers):
        where = "+".join(names[x] for x in b.backends)
        share = 100 * b.peak / max(b.tensor_bytes, 1)
        yield (
            f"{'compute':16} {where:12} {nbytes_text(b.peak):>12}  high-water mark: {share:.1f} % "
            f"of {nbytes_text(b.tensor_bytes)}, the sum of all tensors"
            + (f"; the buffer has {nbytes_text(b.size)}" if b.size != b.peak else "")
        )
        if b.peak:
            yield from _picture(plan.memory, i, b)


def _picture(memory: MemoryMap, index: int, b: MemoryBuffer) -> Iterator[str]:
    """Time across, address down, darker where more of the bytes hold a tensor."""
    width, height = min(MAP_WIDTH, memory.n_steps), MAP_HEIGHT
    if not width:
        return
    tops = [sum(c.peak for c in b.chunks[:k]) for k in range(len(b.chunks))]
    filled = [[0.0] * width for _ in range(height)]
    row_bytes = b.peak / height
    per_column = memory.n_steps / width
    for r in memory.rects:
        if r.buffer != index or not r.size:
            continue
        lo = tops[r.chunk] + r.offset
        first, last = max(r.start, 0), min(r.end, memory.n_steps - 1)
        if r.inplace:
            first += 1
        columns = range(int(first / per_column), min(int(last / per_column), width - 1) + 1)
        for y in range(int(lo / row_bytes), min(int((lo + r.size) / row_bytes) + 1, height)):
            covered = min(lo + r.size, (y + 1) * row_bytes) - max(lo, y * row_bytes)
            for x in columns:
                begin, end = max(first, x * per_column), min(last + 1, (x + 1) * per_column)
                filled[y][x] += max(covered, 0) * max(end - begin, 0)
    most = row_bytes * per_column
    for row in filled:
        yield "  │" + "".join(SHADES[min(round(4 * v / most), 4)] for v in row) + "│"
    label, last_node = "node 0", f"{memory.n_steps - 1}"
    gap = " " * max(width + 2 - len(label) - len(last_node), 1)
    yield f"  {label}{gap}{last_node}"


def _split_lines(plan: GraphPlan) -> Iterator[str]:
    s = plan.splits
    yield f"{len(s.nodes)} nodes in {len(s.splits)} split(s), {len(s.copies)} copies of " + (
        nbytes_text(s.copied_bytes)
    )
    for split in s.splits:
        backend = s.backends[split.backend]
        yield f"  split {split.index}: {backend.name}  nodes {split.start}..{split.end - 1}"
        copies = [c for c in s.copies if c.split == split.index]
        for c in copies[:SHOWN_COPIES]:
            yield f"    copy {c.name} from {s.backends[c.src].name}, {nbytes_text(c.nbytes)}"
        if len(copies) > SHOWN_COPIES:
            yield f"    ... and {len(copies) - SHOWN_COPIES} more"


def _op_lines(plan: GraphPlan) -> Iterator[str]:
    names = [b.name for b in plan.splits.backends]
    yield f"{'backend':12} {'op':18} {'weights':8} {'nodes':>6} {'results':>12}  causes"
    used: dict[str, None] = {}
    for r in plan.ops.rows:
        causes = ", ".join(f"{cause} x {n}" for cause, n in r.causes.items())
        used |= dict.fromkeys(r.causes)
        yield (
            f"{names[r.backend]:12} {r.op:18} {r.weight:8} {r.count:6} "
            f"{nbytes_text(r.nbytes):>12}  {causes}"
        )
        for reason in r.left:
            if reason not in map(explain_cause, r.causes):
                yield f"{'':12} why: {reason}"
    for cause in sorted(used):
        yield f"{cause:>12}: {explain_cause(cause)}"
