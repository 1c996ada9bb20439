"""How often the intervals of sweeps cover: M/M/1 at load 0.8, whose exact means are known.

    python benchmarks/coverage.py            500 sweeps of 30 seeds, and 500 with --until; some minutes
    python benchmarks/coverage.py --quick    100 of each
    python benchmarks/coverage.py --json     the numbers as JSON

Three questions. How often do the 95 % Student intervals of a sweep of 30 seeds contain the exact mean? How often
does the interval at which a sweep with `until` stops contain it, and how many seeds did that take? How often would
it contain it with the same looks at plain 95 % intervals, uncorrected? Every sweep has seeds of its own.
A share p of n sweeps is known to about 2 sqrt(p (1 - p) / n): 2 points of a hundred for 500.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import sqc
from sqc.sweeps.looks import CONFIDENCE, Until
from sqc.sweeps.spread import Spread

RHO = 0.8
PROGRAM = f"""
fn main() {{
  stage svc : fifo;
  workload {{ arrive poisson({RHO}); turn {{ set w = ~exp(1); }} }}
  server {{ run svc (cost(svc, w)); }}
}}
"""
HORIZON, WARMUP = 10_000.0, 1_000.0
"""In mean service times; the queue forgets its start within some hundreds."""
EXACT = {
    "client.response.mean": 1 / (1 - RHO),
    "stage.svc.mean_wait": RHO / (1 - RHO),
    "stage.svc.mean_number": RHO / (1 - RHO),
    "stage.svc.utilization": RHO,
    "mean_live": RHO / (1 - RHO),
}
TARGET, SEEDS, MOST = "client.response.mean", 30, 2_000
HALVES = ("5%", "3%", "2%")


def fixed(program: sqc.Program, sweeps: int) -> list[dict[str, Any]]:
    """Coverage of the plain intervals."""
    table = program.sweep(sweeps * SEEDS, horizon=HORIZON, warmup=WARMUP)
    rows = []
    for name, exact in EXACT.items():
        spread = Spread.of(table.lanes[name].reshape(sweeps, SEEDS))
        covered = np.abs(spread.mean - exact) <= spread.half
        relative = float((spread.half / exact).mean())
        rows.append({"metric": name, "exact": exact, "covered": float(covered.mean()), "mean_half": relative})
    return rows


def sequential(program: sqc.Program, sweeps: int, half: str) -> dict[str, Any]:
    """Coverage where seeds are added until the interval is narrow, with looks corrected and not."""
    exact, seeds = EXACT[TARGET], []
    covered, plain, plain_seeds, reached = [], [], [], []
    for number in range(sweeps):
        first = 1 + number * MOST
        table = program.sweep(
            f"{first}:{first + SEEDS - 1}", horizon=HORIZON, warmup=WARMUP, until={TARGET: half}, max_seeds=MOST
        )
        spread = table.metric(TARGET)
        covered.append(abs(spread.mean[0] - exact) <= spread.half[0])
        seeds.append(int(spread.n[0]))
        reached.append(bool(table.reached[0]))
        assert table.until is not None
        mean, width, count = uncorrected(table.until, table.lanes)
        plain.append(abs(mean - exact) <= width)
        plain_seeds.append(count)
    return {
        "half": half,
        "covered": float(np.mean(covered)),
        "seeds": float(np.mean(seeds)),
        "reached": float(np.mean(reached)),
        "uncorrected_covered": float(np.mean(plain)),
        "uncorrected_seeds": float(np.mean(plain_seeds)),
    }


def uncorrected(until: Until, lanes: Mapping[str, Any]) -> tuple[float, float, int]:
    """Mean, half width and seeds at the first look at which the plain interval is narrow enough.

    The lanes of the corrected sweep suffice: it stops at that look or later.
    """
    for size in until.sizes(SEEDS):
        part = {TARGET: lanes[TARGET][:, :size]}
        if until.reached(part, CONFIDENCE)[0] or size >= lanes[TARGET].shape[1]:
            break
    spread = Spread.of(part[TARGET])
    return float(spread.mean[0]), float(spread.half[0]), int(spread.n[0])


def markdown(results: Mapping[str, Any]) -> str:
    """The tables as they stand in README.md."""
    lines = ["| metric | exact mean | covered | mean half width |", "|---|---|---|---|"]
    for row in results["fixed"]:
        lines.append(f"| {row['metric']} | {row['exact']:g} | {row['covered']:.1%} | {row['mean_half']:.2%} |")
    lines += ["", "| until | covered | seeds | with looks at plain 95 %: covered | seeds |", "|---|---|---|---|---|"]
    for row in results["until"]:
        plain = f"{row['uncorrected_covered']:.1%} | {row['uncorrected_seeds']:.0f}"
        lines.append(f"| {row['half']} | {row['covered']:.1%} | {row['seeds']:.0f} | {plain} |")
    error = 2 * math.sqrt(0.95 * 0.05 / results["sweeps"])
    return "\n".join([*lines, "", f"{results['sweeps']} sweeps each; two standard errors of 95 %: {error:.1%}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 sweeps instead of 500")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    sweeps = 100 if options.quick else 500
    program = sqc.compile(source=PROGRAM)
    results: dict[str, Any] = {
        "sweeps": sweeps,
        "fixed": fixed(program, sweeps),
        "until": [sequential(program, sweeps, half) for half in HALVES],
    }
    print(json.dumps(results, indent=1) if options.json else markdown(results))


if __name__ == "__main__":
    main()
