"""Derivatives by central differences under common random numbers, for any program.

Each seed gives a difference D(h) = (f(x + h) - f(x - h)) / 2h, and the derivative is their mean. A large step is
biased, by about c h^2; a small one is noisy where runs depend on the input by jumps (another eviction), since
then only few runs change between x - h and x + h, each by much. So the step is chosen, input by input, from a
first look at a quarter of the seeds, at a ladder of steps: c is fitted to the D of the ladder, and of the steps
whose bias is below a quarter of the standard error that all seeds will have, the one with the least is
taken. Steps at which one run in ten or more does not change at all are left out, while there are others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from sqc.inputs import InputError, Number, Seeds, check_names, number, point
from sqc.search.objective import Estimate, Objective, objective
from sqc.search.pathwise import Pathwise
from sqc.sweeps.spread import Floats

if TYPE_CHECKING:
    from sqc.program import Program

DIFFERENCES, PATHWISE = "differences", "pathwise"
"""Methods."""
LADDER = tuple(0.2 / 2**k for k in range(7))
"""Steps tried, as shares of |x| (of 1 where x is 0)."""
_LEAST_SEEDS = 8
_BIAS_SHARE = 0.25
_CHANGED = 0.9


@dataclass(frozen=True)
class Derivative(Estimate):
    """A derivative with its standard error, and the step of the differences (in units of the input)."""

    step: float


class Gradient:
    """`g(inputs)` or `g(C=2e4)`: the derivative of the objective with respect to each input of `wrt`, by name.

    Runs have the seeds of the objective. An input's derivative costs two runs per seed, and the choice of its step
    about half as many again for each step tried.
    """

    def __init__(self, of: Objective, wrt: Sequence[str], steps: Mapping[str, float]) -> None:
        self.objective, self.wrt, self.steps = of, tuple(wrt), dict(steps)

    def __call__(self, inputs: Mapping[str, Number] | None = None, /, **named: Number) -> dict[str, Derivative]:
        """The derivatives at one point. Raises RunError if a run breaks a run-time rule."""
        at = point({**(inputs or {}), **named}, self.objective.program.inputs)
        return {name: self._along(name, at) for name in self.wrt}

    def _along(self, name: str, at: Mapping[str, float]) -> Derivative:
        step = self.steps.get(name) or self._chosen(name, at)
        (values,) = self._differences(name, at, [step], None)
        estimate = Estimate.of(values)
        return Derivative(estimate.mean, estimate.standard_error, estimate.n, step)

    def _differences(self, name: str, at: Mapping[str, float], steps: Sequence[float], seeds: int | None) -> Floats:
        """D for every step and seed, [steps, seeds]; NaN where the objective is undefined."""
        x = at[name]
        ends = [(x + step, x - step) for step in steps]
        values = self.objective.values([{**at, name: end} for pair in ends for end in pair], seeds)
        # What the ends differ by after rounding, not twice the step.
        across = np.array([high - low for high, low in ends])
        differences: Floats = (values[0::2] - values[1::2]) / across[:, None]
        return differences

    def _chosen(self, name: str, at: Mapping[str, float]) -> float:
        total = len(self.objective.seeds)
        look = min(total, max(_LEAST_SEEDS, total // 4))
        steps = np.array(LADDER) * (abs(at[name]) or 1.0)
        values = self._differences(name, at, steps.tolist(), look)
        found = [Estimate.of(row) for row in values]
        means = np.array([estimate.mean for estimate in found])
        errors = np.array([estimate.standard_error for estimate in found]) * math.sqrt(look / total)
        changed = np.array(
            [
                np.mean(row[~np.isnan(row)] != 0) if estimate.n else 0.0
                for row, estimate in zip(values, found, strict=True)
            ]
        )
        usable = np.isfinite(means) & np.isfinite(errors) & (changed >= min(_CHANGED, changed.max()))
        if not usable.any():
            raise InputError(f"gradient: the objective has no finite differences along {name} at {at[name]:g}")
        bias = np.abs(_curvature(steps[usable], means[usable], errors[usable])) * steps[usable] ** 2
        small = bias <= _BIAS_SHARE * errors[usable]
        if not small.any():
            return float(steps[usable].min())
        return float(steps[usable][small][np.argmin(errors[usable][small])])


def _curvature(steps: Floats, means: Floats, errors: Floats) -> float:
    """c of the fit D(h) = D(0) + c h^2, by least squares with weights of one over the variance; 0 for one step."""
    if len(steps) < 2:
        return 0.0
    weights = 1 / np.maximum(errors, 1e-9 * float(errors.max()) or 1.0) ** 2  # without noise: all alike
    squares = steps**2 - np.average(steps**2, weights=weights)
    spread = float(np.sum(weights * squares**2))
    return float(np.sum(weights * squares * means)) / spread if spread else 0.0


@overload
def gradient(
    program: Program,
    metric: str,
    *,
    horizon: Number,
    seeds: Seeds,
    warmup: Number = 0.0,
    wrt: str | Sequence[str] | None = None,
    steps: Mapping[str, Number] | None = None,
    mode: str | None = None,
    method: Literal["differences"] = "differences",
) -> Gradient: ...
@overload
def gradient(
    program: Program,
    metric: str,
    *,
    horizon: Number,
    seeds: Seeds,
    warmup: Number = 0.0,
    wrt: str | Sequence[str] | None = None,
    steps: Mapping[str, Number] | None = None,
    mode: str | None = None,
    method: Literal["pathwise"],
) -> Pathwise: ...
def gradient(
    program: Program,
    metric: str,
    *,
    horizon: Number,
    seeds: Seeds,
    warmup: Number = 0.0,
    wrt: str | Sequence[str] | None = None,
    steps: Mapping[str, Number] | None = None,
    mode: str | None = None,
    method: str = DIFFERENCES,
) -> Gradient | Pathwise:
    """The derivatives of an objective with respect to the inputs `wrt` (one or several; all by default).

        g = sqc.gradient(program, "client.response.mean", horizon=2e4, seeds=64, warmup=2e3, wrt="C")
        slope = g(C=6e4)["C"]          # slope.mean, slope.standard_error, slope.step

    Central differences under common random numbers: every seed at both ends. `steps` gives the steps of some
    inputs, in their units; the others are chosen as the module says. The standard error is that of the noise; the bias
    of a chosen step is estimated to be below a quarter of it.

    `method` "pathwise" differentiates the runs themselves, by `jax.jvp`, where they depend smoothly on the inputs: see
    `sqc.passes.pathwise`, and `sqc compile` for which inputs those are. `metric` is the name of one mean then. Both are
    checked against the derivatives of the mean wait of M/M/1 and M/G/1. InputError says why an input does not qualify.
    """
    if method not in (DIFFERENCES, PATHWISE):
        raise InputError(f"gradient: method {method}: {DIFFERENCES} or {PATHWISE}")
    names = [wrt] if isinstance(wrt, str) else list(program.inputs if wrt is None else wrt)
    check_names(dict.fromkeys([*names, *(steps or {})]), program.inputs)
    given = {name: number(step, f"step of {name}") for name, step in (steps or {}).items()}
    for name, step in given.items():
        if not 0 < step < math.inf:
            raise InputError(f"step of {name}: {step:g} must be above 0 and finite")
    of = objective(program, metric, horizon=horizon, seeds=seeds, warmup=warmup, mode=mode)
    if len(of.seeds) < 2:
        raise InputError("gradient: a standard error needs at least 2 seeds")
    if method == PATHWISE:
        if given:
            raise InputError("gradient: steps are of differences, and the method is pathwise")
        return Pathwise(of, names)
    return Gradient(of, names, given)
