"""Lanes side by side in lockstep: a lane program as a JAX function of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .lockstep import LockstepMemory
from .memory import DTYPES, Layout

Simulate = Callable[..., dict[str, Any]]
"""`simulate(memory, seed, *columns) -> results`, every argument a scalar ([lanes] in lockstep)."""


def lockstep_lanes(layout: Layout, simulate: Simulate, data: np.ndarray[Any, Any]) -> Callable[..., dict[str, Any]]:
    """All lanes of a call side by side: `f(seeds, *columns) -> results`, metrics as [lanes, metrics].

    The banks that a caller may look at, as each lane left them, are among the results under their names.
    """

    def lanes(seeds: Array, *columns: Array) -> dict[str, Any]:
        count = seeds.shape[0]
        banks = {b: jnp.zeros((count, n), DTYPES[b]) for b, n in layout.size.items() if n}
        nz = columns[0] * 0.0 * -1.0
        memory = LockstepMemory({**banks, "d": jnp.asarray(data)}, count, nz)
        out = simulate(memory, seeds, *columns)
        keep = {bank: memory.banks[bank] for bank in ("x", "h", "f") if layout.size[bank]}
        return {**out, "metrics": jnp.stack(list(out["metrics"].values()), axis=-1), **keep}

    return lanes
