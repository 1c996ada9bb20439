"""Derivatives of sample paths: each run's own, by forward differentiation of the kernel.

Where a program's runs depend smoothly on an input (`sqc.passes.pathwise` says when), the mean over runs of the path's
derivative is the derivative of the mean. It needs one run a seed and no step, and is far less noisy than differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sqc.inputs import InputError, Number, point
from sqc.passes.pathwise import is_smooth, reasons
from sqc.search.objective import Estimate, Objective
from sqc.sweeps.spread import Floats
from sqc_runtime.core import OVERFLOWS

_SMALL = {"sessions": 32, "entries": 32, "stale": 64}
"""Where capacities begin: a step of the portable path costs by the memory of a lane."""


class Pathwise:
    """`g(inputs)` or `g(r=0.5)`: the derivative of a mean with respect to each input of `wrt`, by name.

    The kernel is differentiated by `jax.jvp` on the portable path; the runs are those of the objective.
    """

    def __init__(self, of: Objective, wrt: Sequence[str]) -> None:
        self.objective, self.wrt = of, tuple(wrt)
        program, metric = of.program.ir, of.expression.text.strip().strip("'")
        found = reasons(program)
        for name in self.wrt:
            if found[name] is not None:
                raise InputError(f"gradient: no pathwise derivative along {name}: {found[name]}")
            if not is_smooth(program, metric, name):
                raise InputError(
                    f"gradient: {metric} has no pathwise derivative: it must be a mean of times, as it stands"
                )
        self._metric = metric
        self._capacities = {**of.kernel.capacities, **_SMALL}

    def __call__(self, inputs: Mapping[str, Number] | None = None, /, **named: Number) -> dict[str, Estimate]:
        """The derivatives at one point. Raises RunError if a run breaks a run-time rule."""
        at = point({**(inputs or {}), **named}, self.objective.program.inputs)
        self.objective.values([at])  # raises what the runs raise
        return {name: Estimate.of(self._along(name, at)) for name in self.wrt}

    def _along(self, name: str, at: Mapping[str, float]) -> Floats:
        """The derivative of each run. The capacities grow until all runs fit."""
        import jax

        names = list(self.objective.program.inputs)
        direction = np.array([float(other == name) for other in names])
        while True:
            with jax.enable_x64(True):
                slopes, status = self._slopes(np.array([at[other] for other in names]), direction)
            short = {OVERFLOWS[code] for code in np.unique(np.asarray(status)).tolist() if code in OVERFLOWS}
            if not short:
                return np.asarray(slopes, np.float64)
            self._capacities |= {name: 2 * self._capacities[name] for name in short}
            del self._slopes

    @cached_property
    def _slopes(self) -> Callable[..., Any]:
        """The derivative of each run at a point, in a direction of all inputs; and how the run ended."""
        import jax
        import jax.numpy as jnp

        from sqc.build import Options, PortableBuild

        of = self.objective
        build = PortableBuild(of.program.ir, self._capacities, Options(skip=of.program.skip))
        place, count = build.about.metrics.index(self._metric), len(of.seeds)

        def run(inputs: Any) -> Any:
            columns = [of.horizon, of.warmup, np.inf, *inputs]
            out = build.call(jnp.asarray(of.seeds), *(jnp.full(count, column, jnp.float64) for column in columns))
            return out["metrics"][:, place], out["status"]

        def slopes(inputs: Any, direction: Any) -> Any:
            _, slope, status = jax.jvp(run, (inputs,), (direction,), has_aux=True)
            return slope, status

        return jax.jit(slopes)
