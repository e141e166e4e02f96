"""Continue a prompt with a GGUF model, text coming as it is made.

python examples/generate.py [MODEL] [PROMPT]
"""

from __future__ import annotations

import sys

from wggml import GenerationParams, Llama
from wggml.hub import resolve_model


def main(model: str = "glass", prompt: str = "once upon a time") -> int:
    with Llama(resolve_model(model, progress=True)) as llama:
        print(prompt, end="", flush=True)
        for chunk in llama.generate(prompt, GenerationParams(max_tokens=64, seed=1)):
            print(chunk.text, end="", flush=True)
        stats = llama.stats()
    print()
    print(
        f"{stats.n_generated} tokens at {stats.n_generated / stats.generate_seconds:.1f} a second "
        f"on {stats.devices[0]}; {stats.graphs_reused} graphs reused, {stats.graphs_built} built",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
