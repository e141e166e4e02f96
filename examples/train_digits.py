"""Train a small net to read handwritten digits (8x8, scikit-learn's), on a GPU or on NumPy.

    python examples/train_digits.py [--device NAME] [--epochs N] [--save FILE] [--load FILE]

The data comes with scikit-learn: pip install 'wggml[train]'
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wggml import Context, Tensor, WggmlError, open_gguf, ops
from wggml.core.optimizer import AdamW
from wggml.errors import UsageError
from wggml.gguf_io.writer import write_gguf
from wggml.train import Trainer

F32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SHAPES = {"w1": (64, 64), "b1": (64,), "w2": (10, 64), "b2": (10,)}
BATCH = 32
ARCHITECTURE = "wggml-digits"


def net(ctx: Context, w: Mapping[str, Tensor], pixels: Tensor) -> Tensor:
    """Two layers: pixels ne [64, batch] -> logits ne [10, batch]."""
    hidden = ops.gelu(ctx, ops.add(ctx, ops.mul_mat(ctx, w["w1"], pixels), w["b1"]))
    return ops.add(ctx, ops.mul_mat(ctx, w["w2"], hidden), w["b2"])


def first_weights(seed: int) -> dict[str, F32]:
    rng = np.random.default_rng(seed)
    return {
        k: (rng.standard_normal(s) * (len(s) > 1) * np.sqrt(2 / s[-1])).astype(np.float32)
        for k, s in SHAPES.items()
    }


def load_digits() -> tuple[tuple[F32, Ints], tuple[F32, Ints]]:
    """1437 images to learn from and 360 to be tested on: pixels [n, 64] in -1 .. 1, digits [n]."""
    spec = find_spec("sklearn")
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0] if folders else "", "datasets", "data", "digits.csv.gz")
    if not folders or not path.is_file():
        raise UsageError(
            "the digits come with scikit-learn, which is not installed (or lacks them); run: "
            "pip install 'wggml[train]'"
        )
    with gzip.open(path, "rt") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    table = np.random.default_rng(0).permutation(table)  # the file is in order of writers
    pixels, digits = table[:, :64] / 8 - 1, table[:, 64].astype(np.int64)
    n_test = len(table) // 5
    return (pixels[n_test:], digits[n_test:]), (pixels[:n_test], digits[:n_test])


def read_weights(path: str) -> dict[str, F32]:
    with open_gguf(path) as f:
        return {name: f.read_f32(name) for name in SHAPES}


def train_epoch(trainer: Trainer, x: F32, digits: Ints, rng: np.random.Generator) -> list[float]:
    """All whole batches of the samples in a new order; returns their losses."""
    order = rng.permutation(len(x))[: len(x) // BATCH * BATCH].reshape(-1, BATCH)
    return [trainer.step(x[rows], digits[rows]) for rows in order]


def run(args: argparse.Namespace) -> None:
    (x, digits), (x_test, digits_test) = load_digits()
    start = read_weights(args.load) if args.load else first_weights(args.seed)
    rng = np.random.default_rng(args.seed)
    optimizer = AdamW(alpha=args.rate, weight_decay=1e-3)
    with Trainer(
        net, start, sample=(64,), batch=BATCH, device=args.device, optimizer=optimizer
    ) as trainer:
        print(f"on {trainer.devices[0].name}: {trainer.devices[0].description}")
        began = time.perf_counter()
        for epoch in range(1, args.epochs + 1):
            losses = train_epoch(trainer, x, digits, rng)
            accuracy = trainer.accuracy(x_test, digits_test)
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}, test accuracy {accuracy:.2%}")
        seconds = time.perf_counter() - began
        if trainer.n_steps:
            print(f"{trainer.n_steps} steps, {trainer.n_steps / seconds:.0f} a second")
        print(f"test accuracy {trainer.accuracy(x_test, digits_test):.2%}")
        if args.save:
            write_gguf(args.save, {"general.architecture": ARCHITECTURE}, trainer.weights())
            print(f"saved to {args.save}")


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="Train a small net to read handwritten digits.")
    p.add_argument("--device", help="index or part of a name (see `wggml devices`)")
    p.add_argument("--epochs", type=int, default=10, help="rounds over the images (default 10)")
    p.add_argument("--rate", type=float, default=2e-3, help="learning rate (default 0.002)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--save", metavar="FILE", help="write the trained weights (GGUF)")
    p.add_argument("--load", metavar="FILE", help="start from saved weights")
    try:
        run(p.parse_args(argv))
    except WggmlError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
