"""The eviction weights of eviction_weights.sq, tuned by an evolution strategy (evosax's CMA-ES) inside one jit.

    python programs/eviction_weights.py [--generations 20] [--population 8] [--seeds 32] [--horizon 2000]

The strategy maps its objective over the population; under that map the kernel turns candidates into lanes, so a
generation is one call of (population x seeds) runs, and the whole search one jitted scan. All candidates see the same
seeds; the weights found are then compared with least recently used (both weights 0) on other seeds, pair by pair.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import CMA_ES
from scipy import stats

import sqc

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

PROGRAM = Path(__file__).with_suffix(".sq")
METRIC = "client.response.mean"


def search(kernel: Any, generations: int, population: int, seeds: int, horizon: float) -> tuple[Any, Any]:
    """The weights (agent, bulk), s that the search ends with, and the best mean response of each generation."""
    lanes = jnp.arange(1, seeds + 1)
    strategy = CMA_ES(population_size=population, solution=jnp.zeros(2))
    params = strategy.default_params

    def mean_response(weights: Any) -> Any:
        out = kernel(lanes, horizon=horizon, warmup=horizon / 10, agent=weights[0], bulk=weights[1])
        return out[METRIC].mean()

    def generation(state: Any, key: Any) -> Any:
        ask, tell = jax.random.split(key)
        candidates, state = strategy.ask(ask, state, params)
        fitness = jax.vmap(mean_response)(candidates)
        state, _ = strategy.tell(tell, candidates, fitness, state, params)
        return state, fitness.min()

    @jax.jit
    def run(key: Any) -> Any:
        state = strategy.init(key, jnp.zeros(2), params)
        state, best = jax.lax.scan(generation, state, jax.random.split(key, generations))
        return strategy.get_mean(state), best

    weights, best = run(jax.random.key(1))
    return np.asarray(weights), np.asarray(best)


def gain(kernel: Any, weights: Any, seeds: int, horizon: float) -> tuple[float, float]:
    """How much shorter the response is than under lru on seeds that the search has not seen, s: the mean, and the half
    width of its 95 % interval."""
    lanes = np.arange(10_001, 10_001 + seeds)
    plain, tuned = (
        np.asarray(kernel(lanes, horizon=horizon, warmup=horizon / 10, agent=a, bulk=b)[METRIC])
        for a, b in ((0.0, 0.0), weights)
    )
    difference = plain - tuned
    half = stats.t.ppf(0.975, seeds - 1) * difference.std(ddof=1) / seeds**0.5
    return float(difference.mean()), float(half)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--generations", type=int, default=20)
    options.add_argument("--population", type=int, default=8)
    options.add_argument("--seeds", type=int, default=32)
    options.add_argument("--horizon", type=float, default=2000.0)
    given = options.parse_args()
    kernel = sqc.compile(PROGRAM).kernel()
    weights, best = search(kernel, given.generations, given.population, given.seeds, given.horizon)
    print("best of a generation, s:", " ".join(f"{x:.4f}" for x in best[:: max(1, given.generations // 10)]))
    mean, half = gain(kernel, weights, 4 * given.seeds, given.horizon)
    print(f"agent {weights[0]:.1f} s, bulk {weights[1]:.1f} s")
    print(f"the response is {mean:.4f} ±{half:.4f} s shorter than under lru")


if __name__ == "__main__":
    main()
