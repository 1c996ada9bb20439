"""A kernel in an optimiser's loop: a population that is evaluated by `jax.vmap` against one flat call of its lanes.

    python benchmarks/kernels.py [--quick] [--json]

The objective is a mean over seeds of the founding program, the population are capacities. `ratio` is the speed
of the row (simulated time of all lanes per second) over that of the flat call, outside JAX: 1 is native speed. `one by
one` is a `lax.map` over the same population; `in lockstep` the mapped axis of the portable path, on fewer and shorter
runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from side_by_side import CORES, CORPUS, best, command_line, show

import sqc

METRIC = "client.response.mean"
LOCKSTEP_POPULATION, LOCKSTEP_HORIZON = 8, 20.0


def _wait(call: Callable[[Any], Any], given: Any) -> Any:
    return call(given).block_until_ready()


def main() -> None:
    options, console = command_line(__doc__)
    population, seeds, horizon = (16, 4, 500.0) if options.quick else (64, 8, 2_000.0)
    program = sqc.compile(CORPUS / "04-cache.sq")
    kernel, lockstep = program.kernel(mode="native"), program.kernel(mode="portable")
    numbers = np.arange(1, seeds + 1, dtype=np.uint64)
    points = np.linspace(2e4, 2e5, population, dtype=np.float32)

    def objective(of: sqc.Kernel, until: float) -> Callable[[Any], Any]:
        return lambda capacity: jnp.mean(of(numbers, horizon=until, C=capacity)[METRIC])

    def flat(given: Any, until: float) -> Any:
        lanes = kernel(np.tile(numbers, len(given)), horizon=until, C=np.repeat(given.astype(float), seeds))
        return lanes[METRIC].reshape(len(given), seeds).mean(axis=1)

    flat(points, horizon)
    took = best(3, lambda: flat(points, horizon))
    native = population * horizon / took
    rows: list[dict[str, Any]] = [
        {"what": "flat call", "points": population, "horizon": horizon, "seconds": took, "ratio": 1.0}
    ]
    rules: dict[str, tuple[Callable[[Any], Any], int, float]] = {
        "vmap": (jax.vmap(objective(kernel, horizon)), population, horizon),
        "one by one": (partial(jax.lax.map, objective(kernel, horizon)), population, horizon),
        "in lockstep": (jax.vmap(objective(lockstep, LOCKSTEP_HORIZON)), LOCKSTEP_POPULATION, LOCKSTEP_HORIZON),
    }
    for name, (rule, count, until) in rules.items():
        call, given = jax.jit(rule), points[:count]
        np.testing.assert_allclose(call(given), flat(given, until), rtol=1e-5)  # and compiles it
        took = best(3, partial(_wait, call, given))
        rows.append(
            {"what": name, "points": count, "horizon": until, "seconds": took, "ratio": count * until / took / native}
        )
    show(console, f"A population of points x {seeds} seeds, {CORES} cores", rows)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
