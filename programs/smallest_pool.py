"""The smallest KV pool of 04-cache.sq at which the 99th percentile of the response stays below a limit.

    python programs/smallest_pool.py [--limit 0.25] [--budget 4000] [--horizon 4000] [--grid 25] [--seeds 200]
        [--picture FILE]

A search (`sqc.optimize`) minimises the pool subject to the bound, and says with which confidence it holds. Then a fine
grid around the pool found, with seeds that the search did not see, shows from which pool on the bound holds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sqc

PROGRAM = Path(__file__).with_name("04-cache.sq")
METRIC = "client.response.p99"
LOW, HIGH = 1e4, 2e5
FIRST_SEED = 1_000_001
"""Of the grid; a search counts from 1."""


def search(program: sqc.Program, limit: float, budget: int, horizon: float) -> sqc.Outcome:
    return sqc.optimize(
        program,
        "C",
        over={"C": f"{LOW}:{HIGH}log"},
        subject_to=f"{METRIC} <= {limit}",
        horizon=horizon,
        warmup=horizon / 10,
        budget=budget,
    )


def by_grid(program: sqc.Program, limit: float, pools: np.ndarray, seeds: int, horizon: float) -> float:
    """The smallest pool of a grid from which on the bound holds with 95 % confidence at every larger one."""
    unseen = range(FIRST_SEED, FIRST_SEED + seeds)
    table = program.sweep(unseen, horizon=horizon, warmup=horizon / 10, sets={"C": pools.tolist()})
    spread = table.metric(METRIC)
    holds = spread.mean + spread.half <= limit
    broken = np.flatnonzero(~holds)
    first = broken[-1] + 1 if len(broken) else 0
    return float(pools[first]) if first < len(pools) else float("inf")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--limit", type=float, default=0.25)
    options.add_argument("--budget", type=int, default=4000)
    options.add_argument("--horizon", type=float, default=4000.0)
    options.add_argument("--grid", type=int, default=25)
    options.add_argument("--seeds", type=int, default=200, help="of each point of the grid")
    options.add_argument("--picture", help="draw what was tried")
    given = options.parse_args()
    program = sqc.compile(PROGRAM)
    found = search(program, given.limit, given.budget, given.horizon)
    print(found)
    pool = found.inputs["C"]
    pools = np.linspace(0.7 * pool, 1.3 * pool, given.grid).round()
    print(
        f"grid       from C={by_grid(program, given.limit, pools, given.seeds, given.horizon):.0f} on the bound holds"
    )
    if given.picture:
        from sqc import pictures

        pictures.save(found.plot(), given.picture)


if __name__ == "__main__":
    main()
