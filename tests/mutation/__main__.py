"""`python -m tests.mutation [REGEX]`: plant every fault (whose name matches) and list which are
caught. Minutes; exit code 1 below 95 % or where an entry of the list is no longer valid."""

from __future__ import annotations

import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.mutation.faults import all_faults
from tests.mutation.harness import Outcome, try_fault

CAUGHT_SHARE = 0.95


def main(pattern: str = "") -> int:
    chosen = [f for f in all_faults() if re.search(pattern, f.name)]
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(2) as pool:
        for o in pool.map(try_fault, chosen):
            outcomes.append(o)
            where = "" if o.fault.on == "lavapipe" else f" [{o.fault.on}]"
            print(f"{o.verdict:9} {o.fault.name}{where}\n          {o.why}", flush=True)
    counts = Counter(o.verdict for o in outcomes)
    judged = counts["caught"] + counts["survived"]
    print(f"{counts['caught']} of {judged} faults caught; {counts['invalid']} invalid, "
          f"{counts['skipped']} skipped")  # fmt: skip
    return 0 if counts["caught"] >= CAUGHT_SHARE * judged and not counts["invalid"] else 1


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2]))
