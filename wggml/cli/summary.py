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
        ("device", ", ".join(stats.devices) or "CPU (NumPy)"),
        ("nodes", nodes_text(stats.nodes_per_backend, stats.n_splits)),
        ("weights", sizes_text(stats.weights)),
        ("KV cache", nbytes_text(stats.kv_cache_bytes)),
        ("compute buffers", sizes_text(stats.compute_buffers)),
        ("graphs", f"{stats.graphs_reused} reused, {stats.graphs_built} built"),
        ("peak memory", nbytes_text(stats.peak_rss) if stats.peak_rss else ""),
    ]
    if perf:
        phases = ", ".join(f"{name} {ms:.2f}" for name, ms in stats.phases_ms.items())
        rows += [
            (
                "host time",
                f"{stats.host_us_per_token:.0f} µs per token"
                f" (and {stats.ahead_us_per_token:.0f} while the device computes), "
                f"{stats.rebuild_ms:.0f} ms per graph built (processor time)",
            ),
            ("dispatches", f"{stats.dispatches_per_token:.0f} per token"),
            ("ms per token", phases),
        ]
    return "\n".join(f"{label:>16}: {text}" for label, text in rows if text)


def rate_text(count: int, seconds: float) -> str:
    """Tokens, time and tokens per second; the rate only where there was time to measure."""
    text = f"{count} tokens in {seconds:.2f} s"
    return f"{text}, {count / seconds:.1f} tokens/s" if seconds > 0 else text


def nodes_text(nodes: Mapping[str, int], n_splits: int) -> str:
    """How many graph nodes each backend computes, and in how many stretches."""
    counts = ", ".join(f"{name} {count}" for name, count in nodes.items())
    plural = "" if n_splits == 1 else "s"
    return f"{counts}, {n_splits} split{plural}" if counts else ""


def sizes_text(nbytes: Mapping[str, int]) -> str:
    """Bytes per backend."""
    return ", ".join(f"{name} {nbytes_text(size)}" for name, size in nbytes.items())
