"""What a run did, in a few lines on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wggml.cli.text import nbytes_text

if TYPE_CHECKING:
    from wggml.llama import Stats


def summary(stats: Stats, *, perf: bool) -> str:
    """Speed, adapter, placement and memory of a run; with `perf` also host time and dispatches."""
    rows = [
        ("prompt", rate_text(stats.n_prompt, stats.prompt_seconds)),
        ("generation", rate_text(stats.n_generated, stats.generate_seconds)),
        ("devices", ", ".join(stats.adapters)),
        ("nodes", counts_text(stats.nodes, stats.n_splits)),
        ("compute buffers", sizes_text(stats.compute_nbytes)),
        ("weights", sizes_text(stats.weights_nbytes)),
        ("graphs", f"{stats.graph_reuses} reused, {stats.graph_rebuilds} built"),
        ("peak memory", nbytes_text(stats.peak_rss_nbytes)),
    ]
    if perf:
        rows += [
            ("host time", f"{stats.host_us_per_token:.0f} µs per token"),
            ("dispatches", f"{stats.dispatches_per_token:.0f} per token"),
        ]
    return "\n".join(f"{label:>16}: {text}" for label, text in rows if text)


def rate_text(count: int, seconds: float) -> str:
    """Tokens, time and tokens per second; the rate only where there was time to measure."""
    text = f"{count} tokens in {seconds:.2f} s"
    return f"{text}, {count / seconds:.1f} tokens/s" if seconds > 0 else text


def counts_text(nodes: Mapping[str, int], n_splits: int) -> str:
    """How many graph nodes each backend computes."""
    return f"{pairs_text(nodes)}; {n_splits} splits" if nodes else ""


def pairs_text(counts: Mapping[str, int]) -> str:
    """`name count` pairs in the order given."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def sizes_text(nbytes: Mapping[str, int]) -> str:
    """Bytes per backend."""
    return ", ".join(f"{name} {nbytes_text(size)}" for name, size in nbytes.items())
