"""The best threshold of size_split.sq: gradient descent (optax) on finite differences under common random numbers.

    python programs/size_split.py [--steps 40] [--seeds 256] [--horizon 10000] [--start 6]

Every step runs the same seeds a little below and a little above the threshold, in one call: the kernel is mapped over
the two thresholds, which become more lanes. The whole descent is one jitted scan. It ends with the threshold found, the
one that queueing theory finds (two M/G/1 servers, Pollaczek-Khinchine), and the mean responses of both by that formula.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize_scalar

import sqc

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

PROGRAM = Path(__file__).with_suffix(".sq")
RATE, SIZE, CV2 = 1.2, 1.0, 9.0  # as the program has them
STEP, REACH = 0.1, 0.5
"""Of the descent; how far from the threshold the two sides of a difference are."""


def theory(threshold: float) -> float:
    """The mean response: sizes below the threshold at one M/G/1 server, the others at a second; inf if overloaded."""
    p = 0.5 * (1 + math.sqrt((CV2 - 1) / (CV2 + 1)))
    phases = ((p, SIZE / (2 * p)), (1 - p, SIZE / (2 * (1 - p))))  # two exponentials of equal load
    moments = np.zeros((2, 3))  # [short, long][share, mean, second moment], not normalised
    for share, mean in phases:
        x = threshold / mean
        below = np.array([1, mean, 2 * mean**2]) - math.exp(-x) * np.array(
            [1, mean * (1 + x), mean**2 * (2 + 2 * x + x * x)]
        )
        moments += share * np.array([below, np.array([1, mean, 2 * mean**2]) - below])
    response = 0.0
    for share, first, second in moments:
        load = RATE * first
        if load >= 1:
            return math.inf
        response += share * RATE * second / (2 * (1 - load)) + first
    return float(response)


def best_by_theory() -> float:
    return float(minimize_scalar(theory, bounds=(1.0, 20.0), method="bounded").x)


def descend(start: float, steps: int, seeds: int, horizon: float) -> Any:
    """The thresholds of a descent: an array (steps + 1,)."""
    kernel = sqc.compile(PROGRAM).kernel()
    lanes = jnp.arange(1, seeds + 1)
    optimiser = optax.adam(optax.cosine_decay_schedule(5 * STEP, steps))

    def mean_response(threshold: Any) -> Any:
        out = kernel(lanes, horizon=horizon, warmup=horizon / 10, threshold=threshold)
        return out["client.response.mean"].mean()

    def step(carry: Any, _: Any) -> Any:
        log, state = carry
        threshold = jnp.exp(log)
        below, above = jax.vmap(mean_response)(threshold + REACH * jnp.array([-1.0, 1.0]))
        slope = (above - below) / (2 * REACH)
        update, state = optimiser.update(slope * threshold, state)  # along the logarithm: thresholds are positive
        log = optax.apply_updates(log, update)
        return (log, state), jnp.exp(log)

    @partial(jax.jit, static_argnums=1)
    def run(log: Any, length: int) -> Any:
        return jax.lax.scan(step, (log, optimiser.init(log)), length=length)[1]

    first = jnp.log(jnp.asarray(start))
    return np.concatenate([[start], np.asarray(run(first, steps))])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--seeds", type=int, default=256)
    options.add_argument("--horizon", type=float, default=10_000.0)
    options.add_argument("--start", type=float, default=6.0)
    given = options.parse_args()
    path = descend(given.start, given.steps, given.seeds, given.horizon)
    print("thresholds:", " ".join(f"{x:.2f}" for x in path[:: max(1, given.steps // 10)]))
    found, best = float(path[-1]), best_by_theory()
    print(f"found {found:.2f}: mean response {theory(found):.4f}   theory {best:.2f}: {theory(best):.4f}")


if __name__ == "__main__":
    main()
