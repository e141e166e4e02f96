"""Single operators: matrix products of every weight type, and the small ops of a layer.

Products are chains of square matrices, each reading the one before, so that nothing is merged or
overlapped; the time is that of one link. One column is what generating a token does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from _common import Figure, Report, device_facts, main, samples_of
from _models import Product, peaks, sgemv_seconds

from wggml.core import ops
from wggml.core.context import Context
from wggml.core.opcodes import GluOp
from wggml.core.tensor import Tensor
from wggml.core.types import Type, row_size
from wggml.hal.interface import Device, DeviceType
from wggml.session import Session

DESCRIPTION = __doc__
TYPES = [
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "MXFP4", "F16", "BF16", "F32",
]  # fmt: skip
SMALL: dict[str, Callable[[Context, Tensor], Tensor]] = {
    "rms_norm": lambda ctx, x: ops.rms_norm(ctx, x, 1e-5),
    "add": lambda ctx, x: ops.add(ctx, x, x),
    "silu": ops.silu,
    "soft_max": ops.soft_max,
    "swiglu": lambda ctx, x: ops.glu_split(ctx, x, x, GluOp.SWIGLU),
}


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--types", nargs="+", default=TYPES, metavar="TYPE", help="weight types")
    p.add_argument("--size", type=int, default=1024, help="rows and columns of a matrix")
    p.add_argument("--columns", type=int, nargs="+", default=[1, 64])
    p.add_argument("--links", type=int, default=8, help="matrices in a chain")
    p.add_argument("--seconds", type=float, default=0.4, help="for each figure")


def run(args: argparse.Namespace) -> Report:
    size, links = (256, 2) if args.quick else (args.size, args.links)
    columns = [1, 4] if args.quick else args.columns
    seconds = 0.0 if args.quick else args.seconds
    report = Report("ops", f"Operators, {size} x {size}", {"size": size, "columns": columns})
    with Session(args.device) as session:
        report.settings["device"] = device_facts(session.devices[0])
    for n in columns:
        for name in args.types:
            _product(report, args.device, Type[name], size, n, links, seconds)
    for name, make in SMALL.items():
        _small(report, args.device, name, make, size, max(columns), links, seconds)
    return report


def _chain_seconds(
    session: Session, x: Tensor, link: Callable[[Tensor, int], Tensor], links: int, budget: float
) -> list[float]:
    """Seconds of one link: the chain's time less that of a chain of one."""
    times = []
    for n in (1, 1 + links):
        y = x
        for i in range(n):
            y = link(y, i)
        times.append(samples_of(lambda y=y: session.compute(y), seconds=budget))
    base = float(np.median(times[0]))
    return [max(t - base, 1e-9) / links for t in times[1]]


def _product(
    report: Report, device: str | None, t: Type, size: int, n: int, links: int, seconds: float
) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((size, size), np.float32) / np.float32(size**0.5)
    with Session(device, max_tensors=64) as s:
        weights = [s.tensor(values, t) for _ in range(1 + links)]
        x = s.tensor(rng.standard_normal((n, size), np.float32))
        spent = _chain_seconds(
            s, x, lambda y, i: ops.mul_mat(s.context, weights[i], y), links, seconds
        )
        floor, floor_name = _product_floor(s.devices[0], t, size, n, links)
        report.add(
            f"mul_mat {t.name} x {n}", "Gweights/s", [size * size / s / 1e9 for s in spent],
            floor=size * size / floor / 1e9, floor_name=floor_name, higher_is_better=True,
        )  # fmt: skip


def _product_floor(device: Device, t: Type, size: int, n: int, links: int) -> tuple[float, str]:
    """(seconds, what it is). The CPU reads f32 copies of its weights, as often from a cache."""
    if device.type is DeviceType.CPU and n == 1:
        products = [Product(size, size, 0, i) for i in range(links)]
        return sgemv_seconds(products) / links, "f32 sgemv"
    p = peaks(device)
    read, work = row_size(t, size) * size / p.copy_bytes_per_s, 2 * size * size * n / p.fma_flops
    return (read, "copy rate") if read > work else (work, "multiply-add peak")


def _small(
    report: Report, device: str | None, name: str, make: Callable[[Context, Tensor], Tensor],
    size: int, n: int, links: int, seconds: float,
) -> None:  # fmt: skip
    with Session(device, max_tensors=64) as s:
        x = s.tensor(np.random.default_rng(0).standard_normal((n, size), np.float32))
        spent = _chain_seconds(s, x, lambda y, i: make(s.context, y), links, seconds)
        floor = 8 * n * size / peaks(s.devices[0]).copy_bytes_per_s
        report.add(
            f"{name} {size} x {n}", "us", [1e6 * t for t in spent], floor=floor * 1e6,
            floor_name="copy rate",
        )  # fmt: skip


def headline(report: Report) -> Figure:
    """The first product."""
    return report.figures[0]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
