"""When the seeds of a point suffice.

The intervals of a point are looked at after n, 1.5 n, 2.25 n, ... seeds, up to a largest number; the point
is done at the first look at which every target is reached. Who looks again and again at 95 % intervals
and stops when one pleases has less than 95 %. So each look takes the nominal confidence of Pocock (1977,
Biometrika 64:191): one level for all looks, such that with normal data the intervals of all looks cover
together with 95 %, and so does the one at which the point stops, whatever the rule of stopping. The level is
found by the recursion of Armitage, McPherson and Rowe (1969, JRSS A 132:235) at the actual numbers of seeds;
Student's quantile at that level stands for the normal one, as Pocock advises where the variance is estimated.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import InputError, Number, did_you_mean, number, seed
from sqc.sweeps.spread import Floats, Ints, Spread
from sqc.textform import shortest

GROWTH = 1.5
"""Seeds of a look over those of the look before."""
CONFIDENCE = 0.95
_NODES = 64
_PRECISION = 1e-9


@dataclass(frozen=True)
class Until:
    """Add seeds to a point until the half width of the interval of each of these metrics is at most its target.

    `targets` maps metrics to (target, whether it is relative to the mean). No point gets more than `most` seeds.
    """

    targets: Mapping[str, tuple[float, bool]]
    most: int

    def __str__(self) -> str:
        """`client.response.mean ±1%`."""
        targets = self.targets.items()
        return ", ".join(f"{name} ±{f'{100 * half:.6g}%' if of else shortest(half)}" for name, (half, of) in targets)

    def sizes(self, first: int) -> tuple[int, ...]:
        """Numbers of seeds at which the intervals are looked at."""
        sizes = [min(first, self.most)]
        while sizes[-1] < self.most:
            sizes.append(min(math.ceil(GROWTH * sizes[-1]), self.most))
        return tuple(sizes)

    def reached(self, lanes: Mapping[str, Floats], confidence: float) -> NDArray[np.bool_]:
        """Which points have reached every target, from metrics as arrays [points, seeds]."""
        every = []
        for name, (target, relative) in self.targets.items():
            spread = Spread.of(lanes[name], confidence)
            limit = target * np.abs(spread.mean) if relative else target
            every.append(spread.half <= limit)
        result: NDArray[np.bool_] = np.logical_and.reduce(every)
        return result

    def asked(self, first: int, lanes: Mapping[str, Floats], done: NDArray[np.bool_]) -> Ints:
        """How many seeds each point is to have, as far as the finished lanes tell."""
        sizes = self.sizes(first)
        confidence = nominal_confidence(sizes)
        asked = np.full(len(done), sizes[0])
        going = np.ones(len(done), bool)
        for size, larger in itertools.pairwise(sizes):
            whole = done[:, :size].all(axis=1) & (done.shape[1] >= size)
            going &= whole
            if not going.any():
                break
            here = np.flatnonzero(going)
            near = {name: lanes[name][here, :size] for name in self.targets}
            going[here] = ~self.reached(near, confidence)
            asked[going] = larger
        return asked


def until(targets: Mapping[str, Number], most: int, seeds: Sequence[int], metrics: Sequence[str]) -> Until:
    """Targets as texts and numbers: `1%` of the mean, or a half width. Raises InputError for a wrong one."""
    parsed = {}
    for name, given in targets.items():
        if name not in metrics:
            raise InputError(f"until: no metric {name}{did_you_mean(name, metrics)}")
        relative = isinstance(given, str) and given.strip().endswith("%")
        text = given.strip().removesuffix("%") if isinstance(given, str) else given
        target = number(text, f"until {name}") / (100 if relative else 1)
        if not 0 < target < math.inf:
            raise InputError(f"until {name}={given}: a half width above 0, or 1% of the mean")
        parsed[name] = (target, relative)
    if len(seeds) < 2:
        raise InputError("until: at least 2 seeds to begin with")
    if most < len(seeds):
        raise InputError(f"max-seeds {most}: below the {len(seeds)} seeds to begin with")
    seed(max(seeds) + most - len(seeds))
    return Until(parsed, most)


@functools.cache
def nominal_confidence(sizes: Sequence[int], confidence: float = CONFIDENCE) -> float:
    """The confidence of the interval at each look, so that those at all these sample sizes cover together.

    For one look it is `confidence` itself.
    """
    if len(sizes) == 1:
        return confidence
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = 1.0, 6.0
    while high - low > _PRECISION:
        bound = 0.5 * (low + high)
        low, high = (bound, high) if _together(sizes, bound, nodes, weights) < confidence else (low, bound)
    return 2 * NormalDist().cdf(high) - 1


def _together(sizes: Sequence[int], bound: float, nodes: Floats, weights: Floats) -> float:
    """The chance that sums of so many standard normals all stay within `bound` standard deviations.

    The density of the sum on the paths that stayed within, carried from look to look on Gauss-Legendre nodes.
    """
    edge = bound * math.sqrt(sizes[0])
    sums, density = edge * nodes, _normal(edge * nodes, sizes[0])
    for before, size in itertools.pairwise(sizes):
        carried = density * weights * edge
        edge = bound * math.sqrt(size)
        density = _normal(edge * nodes[:, None] - sums, size - before) @ carried
        sums = edge * nodes
    return float(density @ weights * edge)


def _normal(x: Floats, variance: float) -> Floats:
    result: Floats = np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    return result
