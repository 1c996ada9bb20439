"""An expression of metrics as a function of inputs: its mean over the same seeds at every call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import Number, Seeds, point, times
from sqc.inputs import seeds as named_seeds
from sqc.search.expression import expression
from sqc.sweeps.spread import Floats
from sqc.sweeps.student import student_quantile

if TYPE_CHECKING:
    from sqc.kernel import Kernel, LaneBatch
    from sqc.program import Program


def run(
    kernel: Kernel, seeds: NDArray[np.uint64], horizon: float, warmup: float, inputs: Mapping[str, Floats]
) -> LaneBatch:
    """The lanes of one call; Ctrl-C is KeyboardInterrupt (an unfinished mean is of no use)."""
    from sqc.kernel import Interrupted

    try:
        return kernel.lanes(seeds, horizon=horizon, warmup=warmup, inputs=inputs)
    except Interrupted:
        raise KeyboardInterrupt from None


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` independent runs. Unpacks as `mean, standard_error`, which is NaN for a single run."""

    mean: float
    standard_error: float
    n: int

    def __iter__(self) -> Iterator[float]:
        return iter((self.mean, self.standard_error))

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """Of one value for each run; NaN (undefined) is left out."""
        kept = values[~np.isnan(values)]
        n = len(kept)
        if not n:
            return cls(math.nan, math.nan, 0)
        if kept.min() == kept.max():  # what rounding leaves of the spread of equal numbers is no noise
            return cls(float(kept[0]), 0.0 if n > 1 else math.nan, n)
        return cls(float(kept.mean()), float(kept.std(ddof=1)) / math.sqrt(n), n)

    def half(self, confidence: float = 0.95) -> float:
        """The half width of the two-sided Student interval of the mean; inf for a single run."""
        if self.n < 2:
            return math.inf if self.n else math.nan
        return student_quantile(0.5 + 0.5 * confidence, self.n - 1) * self.standard_error


class Objective:
    """`f(inputs)` or `f(C=2e4)`: the mean of an expression over the seeds, and its standard error.

    Every call has the same seeds (common random numbers): the difference of two calls is far less noisy
    than either, and the same inputs give the same numbers. The expression is evaluated for every run and then
    averaged. Inputs that are not given have their defaults.
    """

    def __init__(self, program: Program, text: str, seeds: Seeds, setting: tuple[float, float], mode: str | None):
        self.program = program
        self.kernel = program.kernel(mode=mode)
        self.seeds = np.array(named_seeds(seeds), np.uint64)
        self.horizon, self.warmup = setting
        self.expression = expression(text, list(program.inputs), self.kernel.metrics)

    def __call__(self, inputs: Mapping[str, Number] | None = None, /, **named: Number) -> Estimate:
        """The estimate at one point. Raises RunError if a run breaks a run-time rule."""
        return Estimate.of(self.values([{**(inputs or {}), **named}])[0])

    def values(self, points: Sequence[Mapping[str, Number]], seeds: int | None = None) -> Floats:
        """The expression for every run, [points, seeds], all lanes of one call; NaN where it is undefined.

        `seeds`: only so many of the seeds, the first. Raises RunError if a run breaks a run-time rule.
        """
        rows = [point(given, self.program.inputs) for given in points]
        column = self.seeds[:seeds]
        shape = len(rows), len(column)
        inputs = {name: np.repeat([row[name] for row in rows], shape[1]) for name in self.program.inputs}
        lanes = np.tile(column, shape[0])
        batch = run(self.kernel, lanes, self.horizon, self.warmup, inputs)
        if batch.failures:
            from sqc.program import RunError

            lane, failure = next(iter(batch.failures.items()))
            raise RunError(failure, self.program.ir, int(lanes[lane]))
        return self.expression.values(batch.metrics, inputs).reshape(shape)


def objective(
    program: Program,
    metric: str,
    *,
    horizon: Number,
    seeds: Seeds,
    warmup: Number = 0.0,
    mode: str | None = None,
) -> Objective:
    """An expression of metrics and inputs, such as `"1e-6 * C + client.response.mean"`, as a function of inputs.

        f = sqc.objective(program, "1e-6 * C + client.response.mean", horizon=2e4, seeds=32, warmup=2e3)
        mean, error = f(C=6e4)

    Every call runs the same seeds. What an expression is: see `sqc.search.expression`. `seeds` and `mode` are
    those of `Program.sweep`.
    """
    end, start, _ = times(horizon, warmup, None)
    return Objective(program, metric, seeds, (end, start), mode)
