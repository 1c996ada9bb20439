"""Statistics over seeds: mean, interval, spread, for every point of a sweep at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqc.sweeps.student import student_quantile

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Spread:
    """One metric over the seeds of each point; every field is an array with one entry per point.

    `half` is the half width of the Student interval of the mean (inf for a single seed), `sd`
    the standard deviation over seeds (NaN for a single seed), `n` the lanes that defined the metric.
    """

    mean: Floats
    half: Floats
    sd: Floats
    min: Floats
    max: Floats
    n: Ints

    FIELDS = ("mean", "half", "sd", "min", "max", "n")

    @classmethod
    def of(cls, values: Floats, confidence: float = 0.95) -> Spread:
        """The statistics of `values` [points, seeds] along the seeds, NaN left out."""
        kept = ~np.isnan(values)
        n = kept.sum(axis=1)
        p = 0.5 + 0.5 * confidence
        with np.errstate(all="ignore"):
            mean = np.where(kept, values, 0.0).sum(axis=1) / n
            squares = np.where(kept, values - mean[:, None], 0.0) ** 2
            sd = np.where(n > 1, np.sqrt(squares.sum(axis=1) / (n - 1)), np.nan)
            quantiles = np.array([student_quantile(p, int(k) - 1) if k > 1 else math.inf for k in n])
            half = np.where(n > 1, quantiles * sd / np.sqrt(n), np.where(n == 1, np.inf, np.nan))
        least = np.where(n > 0, np.where(kept, values, np.inf).min(axis=1, initial=np.inf), np.nan)
        most = np.where(n > 0, np.where(kept, values, -np.inf).max(axis=1, initial=-np.inf), np.nan)
        return cls(mean, half, sd, least, most, n)

    def at(self, point: int) -> dict[str, float]:
        """The statistics of one point by name."""
        return {name: getattr(self, name)[point].item() for name in self.FIELDS}
