"""How often the things that matter happen in generated programs, by the reference alone.

    python tests/occurs.py [--count 40] [--profile preempt ...]

A comparison of programs in which nothing is evicted says nothing about eviction: this table is how
the generator is kept honest. One line is one profile: the share of its programs that the reference
runs to the end, then the share of those in which each thing happened.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import reference
from generating import PROFILES, Case, generate
from isolated import Hangs

#: What a run's report shows, by name.
HAPPENED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "stage wait": lambda run: any(row["mean_wait"] for row in run["stages"]),
    "pool wait": lambda run: any(row["mean_queue"] for row in run["pools"]),
    "cached": lambda run: any(row["mean_cached"] for row in run["pools"]),
    "evict": lambda run: any(row["evicted_entries"] for row in run["pools"]),
    "preempt": lambda run: any(row["preemptions"] for row in run["pools"]),
    "stuck": lambda run: any(row["stuck"] for row in run["pools"]),
    "growing": lambda run: any(row["growing_at_end"] for row in run["pools"]),
    "spill": lambda run: any(row["spills"] for row in run["pools"]),
    "reject": lambda run: any(row["rejected"] for row in run["pools"]),
    "over cap": lambda run: any(row["over_cap"] for row in run["pools"]),
    "iterations": lambda run: any(row["iterations"] for row in run["stages"]),
    "mixed": lambda run: any(row["mixed"] for row in run["stages"]),
}
LEASE_TIME = re.compile(r"(lease [\w\[\]]+ )\((?:[^()]|\([^()]*\))*\)")


def occurrences(case: Case) -> set[str] | None:
    """What happened in the case's first run at any of its settings; None if the reference did not run it."""
    seen: set[str] = set()
    try:
        for sets in case.sets:
            report = _run(case, case.source, sets)
            seen |= {name for name, test in HAPPENED.items() if test(report)}
            if "block" in case.source and any(row["evicted_units"] for row in report["pools"]):
                seen.add("by block")
            if _lease_ends(case, sets, report):
                seen.add("lease ends")
    except (reference.Refused, Hangs):
        return None
    return seen


def _lease_ends(case: Case, sets: dict[str, float], report: dict[str, Any]) -> bool:
    """Whether the run would be another one if leases had no end."""
    endless = LEASE_TIME.sub(r"\1(inf)", case.source)
    if endless == case.source:
        return False
    try:
        return bool(_run(case, endless, sets)["events"] != report["events"])
    except reference.Refused:
        return True


def _run(case: Case, source: str, sets: dict[str, float]) -> dict[str, Any]:
    return reference.run(
        source,
        horizon=case.horizon,
        warmup=case.warmup,
        arrivals=case.arrivals,
        seed=case.seeds[0],
        sets=sets,
        files=dict(case.files),
        limit=5.0,
    ).report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="programs of each profile")
    parser.add_argument("--profile", nargs="*", choices=list(PROFILES), default=list(PROFILES))
    options = parser.parse_args()
    names = [*HAPPENED, "by block", "lease ends"]
    print(f"{'':9}{'run':>6}" + "".join(f"{name:>11}" for name in names))
    for profile in options.profile:
        cases = [generate(Random(f"{profile} {number}"), profile) for number in range(options.count)]
        found = [seen for seen in map(occurrences, cases) if seen is not None]
        counts = Counter(name for seen in found for name in seen)
        shares = "".join(f"{counts[name] / max(len(found), 1):>11.0%}" for name in names)
        print(f"{profile:9}{len(found) / len(cases):>6.0%}{shares}", flush=True)


if __name__ == "__main__":
    main()
