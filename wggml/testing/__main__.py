"""`python -m wggml.testing DIR [--device NAME] [--op REGEX] [--case REGEX] [--weights]`: run the
operator golden data on a device and print a table of ops."""

from __future__ import annotations

import argparse
import sys

from wggml.hal.registry import default_registry
from wggml.testing.opcases import CaseResult, iter_cases, run_case, tally


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wggml.testing", description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--op", help="regular expression an op's whole name must match")
    parser.add_argument("--case", help="regular expression searched in '<id> <parameters>'")
    parser.add_argument("--weights", action="store_true", help="weights in a buffer of their own")
    parser.add_argument("--runs", type=int, default=1, help="more than 1 also judges replays")
    args = parser.parse_args(argv)
    backend = default_registry().find(args.device).init_backend()
    results: list[CaseResult] = []
    for case in iter_cases(args.directory, args.op, args.case):
        r = run_case(case, backend, weights_buffer=args.weights, runs=args.runs)
        results.append(r)
        if r.status == "fail":
            print(f"FAIL {case}: {r.reason}", flush=True)
    print(f"{'op':32} {'passed':>7} {'failed':>7} {'unsupported':>12}")
    for op, n in sorted(tally(results).items()):
        print(f"{op:32} {n['pass']:7} {n['fail']:7} {n['unsupported']:12}")
    failed = sum(r.status == "fail" for r in results)
    unsupported = sorted({r.reason for r in results if r.status == "unsupported"})
    for reason in unsupported:
        print(f"unsupported: {reason}")
    passed = sum(r.status == "pass" for r in results)
    rest = len(results) - passed - failed
    print(f"{len(results)} cases: {passed} passed, {failed} failed, {rest} unsupported")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
