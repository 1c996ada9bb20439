"""How fast over the whole language on plain stages: a dozen corpus programs, and routing under five policies.

    python benchmarks/language.py            all of it
    python benchmarks/language.py --quick    smaller runs
    python benchmarks/language.py --json     the numbers as JSON, after the table on standard error

Each row is one program on both sides, on the same cores in the same run (see `side_by_side.py`).
"""

from __future__ import annotations

import json
import math
import sys

from side_by_side import CORES, CORPUS, REFERENCE, ROOT, Job, command_line, compare, show

LEAST_MEAN, LEAST = 4.0, 2.0
"""Targets for the ratios: the geometric mean, and every one."""

#: Corpus programs and a horizon at which one run is some tens of thousands of events.
PROGRAMS = {
    "a03_ps_h2": 20_000.0,
    "a07_closed": 10_000.0,
    "b03_classes": 10_000.0,
    "c02_queue_by": 10_000.0,
    "c05_two_pools": 10_000.0,
    "c09_grow_lifo": 10_000.0,
    "c11_lease": 10_000.0,
    "d02_cache_blocks": 10_000.0,
    "d03_evict_by": 10_000.0,
    "d08_at_admission": 10_000.0,
    "e01_choose": 10_000.0,
    "e02_cache_routing": 10_000.0,
    "h01_fork_join": 10_000.0,
    "h02_flows_maxmin": 10_000.0,
}
POLICIES = ("affinity", "least loaded, recompute", "least loaded, fetch", "myopic", "lookahead")


def jobs(quick: bool) -> list[Job]:
    scale, seeds = (0.2, 32) if quick else (1.0, 64)
    rows = [
        Job(name, CORPUS / f"{name}.sq", {}, scale * horizon, scale * horizon / 10, seeds, LEAST)
        for name, horizon in PROGRAMS.items()
    ]
    routing = ROOT / "programs" / "routing.sq"
    for number, policy in enumerate(POLICIES):
        sets = {"policy": float(number)}
        rows.append(Job(f"routing, {policy}", routing, sets, scale * 10_000, scale * 1_000, seeds, LEAST))
    return rows


def main() -> int:
    options, console = command_line(__doc__)
    rows = compare(jobs(options.quick), 2)
    show(console, f"Speed on {CORES} cores", rows)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    if ratios:
        console.print(f"geometric mean {mean:.2f} (at least {LEAST_MEAN:g}), least {min(ratios):.2f} ({LEAST:g})")
    if options.json:
        print(json.dumps({"cores": CORES, "reference": REFERENCE, "geometric_mean": mean, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
