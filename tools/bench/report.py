"""docs/performance.md out of one run of all benchmarks.

`report.py --run DIR` runs them and keeps their JSON files in DIR, `report.py DIR` writes the page
and its pictures from such files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import Figure, Report, number
from _plot import svg

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"

# (file name, script, arguments); {model}, {device} and {name} are filled in for each pair.
EACH_MODEL = (
    ("decode", "decode.py", ["--context", "64", "512", "2048"]),
    ("prefill", "prefill.py", ["--prompt", "128"]),
    ("host", "host.py", []),
    ("startup", "startup.py", []),
    ("memory", "memory.py", []),
)
EACH_DEVICE = (
    ("ops", "ops.py", []),
    ("context", "scale.py", ["--axis", "context"]),
    ("batch", "scale.py", ["--axis", "batch"]),
    ("layers", "scale.py", ["--axis", "layers"]),
    ("vocabulary", "scale.py", ["--axis", "vocabulary"]),
)

PAGE = """# Performance

{intro}

Each figure is a median with its quartiles, beside what the machine can do at best, measured in the
same run: for a GPU the larger of (bytes of the weights / copy rate) and (multiply-adds / peak of a
kernel that does nothing else), for NumPy a walk of f32 `sgemv` over all weights, or BLAS's peak for
prompts. 100 % is that floor. Repeat with `python tools/bench/report.py --run DIR`, then
`python tools/bench/report.py DIR`.

{sections}
"""


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", type=Path, help="where the JSON files are (or go, with --run)")
    p.add_argument("--run", action="store_true", help="run the benchmarks first")
    p.add_argument("--model", nargs="+", default=["smollm2"])
    p.add_argument("--device", nargs="+", default=["cpu"])
    p.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    p.add_argument("--quick", action="store_true")
    return p


def run_all(args: argparse.Namespace) -> None:
    """Every benchmark in a process of its own; one that fails is said and left out."""
    args.folder.mkdir(parents=True, exist_ok=True)
    for device in args.device:
        jobs = [(m, job) for m in args.model for job in EACH_MODEL]
        jobs += [(args.model[0], job) for job in EACH_DEVICE]
        for model, (name, script, more) in jobs:
            out = args.folder / f"{device}-{Path(model).stem}-{name}.json".replace("/", "_")
            command = [sys.executable, str(HERE / script), "--model", model, "--device", device]
            command += [*more, "--json", str(out), *(["--quick"] if args.quick else [])]
            print(f"{device} {model} {name}", flush=True)
            if subprocess.run(command, check=False).returncode:
                print(f"{name} failed; the page will lack it", file=sys.stderr)


def load(folder: Path) -> dict[str, Report]:
    """Reports by file name."""
    files = sorted(folder.glob("*.json"))
    return {f.stem: Report.from_json(json.loads(f.read_text(encoding="utf-8"))) for f in files}


def page(reports: dict[str, Report]) -> str:
    """The page as Markdown; pictures are named after the reports."""
    first = next(iter(reports.values()))
    sections = "\n\n".join(_section(name, r) for name, r in reports.items())
    return PAGE.format(intro=_intro(first.machine), sections=sections)


def _intro(m: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in m.get("versions", {}).items())
    return (
        f"Measured {m.get('when')} on {m.get('processor')} with {m.get('cores')} cores, "
        f"{m.get('system')}, Python {m.get('python')}, {versions}; BLAS: {m.get('blas')}."
    )


def _section(name: str, r: Report) -> str:
    device = r.settings.get("device") or {}
    facts = [str(device[k]) for k in ("description", "api", "driver") if device.get(k)]
    lines = [f"## {r.title} ({name.partition('-')[0]})", ""]
    if facts:
        lines += [", ".join(facts) + ".", ""]
    lines += [f"![{r.title}](performance/{name}.svg)", ""]
    lines += ["| | median | quartiles | floor | share |", "|---|---|---|---|---|"]
    lines += [_row(f) for f in r.figures]
    lines += ["", *r.notes] if r.notes else []
    return "\n".join(lines)


def _row(f: Figure) -> str:
    floor = "" if f.floor is None else f"{number(f.floor)} ({f.floor_name})"
    share = "" if f.share is None else f"{f.share:.0%}"
    spread = f"{number(f.low)} .. {number(f.high)}"
    return f"| {f.label.strip()} | {number(f.median)} {f.unit} | {spread} | {floor} | {share} |"


def main(argv: list[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    if args.run:
        run_all(args)
    reports = load(args.folder)
    if not reports:
        print(f"no JSON files in {args.folder}; run with --run first", file=sys.stderr)
        return 2
    pictures = args.docs / "performance"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, r in reports.items():
        (pictures / f"{name}.svg").write_text(svg(r), encoding="utf-8")
    (args.docs / "performance.md").write_text(page(reports), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
